import json
import math
import os
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.config import CorpusConfig
from kgscale.corpus import files, prepare_corpus
from kgscale.corpus.notices import Faults, Notices
from kgscale.corpus.prepare import read_corpus, shard_size
from kgscale.errors import UserError
from kgscale.runs import CHUNKS_FILE
from kgscale.store import Store


@pytest.fixture
def prepare(tmp_path):
    """Prepare a corpus below `tmp_path`; gives the summary and the rows."""

    def run(path, **config):
        store = Store(tmp_path / "run")
        summary = prepare_corpus(CorpusConfig(path=str(path), **config), store, say=lambda _: None)
        return summary, store.parquet(CHUNKS_FILE).read().to_pylist()

    return run


@pytest.fixture
def corpus(tmp_path):
    """Write files below a directory: text, bytes, or a list of records as JSON lines."""
    root = tmp_path / "corpus"
    root.mkdir()

    def write(**contents):
        for name, content in contents.items():
            path = root / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            lines = "".join(json.dumps(it) + "\n" for it in content) if isinstance(content, list) else content
            path.write_bytes(lines.encode() if isinstance(lines, str) else lines)
        return root

    return write


def refused(prepare, path, *problems):
    with pytest.raises(UserError) as caught:
        prepare(path)
    for problem in problems:
        assert problem in str(caught.value)
    assert not list(path.parent.glob("run/*.parquet"))


def test_a_directory_of_documents(prepare, corpus):
    root = corpus(
        b_md="# Title\r\n\r\nText one.",
        a_txt="\ufeffAlpha.",
        sub__c_html="<h1>Gamma</h1>",
        d_rst="Delta\n=====\n\nx",
        logo_png=b"\x89PNG",
        _hidden="x",
        empty_md="",
        blank_txt=" \n",
        control_txt="a\x00b\fc",
    )
    summary, rows = prepare(root)
    assert [(it["doc_id"], it["text"]) for it in rows] == [
        ("a.txt", "Alpha."),
        ("b.md", "# Title\n\nText one."),
        ("control.txt", "a b c"),
        ("d.rst", "Delta\n=====\n\nx"),
        ("sub/c.html", "# Gamma"),
    ]
    assert [it["row"] for it in rows] == list(range(5))
    assert (summary.chunks, summary.documents, summary.words) == (5, 5, sum(it["words"] for it in rows))
    assert sum(summary.notice_counts.values()) == 5
    assert {str(it).removeprefix(f"{root}/") for it in summary.notices} == {
        ".hidden: is hidden, and is left out",
        "blank.txt: has no text, and is left out",
        "empty.md: has no text, and is left out",
        "logo.png: has no suffix that kgscale reads, and is left out",
        "control.txt: has control characters, each read as a space: 2",
    }


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=6))
def test_adding_a_document_leaves_the_other_ids_alone(tmp_path_factory, texts):
    root = tmp_path_factory.mktemp("corpus")

    def ids():
        store = Store(root / "run")
        prepare_corpus(CorpusConfig(path=str(root)), store, say=lambda _: None)
        return {it["chunk_id"] for it in store.parquet(CHUNKS_FILE).read().to_pylist()}

    (root / "0.txt").write_text("So that there is something.")
    for number, text in enumerate(texts, start=1):
        (root / f"{number}.txt").write_text(text, encoding="utf-8", newline="")
    before = ids()
    (root / "00.txt").write_text("Something new.")
    assert before < ids()


def test_a_single_document(prepare, corpus):
    root = corpus(a_md="Text.", b_md="Other.")
    assert [it["doc_id"] for it in prepare(root / "a.md")[1]] == ["a.md"]


def test_chunks_with_ids_are_left_as_they_are(prepare, corpus):
    records = [
        {"chunk_id": "c1", "text": " One.\r\n", "doc_id": "d"},
        {"chunk_id": 2, "text": "word " * 1000, "file_path": "x.md"},
        {"chunk_id": "c3", "text": "", "doc_id": None},
        {"chunk_id": "c4", "text": "a\x00"},
    ]
    summary, rows = prepare(corpus(chunks_jsonl=records) / "chunks.jsonl")
    assert [(it["chunk_id"], it["doc_id"], it["text"]) for it in rows] == [
        ("c1", "d", " One.\r\n"),
        ("2", "x.md", "word " * 1000),
        ("c3", "c3", ""),
        ("c4", "c4", "a\x00"),
    ]
    assert sorted(summary.notice_counts.values()) == [1, 1]


def test_the_guides_json_and_a_plain_list(prepare, corpus):
    root = corpus(
        guide_json='{"chunks": [{"chunk_id": "c1", "text": "One."}, {"id": 2, "text": "Two."}]}',
        plain_json='[{"id": "d1", "text": "One."}, {"text": "Two."}]',
    )
    assert [it["chunk_id"] for it in prepare(root / "guide.json")[1]] == ["c1", "2"]
    rows = prepare(root / "plain.json")[1]
    assert rows[0]["doc_id"] == "d1"
    assert rows[0]["chunk_id"].startswith("d1-")


def test_parquet_of_chunks_and_of_documents(prepare, tmp_path):
    table = pa.table({"chunk_id": [1.0, 2.0], "text": ["One.", "Two."], "doc_id": ["d", None], "other": [1, 2]})
    pq.write_table(table, tmp_path / "chunks.parquet")
    assert [(it["chunk_id"], it["doc_id"]) for it in prepare(tmp_path / "chunks.parquet")[1]] == [
        ("1", "d"),
        ("2", "2"),
    ]
    pq.write_table(pa.table({"text": ["same", "same", "other"]}), tmp_path / "documents.parquet")
    summary, rows = prepare(tmp_path / "documents.parquet")
    assert summary.documents == 3
    pq.write_table(pa.table({"text": ["other", "same"]}), tmp_path / "documents.parquet")
    assert {it["chunk_id"] for it in prepare(tmp_path / "documents.parquet")[1]} < {it["chunk_id"] for it in rows}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"chunk_id": "c1", "text": "twice"}', "chunk_id 'c1' stands twice (first in line 1)"),
        ('{"chunk_id": null, "text": "x"}', "`chunk_id` is null"),
        ('{"chunk_id": "  ", "text": "x"}', "`chunk_id` is empty"),
        ('{"chunk_id": NaN, "text": "x"}', "`chunk_id` is not a number (NaN)"),
        ('{"chunk_id": 1.5, "text": "x"}', "`chunk_id` is the fraction 1.5"),
        ('{"chunk_id": ["c"], "text": "x"}', "`chunk_id` is a list, not a string"),
        ('{"chunk_id": "c2"}', "`text` is missing (there is chunk_id)"),
        ('{"chunk_id": "c2", "text": 7}', "`text` is a number, not a string"),
        ('{"chunk_id": "c2", "text": null}', "`text` is null"),
        ('{"chunk_id": "c2", "text": "\\ud83d"}', "`text` has half a surrogate pair at character 0"),
        ('{"text": "x"}', "it has no chunk_id, unlike the records before it"),
        ('["c2", "x"]', "it is not an object with a `text`"),
        ('{"chunk_id": "c2", "te', "broken JSON"),
        ("[" * 100_000, "broken JSON: nested too deeply"),
        (b'{"chunk_id": "c2", "text": "caf\xe9"}', "is not UTF-8: byte 0xe9"),
    ],
)
def test_a_bad_record_is_refused_with_its_line(prepare, corpus, line, problem):
    good = b'{"chunk_id": "c1", "text": "One."}\n'
    bad = line.encode() if isinstance(line, str) else line
    path = corpus(c_jsonl=good + b"\n" + bad + b"\n" + good.replace(b"c1", b"c9")) / "c.jsonl"
    refused(
        prepare,
        path,
        f"{path}:3: {problem}" if "broken" not in problem and "UTF" not in problem else f"{path}:3",
        problem,
    )


def test_all_faults_are_counted_and_the_first_twenty_shown(prepare, corpus):
    path = corpus(c_jsonl=[{"chunk_id": "same", "text": "x"}] * 51) / "c.jsonl"
    refused(prepare, path, "50 problems", f"{path}:21: ", "… and 30 more")
    with pytest.raises(UserError) as caught:
        prepare(path)
    assert f"{path}:22: " not in str(caught.value)


def test_undecodable_documents_are_refused_with_their_line(prepare, corpus):
    root = corpus(good_md="x", bad_md=b"# Title\n" + "今天天气很好，我们去公司开会。".encode("gb18030"))
    refused(prepare, root, f"{root}/bad.md:2: is not UTF-8", "(it looks like gb18030)", "1 problem")


def test_utf16_documents_are_read(prepare, corpus):
    assert prepare(corpus(a_txt="数据库".encode("utf-16")))[1][0]["text"] == "数据库"


def test_long_lines_are_refused_and_what_follows_is_read(prepare, corpus, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE", 2**20)
    root = corpus(
        a_txt=b"one\n" + b"x" * 2**21,
        c_jsonl=b'{"chunk_id": "c1", "text": "' + b"x" * 2**22 + b'"}\n{"chunk_id": "c1"}\n',
    )
    refused(prepare, root, f"{root}/a.txt:2: the line is longer than 1 MiB")
    refused(prepare, root / "c.jsonl", "c.jsonl:1: the line is longer", "c.jsonl:2: `text` is missing")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"chunks": 3}', "3", '"x"', "[1]", '{"chunks": []}'])
def test_json_without_chunks_is_refused(prepare, corpus, content):
    refused(prepare, corpus(c_json=content) / "c.json", "c.json")


def test_damaged_parquet_is_refused(prepare, tmp_path):
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"text": ["x" * 1000] * 100}), path)
    path.write_bytes(path.read_bytes()[:-20])
    refused(prepare, path, "damaged Parquet")
    pq.write_table(pa.table({"content": ["x"]}), path)
    refused(prepare, path, "has no column `text` (there is content)")
    pq.write_table(pa.table({"text": ["x"], "chunk_id": [math.nan]}), path)
    refused(prepare, path, "record 1: `chunk_id` is not a number (NaN)")


def test_an_empty_corpus_is_refused_and_says_what_was_left_out(prepare, corpus):
    refused(prepare, corpus(a_png="x", b_png="x", c_md=" "), "there is no text in the corpus", "2 × has no suffix")


def test_a_missing_or_unknown_path_is_refused(prepare, corpus, tmp_path):
    refused(prepare, tmp_path / "nowhere", "there is no file or directory")
    refused(prepare, corpus(a_docx="x") / "a.docx", "does not read .docx")


def test_broken_links_and_pipes_are_refused(prepare, corpus):
    root = corpus(a_md="x")
    (root / "b.md").symlink_to(root / "nowhere.md")
    os.mkfifo(root / "c.md")
    refused(prepare, root, "2 problems", f"{root}/b.md: is no file", f"{root}/c.md: is no file")


def test_limit_takes_the_first_chunks(prepare, corpus):
    path = corpus(c_jsonl=[{"chunk_id": f"c{i}", "text": "x"} for i in range(50)]) / "c.jsonl"
    summary, rows = prepare(path, limit=7)
    assert [it["chunk_id"] for it in rows] == [f"c{i}" for i in range(7)]
    assert summary.chunks == 7


def test_the_hash_follows_content_and_order_and_not_place(prepare, corpus, tmp_path):
    root = corpus(a_md="One.", b_md="Two.")
    summary, _ = prepare(root)
    moved = root.rename(tmp_path / "moved")
    again, _ = prepare(moved, shard_chunks=1)
    assert again == replace(summary, shard_chunks=1)
    (moved / "b.md").write_text("Two!")
    assert prepare(moved)[0].sha256 != summary.sha256


@pytest.mark.parametrize(("chunks", "size"), [(1, 16), (1023, 16), (1024, 32), (5000, 128), (8192, 256), (10**9, 256)])
def test_shard_sizes(chunks, size):
    assert shard_size(chunks) == size


def test_a_shard_is_a_row_group(prepare, corpus, tmp_path):
    path = corpus(c_jsonl=[{"chunk_id": f"c{i}", "text": "x"} for i in range(1030)]) / "c.jsonl"
    assert prepare(path)[0].shard_chunks == 32
    metadata = Store(tmp_path / "run").parquet(CHUNKS_FILE).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [32] * 32 + [6]
    assert prepare(path, shard_chunks=1000)[0].shard_chunks == 1000


def test_a_refused_corpus_leaves_the_old_file_alone(prepare, corpus):
    root = corpus(a_md="One.")
    rows = prepare(root)[1]
    (root / "b.md").write_bytes(b"\xff")
    with pytest.raises(UserError):
        prepare(root)
    (root / "b.md").unlink()
    assert prepare(root)[1] == rows


@settings(max_examples=300, deadline=None)
@given(
    suffix=st.sampled_from([".md", ".html", ".jsonl", ".json", ".parquet"]),
    data=st.binary(max_size=200)
    | st.text(st.sampled_from('{}[]":,chunk_idtex 1\n\\u'), max_size=80).map(str.encode)
    | st.text(st.sampled_from('<>/!-[]?"&;=# \ndivprescriptableCDATA'), max_size=80).map(str.encode),
)
def test_any_bytes_are_read_or_refused(tmp_path_factory, suffix, data):
    path = tmp_path_factory.mktemp("fuzz") / f"file{suffix}"
    path.write_bytes(data)
    for document in read_corpus(path, Faults(), Notices()):
        assert document.doc_id

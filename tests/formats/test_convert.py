import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.config import CorpusConfig
from kgscale.corpus import prepare_corpus
from kgscale.errors import UserError
from kgscale.formats import READERS, convert, convert_files, guess_format, load_gold, prepare_gold
from kgscale.store import Store


def test_a_converted_set_is_a_corpus_with_gold(data, tmp_path):
    report = convert(data("crossre/ai-dev.json"), tmp_path / "out", "crossre")
    store = Store(tmp_path / "run")
    summary = prepare_corpus(CorpusConfig(path=str(tmp_path / "out/corpus.jsonl")), store, say=lambda _: None)
    gold = prepare_gold(tmp_path / "out/gold.json", store)
    assert summary.chunks == report.chunks == gold.chunks
    assert (gold.mentions, gold.relations) == (report.mentions, report.relations)
    assert not gold.problems.first
    assert not summary.notices


def test_files_are_not_written_over_unasked(tmp_path):
    source = tmp_path / "gold.conll"
    source.write_text("A\tB-X\n")
    convert(source, tmp_path / "out", "conll")
    with pytest.raises(UserError, match=r"corpus.jsonl and .*gold.json would be written over"):
        convert(source, tmp_path / "out", "conll")
    convert(source, tmp_path / "out", "conll", overwrite=True)
    assert json.loads((tmp_path / "out/corpus.jsonl").read_text()) == {
        "chunk_id": "gold-1",
        "doc_id": "gold-1",
        "text": "A",
    }
    assert len(load_gold(tmp_path / "out/gold.json").chunks) == 1


def test_a_source_that_cannot_be_read_leaves_nothing(tmp_path):
    source = tmp_path / "gold.json"
    chunk = {"chunk_id": "c", "text": "x", "ground_truth_entities": [], "ground_truth_relations": []}
    source.write_text(json.dumps({"chunks": [chunk, chunk]}))
    with pytest.raises(UserError, match="stands twice"):
        convert(source, tmp_path / "out", "guide")
    source.write_text("\n")
    with pytest.raises(UserError, match="there is nothing to convert"):
        convert(source, tmp_path / "out", "conll")
    assert [it.name for it in tmp_path.rglob("*") if it.is_file()] == ["gold.json"]


def test_an_unknown_format_is_named(tmp_path):
    with pytest.raises(UserError, match="unknown format 'pickle'"):
        convert(tmp_path, tmp_path / "out", "pickle")


SCRAPS = st.sampled_from(
    [
        *'{}[]",:;\\\n\t *#Oé\ufeff',
        *("0", "-1", "1e999", "null", "NaN", "true", "\\ud83d", "0 1", "T1", "R1", "Arg1:T1 Arg2:T1", "B-X"),
        *("chunks", "chunk_id", "text", "type", "entities", "relations", "start", "end", "doc_key", "sentence", "ner"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["chunk_id", "text", "type", "entities", "relations", "start", "end", "source", "target", "aliases"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
ITEMS = st.lists(
    st.one_of(
        st.integers(-1, 3),
        st.just("x"),
        st.fixed_dictionaries({"type": st.just("x"), "start": st.integers(-1, 3), "end": st.integers(-1, 3)}),
        st.fixed_dictionaries({"head": st.integers(-1, 2), "tail": st.integers(-1, 2), "type": st.just("x")}),
        st.fixed_dictionaries({"h": st.integers(-1, 2), "t": st.integers(-1, 2), "r": st.just("x")}),
        st.fixed_dictionaries({"sub": st.text(max_size=1), "rel": st.just("x"), "obj": st.text(max_size=1)}),
        st.fixed_dictionaries({"id": st.just("a"), "type": st.just("labels"), "value": VALUES}),
        st.lists(st.integers(-1, 3) | st.just("x"), max_size=5),
        st.lists(st.fixed_dictionaries({"sent_id": st.integers(-1, 1), "pos": VALUES, "type": VALUES}), max_size=2),
    ),
    max_size=3,
)
NEARLY = VALUES | ITEMS | st.lists(ITEMS, max_size=2) | st.dictionaries(st.sampled_from("ab"), ITEMS, max_size=2)
SHAPES = [
    ("doc_key", "sentence", "ner", "relations"),
    ("doc_key", "sentences", "ner", "relations", "clusters"),
    ("tokens", "entities", "relations", "orig_id"),
    ("tokenized_text", "ner", "relations"),
    ("title", "sents", "vertexSet", "labels"),
    ("id", "sent", "triples"),
    ("input", "output"),
    ("id", "data", "annotations", "predictions", "meta"),
    ("chunks", "entities", "relationships"),
]
FUZZ = (
    st.binary(max_size=120)
    | st.lists(SCRAPS, max_size=40).map(lambda it: "".join(it).encode())
    | VALUES.map(lambda it: json.dumps({"chunks": it}).encode())
    | st.lists(VALUES, max_size=3).map(lambda it: json.dumps(it).encode())
    | st.sampled_from(SHAPES)
    .flatmap(lambda it: st.fixed_dictionaries(dict.fromkeys(it, NEARLY)))
    .map(lambda it: json.dumps(it).encode())
)


@settings(max_examples=600, deadline=None)
@given(fmt=st.sampled_from(sorted(READERS)), content=FUZZ, annotation=FUZZ)
def test_any_file_is_read_or_refused(tmp_path_factory, fmt, content, annotation):
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "a.txt"
    path.write_bytes(content)
    (folder / "a.ann").write_bytes(annotation)
    try:
        report = convert(path, folder / "out", fmt)
    except UserError as error:
        str(error).encode()
        return
    "".join(map(str, report.problems.first)).encode()
    store = Store(folder / "run")
    prepare_corpus(CorpusConfig(path=str(folder / "out/corpus.jsonl")), store, say=lambda _: None)
    if fmt != "text":
        assert not prepare_gold(folder / "out/gold.json", store).problems.first


@settings(max_examples=200, deadline=None)
@given(suffix=st.sampled_from(["json", "parquet"]), content=FUZZ)
def test_any_gold_is_read_or_refused(tmp_path_factory, suffix, content):
    path = tmp_path_factory.mktemp("fuzz") / f"gold.{suffix}"
    path.write_bytes(content)
    with contextlib.suppress(UserError):
        assert load_gold(path).chunks


CHUNKS = [
    {"chunk_id": "c1", "text": "Ada met Bob.", "entities": [{"text": "Ada", "type": "person", "start": 0, "end": 3}]},
    {
        "chunk_id": "c2",
        "text": "Nothing.",
        "entities": [],
        "relations": [{"source": "Ada", "target": "Bob", "type": "met"}],
    },
]


@pytest.fixture
def guide_file(tmp_path):
    path = tmp_path / "guide.json"
    path.write_text(json.dumps({"chunks": CHUNKS}))
    return path


def test_a_path_with_the_suffix_is_the_file_itself(tmp_path, guide_file):
    convert(guide_file, tmp_path / "a" / "mine.json", "guide", to="gliner")
    convert(guide_file, tmp_path / "b", "guide", to="gliner")
    assert (tmp_path / "a/mine.json").read_text() == (tmp_path / "b/train.json").read_text()
    with pytest.raises(UserError, match=r"mine\.json would be written over"):
        convert(guide_file, tmp_path / "a" / "mine.json", "guide", to="gliner")
    with pytest.raises(UserError, match=r"b would be written over"):
        convert(guide_file, tmp_path / "b", "guide", to="brat")
    convert(guide_file, tmp_path / "c" / "one.json", "guide", to="label-studio")
    assert sorted(it.name for it in (tmp_path / "c").iterdir()) == ["one.json", "one.xml"]
    (tmp_path / "c" / "one.json").unlink()
    with pytest.raises(UserError, match=r"c/one\.xml would be written over"):
        convert(guide_file, tmp_path / "c" / "one.json", "guide", to="label-studio")
    convert(guide_file, tmp_path / "d", "guide")
    convert(guide_file, tmp_path / "d" / "gold2.json", "guide")
    with pytest.raises(UserError, match="there is no file or directory"):
        convert_files(tmp_path / "nowhere", tmp_path / "e", "guide", "run", say=print)


def test_a_broken_list_keeps_its_good_records(tmp_path):
    path = tmp_path / "guide.json"
    path.write_text(json.dumps({"chunks": CHUNKS})[:-20])
    report = convert(path, tmp_path / "out", "guide")
    assert (report.chunks, report.skipped) == (1, 1)
    assert "the rest of the file is left out: broken JSON" in str(report.problems.first[0])


def test_texts_without_annotation_are_no_gold(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# Title\n\nSome text.\n")
    (tmp_path / "docs/b.html").write_text("<p>More text.</p>")
    (tmp_path / "docs/c.txt").write_bytes(b"\xff")
    report = convert(tmp_path / "docs", tmp_path / "out", "text")
    assert (report.chunks, report.skipped) == (2, 1)
    assert [it.name for it in (tmp_path / "out").iterdir()] == ["corpus.jsonl"]
    convert(tmp_path / "docs", tmp_path / "tasks", "text", to="label-studio")
    assert [set(it) for it in json.loads((tmp_path / "tasks/tasks.json").read_text())] == [{"data"}, {"data"}]
    report = convert(tmp_path / "docs", tmp_path / "train", "text", to="gliner")
    assert report.problems.counts["not written: a text without annotation"] == 2
    assert json.loads((tmp_path / "train/train.json").read_text()) == []


FILES = {
    "guide": ("a.json", '{"chunks": [{"chunk_id": "c", "text": "x", "ground_truth_entities": []}]}'),
    "gliner": ("a.json", '[{"tokenized_text": ["x"], "ner": []}]'),
    "gliner2": ("a.jsonl", '{"input": "x", "output": {}}'),
    "docred": ("a.json", '[{"title": "t", "sents": [["x"]], "vertexSet": []}]'),
    "spert": ("a.json", '[{"tokens": ["x"], "entities": [], "relations": []}]'),
    "scierc": ("a.json", '{"doc_key": "k", "sentences": [["x"]], "ner": [[]], "relations": [[]]}'),
    "crossre": ("a.json", '{"doc_key": "k", "sentence": ["x"], "ner": [], "relations": []}'),
    "tekgen": ("a.jsonl", '{"id": "i", "sent": "x", "triples": []}'),
    "pubtator": ("a.txt", "1|t|x\n1|a|y\n"),
    "conll": ("a.txt", "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\n. . O O\n\n"),
    "label-studio": ("a.json", '[{"id": 1, "data": {"text": "x"}, "annotations": []}]'),
    "text": ("a.md", "# Title\n\ntext"),
}


@pytest.mark.parametrize("fmt", FILES)
def test_the_format_is_guessed_from_the_content(tmp_path, fmt):
    name, content = FILES[fmt]
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / name).write_text(content)
    (tmp_path / "set" / "README.md").write_text("About it.")
    assert guess_format(tmp_path / "set" / name) == fmt
    assert guess_format(tmp_path / "set") == fmt
    assert convert(tmp_path / "set" / name, tmp_path / "out", fmt).chunks == 1


def test_an_unclear_format_is_asked_for(tmp_path):
    (tmp_path / "a.json").write_text('{"who": "knows"}')
    for path in (tmp_path, tmp_path / "a.json"):
        with pytest.raises(UserError, match="it is not clear which format"):
            guess_format(path)
    (tmp_path / "b.json").write_text(FILES["gliner"][1])
    (tmp_path / "c.json").write_text(FILES["spert"][1])
    with pytest.raises(UserError, match="may be gliner or spert"):
        guess_format(tmp_path)
    with pytest.raises(UserError, match="there is no file or directory"):
        guess_format(tmp_path / "nowhere")

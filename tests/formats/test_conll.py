import re

import pytest

from kgscale.formats.conll import read_conll
from kgscale.records import GoldEntity


def read(tmp_path, content, name="dev.txt"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = read_conll(path)
    return list(result.records), result.report


def found(record):
    return [(it.text, it.type) for it in record.gold.entities]


def test_two_columns_by_tab_or_space(tmp_path):
    for separator in "\t ":
        records, report = read(tmp_path, "Steve B-PER\nJobs I-PER\nleft O\n\nApple B-ORG\n".replace(" ", separator))
        assert [it.text for it in records] == ["Steve Jobs left", "Apple"]
        assert records[0].gold.entities == [GoldEntity("Steve Jobs", "PER", 0, 10)]
        assert [it.gold.chunk_id for it in records] == [it.doc_id for it in records] == ["dev-1", "dev-2"]
        assert not report.problems.first


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("B-X I-X O B-Y", [("a b", "X"), ("d", "Y")]),
        ("B-X B-X I-X O", [("a", "X"), ("b c", "X")]),
        ("B-X I-Y I-Y O", [("a", "X"), ("b c", "Y")]),
        ("B-X L-X U-Y U-Y", [("a b", "X"), ("c", "Y"), ("d", "Y")]),
        ("B-X I-X E-X S-X", [("a b c", "X"), ("d", "X")]),
        ("I-X I-X O I-Y", [("a b", "X"), ("d", "Y")]),
        ("B-X-y I-X-y O O", [("a b", "X-y")]),
        ("O O O O", []),
    ],
)
def test_tag_schemes(tmp_path, tags, entities):
    rows = "".join(f"{token}\t{tag}\n" for token, tag in zip("abcd", tags.split(), strict=True))
    (record,), _ = read(tmp_path, rows)
    assert found(record) == entities
    assert all(record.text[it.start : it.end] == it.text for it in record.gold.entities)


def test_four_columns_of_conll_2003_with_documents(tmp_path):
    content = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\n. . O O\n\nx NN B-NP O\n-DOCSTART- -X- -X- O\n\ny NN B-NP O\n"
    records, _ = read(tmp_path, content)
    assert found(records[0]) == [("EU", "ORG")]
    assert [it.doc_id for it in records] == ["dev-doc-1", "dev-doc-1", "dev-doc-2"]


def test_four_columns_of_stackoverflow(tmp_path):
    (record,), _ = read(tmp_path, "Java\tB-Language\tJava\tO\nis\tO\tis\tO\n\t\n")
    assert found(record) == [("Java", "Language")]


def test_windows_line_ends_and_a_byte_order_mark(tmp_path):
    records, _ = read(tmp_path, "\ufeffA\tB-X\r\n\r\nB\tO\r\n")
    assert [it.text for it in records] == ["A", "B"]


def test_what_does_not_fit_is_counted_and_named(tmp_path):
    records, report = read(tmp_path, "A\tB-X\nalone\nB\tO\n\nthe\tNN\n\nC\tI-X\n")
    assert [(it.gold.chunk_id, it.text) for it in records] == [("dev-1", "A B"), ("dev-3", "C")]
    assert [str(it).removeprefix(str(tmp_path)) for it in report.problems.first] == [
        "/dev.txt:2: skipped a line: there is no tag beside 'alone'",
        "/dev.txt:5: skipped a sentence: 'NN' is not a tag such as B-person",
        "/dev.txt:7: an entity does not begin with B-; it is read all the same: I-X",
    ]
    assert report.skipped == 2


def test_a_sentence_with_bytes_that_are_not_utf8_is_left_out_and_the_others_are_kept(tmp_path):
    records, report = read(tmp_path, b"A\tO\n\xff\tO\n\nB\tO\n\n\xff\tO\n\nC\tO\n")
    assert [(it.gold.chunk_id, it.text) for it in records] == [("dev-2", "B"), ("dev-4", "C")]
    assert report.skipped == 2
    told = [str(it).removeprefix(str(tmp_path)) for it in report.problems.first]
    assert [it[:40] for it in told] == [f"/dev.txt:{line}: skipped a sentence: is not UTF-8"[:40] for line in (2, 6)]


@pytest.mark.parametrize("name", ["wnut17/emerging.dev.conll", "crossner/ai/dev.txt", "crossner/science/train.txt"])
def test_the_published_sets_are_read_whole(data, name):
    path = data(name)
    text = path.read_text(encoding="utf-8")
    result = read_conll(path)
    list(result.records)
    assert result.report.mentions == len(re.findall(r"\tB-", text))
    assert result.report.chunks == len([it for it in re.split(r"\n\s*\n", text) if it.strip()])
    assert not result.report.problems.first


def test_stackoverflow_is_read_whole(data):
    path = data("stackoverflow_ner/dev.txt")
    result = read_conll(path)
    list(result.records)
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")]
    begun = sum(len(row) == 4 and row[1].startswith("B-") for row in rows)
    assert result.report.mentions == begun + sum(result.report.problems.counts.values())

import pytest

from kgscale.errors import UserError
from kgscale.formats.brat import read_brat
from kgscale.formats.common import BAD_OFFSETS
from kgscale.records import GoldEntity, Relation

TEXT = "Apple Inc. was founded\nby Steve Jobs and Steve Wozniak.\n"


def read(root, annotation, text=TEXT, name="a"):
    (root / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    (root / f"{name}.ann").write_text(annotation, encoding="utf-8", newline="")
    result = read_brat(root)
    return list(result.records), result.report


def test_entities_and_relations(tmp_path):
    annotation = "T1\tORG 0 10\tApple Inc.\nT2\tPERSON 26 36\tSteve Jobs\nR1\tFOUNDED Arg1:T2 Arg2:T1\t\n"
    (record,), report = read(tmp_path, annotation)
    assert (record.doc_id, record.gold.chunk_id, record.text) == ("a.txt", "a", TEXT)
    assert record.gold.entities == [GoldEntity("Apple Inc.", "ORG", 0, 10), GoldEntity("Steve Jobs", "PERSON", 26, 36)]
    assert record.gold.relations == [Relation("Steve Jobs", "Apple Inc.", "FOUNDED")]
    assert not report.problems.first


def test_windows_line_ends_and_names_with_dots(tmp_path):
    (record,), report = read(
        tmp_path, "T1\tVERB 15 22\tfounded\r\nT2\tX 24 26\tby\r\n", TEXT.replace("\n", "\r\n"), "v1.2"
    )
    assert record.gold.chunk_id == "v1.2"
    assert [it.start for it in record.gold.entities] == [15, 24]
    assert not report.problems.first


def test_symmetric_lines_join_every_two_of_their_members(tmp_path):
    annotation = "T1\tP 26 36\tSteve Jobs\nT2\tP 41 54\tSteve Wozniak\nT3\tO 0 5\tApple\n*\tEquiv T1 T2 T3\n"
    (record,), report = read(tmp_path, annotation)
    assert [(it.source, it.target) for it in record.gold.relations] == [
        ("Steve Jobs", "Steve Wozniak"),
        ("Steve Jobs", "Apple"),
        ("Steve Wozniak", "Apple"),
    ]
    assert report.symmetric_types == {"Equiv"}


def test_discontinuous_spans_keep_their_text(tmp_path):
    (record,), report = read(tmp_path, "T1\tP 26 31;41 48\tSteve Wozniak\nT2\tV 15 25\tfounded by\n")
    assert record.gold.entities == [GoldEntity("Steve Wozniak", "P"), GoldEntity("founded by", "V", 15, 25)]
    assert [str(it) for it in report.problems.first] == [
        f"{tmp_path / 'a.ann'}:1: the span is discontinuous, and loses its offsets: Steve Wozniak"
    ]
    assert report.skipped == 0


def test_what_does_not_fit_is_counted_and_named(tmp_path):
    annotation = (
        "T1\tORG 0 10\tApple Inc.\nT1\tORG 0 5\tApple\nT2\tORG x\tApple\nT3\tORG 0 5\nT4\tP 0 5\tJobs\n"
        "R1\tr Arg1:T1 Arg2:T9\nR2\tr T1\nE1\tV:T1 Who:T4\nA1\tNegated T1\n"
        "N1\tReference T1 W:1\tx\n#1\tNote T1\thm\nwhat\n*\tEquiv\n"
    )
    (record,), report = read(tmp_path, annotation)
    assert record.gold.entities == [GoldEntity("Apple Inc.", "ORG", 0, 10), GoldEntity("Jobs", "P")]
    assert report.problems.counts[BAD_OFFSETS] == 1
    assert report.problems.counts["skipped a line"] == 3
    assert report.problems.counts["skipped a relation"] == 3
    assert report.problems.counts["left out an event"] == 1
    assert report.problems.counts["left out a line of unknown kind"] == 1
    assert report.skipped == 11


def test_files_that_stand_alone_or_cannot_be_read_are_reported(tmp_path):
    (tmp_path / "alone.txt").write_text("x")
    (tmp_path / "lost.ann").write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    (tmp_path / "bad.ann").write_text("")
    read(tmp_path / "sub", "")
    result = read_brat(tmp_path)
    assert [it.gold.chunk_id for it in result.records] == ["sub/a"]
    assert result.report.problems.counts == {"skipped a file": 3}


def test_nothing_to_read_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError, match="there is no"):
            list(read_brat(path).records)


def test_somesci_is_read_whole(data):
    root = data("somesci")
    annotations = [it.read_text(encoding="utf-8").splitlines() for it in root.rglob("*.ann")]
    result = read_brat(root)
    records = list(result.records)
    report = result.report
    assert report.chunks == len(annotations)
    assert report.mentions == sum(line.startswith("T") for lines in annotations for line in lines)
    assert report.relations == sum(line.startswith("R") for lines in annotations for line in lines)
    assert report.relation_types == {line.split()[1] for lines in annotations for line in lines if line.startswith("R")}
    assert [str(it) for it in report.problems.first] == [
        f"{root}/LICENSE.txt: skipped a file: it has no .ann beside it"
    ]
    assert all(it.text[e.start : e.end] == e.text for it in records for e in it.gold.entities)

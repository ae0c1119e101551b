"""What files of any format may be like: told in words, and no loss of what is good beside it."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from kgscale.errors import UserError
from kgscale.formats import READERS, WRITERS, Record, Report, convert, convert_files, guess_format
from kgscale.formats.common import BAD_OFFSETS
from kgscale.records import GoldChunk

HERE = Path(__file__).parent
TOKENS = ["Ada", "met", "Bob"]
TOKEN_SETS = {
    "gliner": {"tokenized_text": TOKENS, "ner": [[0, 0, "P"], [2, 2, "P"]], "relations": [[0, 1, "met"]]},
    "spert": {
        "tokens": TOKENS,
        "entities": [{"type": "P", "start": 0, "end": 1}, {"type": "P", "start": 2, "end": 3}],
        "relations": [{"type": "met", "head": 0, "tail": 1}],
    },
    "scierc": {
        "doc_key": "k",
        "sentences": [TOKENS],
        "ner": [[[0, 0, "P"], [2, 2, "P"]]],
        "relations": [[[0, 0, 2, 2, "met"]]],
    },
    "crossre": {
        "doc_key": "k",
        "sentence": TOKENS,
        "ner": [[0, 0, "P"], [2, 2, "P"]],
        "relations": [[0, 0, 2, 2, "met"]],
    },
    "docred": {
        "title": "t",
        "sents": [TOKENS],
        "vertexSet": [
            [{"name": "Ada", "sent_id": 0, "pos": [0, 1], "type": "P"}],
            [{"name": "Bob", "sent_id": 0, "pos": [2, 3], "type": "P"}],
        ],
        "labels": [{"h": 0, "t": 1, "r": "met"}],
    },
}


def read(path, fmt):
    result = READERS[fmt](path)
    return list(result.records), result.report


@pytest.mark.parametrize("fmt", TOKEN_SETS)
def test_truth_values_are_no_numbers(tmp_path, fmt):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([TOKEN_SETS[fmt]]))
    _, report = read(path, fmt)
    assert (report.mentions, report.relations, report.skipped) == (2, 1, 0)
    # Python takes them for 0 and 1. In DocRED both entities count sentences.
    kept = 0 if fmt == "docred" else 1
    path.write_text(json.dumps([TOKEN_SETS[fmt]]).replace("0", "false"))
    _, report = read(path, fmt)
    assert (report.mentions, report.relations, report.skipped) == (kept, 0, 3 - kept)


def test_offsets_beyond_the_text_are_left_out(tmp_path):
    path = tmp_path / "a.json"
    entity = {"text": "Bob", "type": "P", "start": 8, "end": 12}
    path.write_text(json.dumps({"chunks": [{"chunk_id": "c", "text": "Ada met Bob", "entities": [entity]}]}))
    (record,), report = read(path, "guide")
    assert record.gold.entities[0].end is None
    assert report.problems.counts[BAD_OFFSETS] == 1
    assert "they count" not in str(report.problems.first[0])


OLD_MAC = {
    "conll": ("a.conll", "Ada\tB-P\nmet\tO\n\nBob\tB-P\n"),
    "pubtator": ("a.pubtator", "1|t|Ada\n1|a|Bob\n1\t0\t3\tAda\tP\tD1\n\n2|t|Eve\n2\t0\t3\tEve\tP\tD2\n"),
    "brat": ("a.ann", "T1\tP 0 3\tAda\nT2\tP 4 7\tBob\n"),
}


@pytest.mark.parametrize("fmt", OLD_MAC)
@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_every_kind_of_line_end(tmp_path, fmt, end):
    name, content = OLD_MAC[fmt]
    (tmp_path / name).write_bytes(content.replace("\n", end).encode())
    if fmt == "brat":
        (tmp_path / "a.txt").write_bytes(f"Ada{end[0]}Bob".encode())
    assert guess_format(tmp_path / name) == fmt
    _, report = read(tmp_path / name, fmt)
    assert (report.mentions, report.skipped) == (2, 0)
    assert not report.problems.first


GOOD = {
    "guide": ("a.json", '{"chunks": [{"chunk_id": "c", "text": "Ada"}]}', b'{"who": "knows"}'),
    "gliner": ("a.json", json.dumps([TOKEN_SETS["gliner"]]), '{"tokenized_text": ["x"]}'.encode("utf-16")),
    "brat": ("a.txt", "Ada", b"\xff"),
    "docbin": ("a.spacy", None, b"what"),
}


@pytest.mark.parametrize("fmt", GOOD)
def test_a_file_that_cannot_be_read_does_not_cost_the_others(tmp_path, fmt):
    name, content, bad = GOOD[fmt]
    if content is None:
        shutil.copy(HERE / "three_docs.spacy", tmp_path / name)
    else:
        (tmp_path / name).write_text(content)
    (tmp_path / name.replace("a", "b", 1)).write_bytes(bad)
    for each in ("a", "b") if fmt == "brat" else ():
        (tmp_path / f"{each}.ann").write_text("")
    records, report = read(tmp_path, fmt)
    assert records
    assert report.skipped == 1
    assert "b." in str(report.problems.first[0])
    assert "skipped a file" in str(report.problems.first[0])


@pytest.mark.parametrize("fmt", ["conll", "pubtator"])
def test_lines_in_utf16_are_refused_in_words(tmp_path, fmt):
    name, content = OLD_MAC[fmt]
    (tmp_path / name).write_bytes(content.encode("utf-16"))
    with pytest.raises(UserError, match="is UTF-16; files of lines must be UTF-8"):
        read(tmp_path / name, fmt)


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for fmt in (None, *READERS):
        with pytest.raises(UserError, match="is neither a file nor a directory"):
            convert_files(tmp_path / "pipe.json", tmp_path / "out", fmt, "guide", say=lambda _: None)
    with pytest.raises(UserError, match="is neither a file nor a directory"):
        guess_format(tmp_path / "pipe.json")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", '{"chunks": [{"chunk_id": "caf\xe9"}]}'.encode("latin-1"), "a.json:1: is not UTF-8"),
        ("a.jsonl", '{"input": "x"}'.encode("utf-16"), "is UTF-16; JSON lines must be UTF-8"),
        ("a.json", b'[{"tokens": ["x"', "a.json:1: broken JSON"),
        ("a.json", b"", "a.json: is empty"),
        ("a.conll", b"", "a.conll: is empty"),
        ("a.conll", "Ada\tB-P\n".encode("utf-16"), "a.conll: is not UTF-8"),
        ("a.json.gz", gzip.compress(b"[]"), "a.json.gz: is packed; unpack it first"),
    ],
)
def test_why_a_format_is_not_clear_is_told(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(UserError, match="it is not clear which format") as told:
            guess_format(path)
        assert reason in str(told.value)


def test_a_file_without_permission_is_told(tmp_path, monkeypatch):
    path = tmp_path / "a.conll"
    path.write_text("Ada\tB-P\n")
    opened = type(path).open

    def refused(self, *arguments, **more):
        if self == path:
            raise PermissionError(13, "Permission denied")
        return opened(self, *arguments, **more)

    # A test may run as root, whom nothing is refused.
    monkeypatch.setattr(type(path), "open", refused)
    with pytest.raises(UserError, match=r"a\.conll: cannot be read: Permission denied"):
        guess_format(tmp_path)
    with pytest.raises(UserError, match="skipped a file: cannot be read: Permission denied"):
        convert(tmp_path, tmp_path / "out", "conll")


def test_a_link_to_an_empty_directory_is_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    WRITERS["brat"].write([Record("d", "Ada", GoldChunk("1", [], []))], tmp_path / "link", Report())
    assert (tmp_path / "link").is_symlink()
    assert sorted(it.name for it in (tmp_path / "real").iterdir()) == ["1.ann", "1.txt"]

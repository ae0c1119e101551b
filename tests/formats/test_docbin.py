"""`three_docs.spacy` was written by spaCy 3.8: English with relations and a span group, Chinese, and no entity."""

import pickle
import zlib
from pathlib import Path

import msgpack
import pytest

from kgscale.errors import UserError
from kgscale.formats import docbin
from kgscale.formats.docbin import read_docbin
from kgscale.records import GoldEntity, Relation

REAL = Path(__file__).with_name("three_docs.spacy")


def test_what_spacy_wrote():
    result = read_docbin(REAL)
    english, chinese, empty = result.records
    assert english.text == "Apple Inc. was founded by Steve Jobs in the root case."
    assert english.gold.entities == [
        GoldEntity("Apple Inc.", "ORG", 0, 10),
        GoldEntity("Steve Jobs", "person", 26, 36),
        GoldEntity("Jobs", "GPE", 32, 36),
    ]
    assert english.gold.relations == [Relation("Steve Jobs", "Apple Inc.", "founded")]
    assert chinese.text == "苹果公司dep NOUN"
    assert chinese.gold.entities == [GoldEntity("苹果公司", "机构", 0, 4)]
    assert (empty.text, empty.gold.entities) == ("Nothing.", [])
    assert not result.report.problems.first


def written(tmp_path, **changes):
    content = msgpack.unpackb(zlib.decompress(REAL.read_bytes()), strict_map_key=False) | changes
    path = tmp_path / "a.spacy"
    path.write_bytes(zlib.compress(msgpack.packb(content)))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"lengths": b"\1\0\0\0"},
        {"strings": []},
        {"attrs": []},
        {"tokens": b"\0" * 7},
        {"span_groups": [b"\x91\xc4\0"] * 3},
    ],
)
def test_damage_is_told(tmp_path, changes):
    with pytest.raises(UserError, match="does not fit a DocBin"):
        list(read_docbin(written(tmp_path, **changes)).records)


def test_nothing_is_unpickled(tmp_path, capsys):
    class Bomb:
        def __reduce__(self):
            return print, ("executed",)

    # As msgpack-numpy stores arrays of objects.
    data = {b"nd": True, b"type": "|O", b"kind": b"O", b"shape": [1], b"data": pickle.dumps([Bomb()])}
    path = written(tmp_path, user_data=[msgpack.packb(data)] * 3)
    assert len(list(read_docbin(path).records)) == 3
    assert capsys.readouterr().out == ""


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(docbin, "MAX_BYTES", 2**20)
    path = tmp_path / "a.spacy"
    path.write_bytes(zlib.compress(b"\0" * 2**24))
    with pytest.raises(UserError, match="unpacks to more than"):
        list(read_docbin(path).records)
    path.write_bytes(b"\0" * (2**20 + 1))
    with pytest.raises(UserError, match="is longer than"):
        list(read_docbin(path).records)


def test_what_is_no_docbin_is_refused(tmp_path):
    path = tmp_path / "a.spacy"
    for content in (b"", b"what", zlib.compress(b"\x93\1\2"), zlib.compress(msgpack.packb([1]))):
        path.write_bytes(content)
        with pytest.raises(UserError, match="cannot be read as a DocBin"):
            list(read_docbin(path).records)

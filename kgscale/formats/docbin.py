"""spaCy's DocBin (`.spacy`), read without spaCy: compressed MessagePack with token attributes as hashes of strings.

Entities are those of `doc.ents`, with those of span groups that are no `ents`; relations are those of `doc._.rel`, as
spaCy's tutorial on relation extraction keeps them (`{(start, start): {type: score}}`, by the first token of each
entity; from a score of 0.5 on). Nothing is unpickled. A doc is a chunk; there are no ids.

https://spacy.io/api/docbin#serialization-format
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from kgscale.corpus.values import as_text
from kgscale.errors import UserError
from kgscale.formats.common import Converted, Record, Report, converted, each_file, files_in, stem_of
from kgscale.records import GoldChunk, GoldEntity, Relation

MAX_BYTES = 2**30
"""Longest content once unpacked; what is longer may be a bomb, and should be several files anyway."""
ORTH, ENT_IOB, ENT_TYPE = 65, 77, 78
BEGIN, INSIDE = 3, 1
REL = ("._.", "rel", None, None)

# spaCy gives these strings a number in place of a hash (spacy/symbols.pyx, version 3).
_SYMBOLS = {
    1: "IS_ALPHA IS_ASCII IS_DIGIT IS_LOWER IS_PUNCT IS_SPACE IS_TITLE IS_UPPER LIKE_URL LIKE_NUM LIKE_EMAIL IS_STOP "
    "IS_OOV_DEPRECATED IS_BRACKET IS_QUOTE IS_LEFT_PUNCT IS_RIGHT_PUNCT IS_CURRENCY "
    + " ".join(f"FLAG{it}" for it in range(19, 64)),
    64: "ID ORTH LOWER NORM SHAPE PREFIX SUFFIX LENGTH CLUSTER LEMMA POS TAG DEP ENT_IOB ENT_TYPE HEAD SENT_START "
    "SPACY PROB LANG ADJ ADP ADV AUX CONJ CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X EOL SPACE "
    + " ".join(f"DEPRECATED{it:03d}" for it in range(1, 277)),
    380: "PERSON NORP FACILITY ORG GPE LOC PRODUCT EVENT WORK_OF_ART LANGUAGE LAW DATE TIME PERCENT MONEY QUANTITY "
    "ORDINAL CARDINAL acomp advcl advmod agent amod appos attr aux auxpass cc ccomp complm conj cop csubj csubjpass "
    "dep det dobj expl hmod hyph infmod intj iobj mark meta neg nmod nn npadvmod nsubj nsubjpass num number oprd obj "
    "obl parataxis partmod pcomp pobj poss possessive preconj prep prt punct quantmod relcl rcmod root xcomp acl "
    "ENT_KB_ID MORPH ENT_ID IDX _",
}
_NUMBERED = {start + at: name for start, names in _SYMBOLS.items() for at, name in enumerate(names.split())}

Span = tuple[int, int, str]
"""First token, last token (exclusive) and type."""


def read_docbin(path: Path) -> Converted:
    """The docs of a file, or of the .spacy files below a directory; a file is held in memory."""
    report = Report()

    def records(file: Path) -> Iterator[Record]:
        try:
            docs = _docs(_unpacked(file))
            for number, (doc, strings) in enumerate(docs, start=1):
                yield _record(doc, strings, f"{file}, record {number}", f"{stem_of(file, path)}-{number}", report)
        except (KeyError, ValueError, TypeError, AttributeError, IndexError, struct.error) as error:
            raise UserError(f"it does not fit a DocBin: {error!r}"[:200], where=str(file)) from None

    return converted(path, each_file(files_in(path, ".spacy"), report, records), report)


def _unpacked(file: Path) -> dict[str, Any]:
    try:
        # What is packed is hardly longer than what it unpacks to.
        if file.stat().st_size > MAX_BYTES:
            raise UserError(f"is longer than {MAX_BYTES >> 30} GiB", where=str(file), hint="split it")
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(file.read_bytes(), MAX_BYTES)
        if unpacker.unconsumed_tail:
            raise UserError(f"unpacks to more than {MAX_BYTES >> 30} GiB", where=str(file), hint="split it")
        value = msgpack.unpackb(data, strict_map_key=False, max_ext_len=0)
    except (zlib.error, msgpack.UnpackException, ValueError, OSError) as error:
        raise UserError(f"cannot be read as a DocBin: {error}", where=str(file)) from None
    if not isinstance(value, dict):
        raise UserError("cannot be read as a DocBin: it is no table", where=str(file))
    return value


def _docs(content: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[int, str]]]:
    """The columns and extras of each doc, and what the hashes in all of them stand for."""
    attributes = list(content["attrs"])
    strings = {_hash(it): it for it in content["strings"]} | _NUMBERED | {0: ""}
    lengths = np.frombuffer(content["lengths"], dtype="<i4").tolist()
    tokens = np.frombuffer(content["tokens"], dtype="<u8").reshape(-1, len(attributes))
    spaces = np.frombuffer(content["spaces"], dtype="?")
    if min(lengths, default=0) < 0 or sum(lengths) != len(tokens) or len(spaces) != len(tokens):
        raise ValueError("the number of tokens is not what it says")
    extras = {key: content.get(key) or [None] * len(lengths) for key in ("flags", "span_groups", "user_data")}
    at = 0
    for number, length in enumerate(lengths):
        part = slice(at, at + length)
        at += length
        columns = {name: tokens[part, column].tolist() for column, name in enumerate(attributes)}
        doc = {"columns": columns, "spaces": spaces[part].tolist()}
        yield doc | {key: values[number] for key, values in extras.items()}, strings


def _record(doc: dict[str, Any], strings: dict[int, str], where: str, name: str, report: Report) -> Record:
    words = [as_text(strings[it]) for it in doc["columns"][ORTH]]
    blank = (doc.get("flags") or {}).get("has_unknown_spaces", False)
    text, places = "", []
    for word, space in zip(words, doc["spaces"], strict=True):
        places.append((len(text), len(text) + len(word)))
        text += word + (" " if space or blank else "")
    # A doc without ENT_IOB has no entities at all.
    spans: dict[Span, None] = dict.fromkeys(_ents(doc["columns"], strings))
    for first, stop, kind in _grouped(doc.get("span_groups"), strings):
        if 0 <= first < stop <= len(words):
            spans[first, stop, kind] = None
        else:
            report.skip(where, "skipped an entity", f"a span from {first} to {stop} does not fit {len(words)} tokens")
    entities: list[GoldEntity] = []
    begins: dict[int, str] = {}
    for first, stop, kind in spans:
        start, end = places[first][0], places[stop - 1][1]
        entities.append(GoldEntity(text[start:end], kind, start, end))
        begins.setdefault(first, text[start:end])
    relations = []
    for ends, kind in _relations(doc.get("user_data")):
        if ends[0] in begins and ends[1] in begins:
            relations.append(Relation(begins[ends[0]], begins[ends[1]], as_text(kind)))
        else:
            report.skip(
                where, "skipped a relation", f"{kind} from {ends[0]} to {ends[1]} does not lead to two entities"
            )
    return Record(name, text, GoldChunk(name, entities, relations, text=text))


def _ents(columns: dict[int, list[int]], strings: dict[int, str]) -> Iterator[Span]:
    start: int | None = None
    kinds = columns.get(ENT_TYPE, [])
    for at, code in enumerate([*columns.get(ENT_IOB, []), 0]):
        if start is not None and code != INSIDE:
            yield start, at, strings[kinds[start]]
            start = None
        if code == BEGIN or (code == INSIDE and start is None):
            start = at


def _grouped(data: Any, strings: dict[int, str]) -> Iterator[Span]:
    groups = msgpack.unpackb(data, strict_map_key=False, max_ext_len=0) if data else []
    for group in groups:
        for span in msgpack.unpackb(group, strict_map_key=False, max_ext_len=0).get("spans", []):
            # Versions before 3.5 have no id in front.
            *_, label, first, stop, _, _ = struct.unpack(">QQQllll" if len(span) == 40 else ">QQllll", span)
            yield first, stop, strings[label]


def _relations(data: Any) -> Iterator[tuple[tuple[int, int], str]]:
    stored = msgpack.unpackb(data, use_list=False, strict_map_key=False, max_ext_len=0) if data else {}
    for ends, scores in stored.get(REL, {}).items():
        yield from ((ends, kind) for kind, score in scores.items() if score >= 0.5)


def _hash(text: str) -> int:
    """MurmurHash64A with the seed 1, by which spaCy stores strings (https://github.com/aappleby/smhasher)."""
    if not text:
        return 0
    data = text.encode()
    mask, multiplier = 2**64 - 1, 0xC6A4A7935BD1E995
    value = 1 ^ (len(data) * multiplier & mask)
    whole = len(data) & ~7
    for (part,) in struct.iter_unpack("<Q", data[:whole]):
        mixed = part * multiplier & mask
        mixed ^= mixed >> 47
        value = (value ^ (mixed * multiplier & mask)) * multiplier & mask
    if len(data) > whole:
        value = (value ^ int.from_bytes(data[whole:], "little")) * multiplier & mask
    value ^= value >> 47
    value = value * multiplier & mask
    return value ^ (value >> 47)

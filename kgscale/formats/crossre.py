"""CrossRE: JSON lines of tokenised sentences, with entities and relations by token number, both ends inclusive.

`{"doc_key", "sentence": [token…], "ner": [[first, last, type]…], "relations": [[first, last, first, last, type, …]…]}`.
A sentence is a chunk and, since CrossRE draws its sentences from everywhere, a document. Multi-CrossRE's own
`sentence-detokenized` and `token2charspan` are used where they are there and fit.
"""

from pathlib import Path
from typing import Any

from kgscale.corpus.values import as_id, as_text
from kgscale.formats.common import Converted, Record, Report, are_tokens, is_whole, join_tokens
from kgscale.formats.jsonfile import json_records, list_under, texts
from kgscale.records import GoldChunk, GoldEntity, Relation

Span = tuple[int, int]


def read_crossre(path: Path) -> Converted:
    """The sentences of a file, or of the .json and .jsonl files below a directory."""
    report = Report()
    return json_records(path, lambda value, where, _: _record(value, where, report), report, "sentence")


def _record(value: dict[str, Any], where: str, report: Report) -> Record:
    if not isinstance(value.get("sentence"), list):
        raise ValueError("it has no `sentence`")
    try:
        key = as_id(value.get("doc_key"))
    except ValueError as error:
        raise ValueError(f"`doc_key` {error}") from None
    tokens = texts(value["sentence"])
    text, spans = _given_text(value, len(tokens)) or join_tokens(tokens)

    entities: dict[Span, str] = {}
    found = []
    for item in list_under(value, "ner"):
        match item:
            case [int(first), int(last), str(kind), *_] if are_tokens(first, last, spans) and kind.strip():
                start, end = spans[first][0], spans[last][1]
                entities[first, last] = text[start:end]
                found.append(GoldEntity(text[start:end], as_text(kind), start, end))
            case _:
                report.skip(where, "skipped an entity", f"{str(item)[:80]} does not fit the sentence ({key})")
    relations = []
    for item in list_under(value, "relations"):
        match item:
            case [int(a), int(b), int(c), int(d), str(kind), *_] if (
                is_whole(a, b, c, d) and {(a, b), (c, d)} <= entities.keys()
            ):
                relations.append(Relation(entities[a, b], entities[c, d], as_text(kind)))
            case _:
                report.skip(where, "skipped a relation", f"{str(item)[:80]} does not lead to two entities ({key})")
    return Record(key, text, GoldChunk(key, found, relations, text=text))


def _given_text(value: dict[str, Any], tokens: int) -> tuple[str, list[Span]] | None:
    text, spans = value.get("sentence-detokenized"), value.get("token2charspan")
    if not isinstance(text, str) or not isinstance(spans, list) or len(spans) != tokens:
        return None
    ends = [
        (it[0], it[1])
        for it in spans
        if isinstance(it, list) and len(it) == 2 and is_whole(*it) and 0 <= it[0] <= it[1] <= len(text)
    ]
    return (as_text(text), ends) if len(ends) == tokens else None

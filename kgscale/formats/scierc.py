"""SciERC and DyGIE++: JSON lines of documents, spans by token number in the whole document, both ends inclusive.

`{"doc_key", "sentences": [[token…]…], "ner": [[[first, last, type]…]…], "relations": [[[first, last, first, last,
type]…]…], "clusters"}`; predictions stand under `predicted_ner` and `predicted_relations`, with two more numbers. A
document is a chunk. Coreference is counted and left out: most of its names are pronouns.
"""

from pathlib import Path
from typing import Any

from kgscale.corpus.values import as_id, as_text
from kgscale.formats.common import Converted, Record, Report, are_tokens, is_whole, join_tokens
from kgscale.formats.jsonfile import json_records, list_under, texts
from kgscale.records import GoldChunk, GoldEntity, Relation

Span = tuple[int, int]


def read_scierc(path: Path) -> Converted:
    """The documents of a file, or of the .json and .jsonl files below a directory."""
    report = Report()

    def record(value: Any, where: str, name: str) -> Record:
        text, spans = join_tokens([token for sentence in list_under(value, "sentences") for token in texts(sentence)])
        key = name if value.get("doc_key") is None else as_id(value["doc_key"])
        entities: list[GoldEntity] = []
        names: dict[Span, str] = {}
        for item in _inner(value, "ner"):
            match item:
                case [int(first), int(last), str(kind), *_] if are_tokens(first, last, spans):
                    start, end = spans[first][0], spans[last][1]
                    names[first, last] = text[start:end]
                    entities.append(GoldEntity(text[start:end], as_text(kind), start, end))
                case _:
                    report.skip(where, "skipped an entity", f"{str(item)[:80]} does not fit the document ({key})")
        relations = []
        for item in _inner(value, "relations"):
            match item:
                case [int(a), int(b), int(c), int(d), str(kind), *_] if (
                    is_whole(a, b, c, d) and {(a, b), (c, d)} <= names.keys()
                ):
                    relations.append(Relation(names[a, b], names[c, d], as_text(kind)))
                case _:
                    report.skip(where, "skipped a relation", f"{str(item)[:80]} does not lead to two entities ({key})")
        for _ in list_under(value, "clusters"):
            report.skip(where, "left out a coreference cluster")
        return Record(key, text, GoldChunk(key, entities, relations, text=text))

    return json_records(path, record, report, "document")


def _inner(value: dict[str, Any], key: str) -> list[Any]:
    """The items of all sentences."""
    items = []
    for sentence in list_under(value, key if key in value else f"predicted_{key}"):
        if not isinstance(sentence, list):
            raise ValueError(f"`{key}` has no list for each sentence")
        items += sentence
    return items

"""re3d (Dstl): `documents.json`, `entities.json` and `relations.json` in a folder, each JSON lines.

Documents `{"_id", "text"}`; entities `{"documentId", "begin", "end", "type", "value"}` by character offsets; relations
`{"documentId", "source", "target", "type"}`. A document is a chunk. The annotation of a folder is held in memory.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from kgscale.corpus.values import as_id, as_text
from kgscale.errors import UserError
from kgscale.formats.common import Converted, Record, Report, as_offset, converted, with_checked_offsets
from kgscale.formats.jsonfile import json_items, valid
from kgscale.records import GoldChunk, GoldEntity, Relation

DOCUMENTS = "documents.json"
T = TypeVar("T", GoldEntity, Relation)


def read_re3d(path: Path) -> Converted:
    """The documents of every folder at or below a directory that has a `documents.json`."""
    report = Report()
    folders = sorted(it.parent for it in path.rglob(DOCUMENTS)) if path.is_dir() else []
    if not folders:
        raise UserError(f"there is no {DOCUMENTS} at or below {path}")

    def records() -> Iterator[Record]:
        for folder in folders:
            entities = _by_document(folder / "entities.json", _entity, "an entity", report)
            relations = _by_document(folder / "relations.json", _relation, "a relation", report)
            for where, value in json_items(folder / DOCUMENTS):
                try:
                    document = valid(value)
                    key, text = as_id(document["_id"]), as_text(document["text"])
                except (ValueError, KeyError, TypeError) as error:
                    report.skip(where, "skipped a document", str(error))
                    continue
                gold = GoldChunk(key, entities.pop(key, []), relations.pop(key, []), text=text)
                yield Record(key, text, with_checked_offsets(gold, text, where, report))
            for left in (entities, relations):
                for key, items in left.items():
                    for _ in items:
                        report.skip(str(folder), "skipped an annotation", f"there is no document {key!r}")

    return converted(path, records(), report)


def _by_document(file: Path, make: Callable[[Any], T], what: str, report: Report) -> dict[str, list[T]]:
    found: dict[str, list[T]] = defaultdict(list)
    for where, value in json_items(file) if file.exists() else ():
        try:
            found[as_id(valid(value)["documentId"])].append(make(value))
        except (ValueError, KeyError, TypeError) as error:
            report.skip(where, f"skipped {what}", str(error))
    return found


def _entity(value: Any) -> GoldEntity:
    return GoldEntity(
        as_text(value["value"]), as_text(value["type"]), as_offset(value["begin"]), as_offset(value["end"])
    )


def _relation(value: Any) -> Relation:
    return Relation(as_text(value["source"]), as_text(value["target"]), as_text(value["type"]))

"""The guide's JSON: `{"chunks": [{"chunk_id", "text", "ground_truth_entities", "ground_truth_relations"}]}`.

Predictions have the same form, with `entities` and `relations`. An entity is `{"text", "type"}`, with optional `start`,
`end` (characters, end exclusive) and `aliases`; a relation is `{"source", "target", "type"}`. A bare list of chunks is
read too, and `id` for `chunk_id`. An empty type stands for none.
A chunk of gold may also say `origin`, `annotator` and `prompt` (the model, and a hash of what it was asked), and
`exhaustive`: false where not everything in the text is annotated.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kgscale.corpus.values import as_id, as_text
from kgscale.errors import UserError
from kgscale.formats.common import (
    Converted,
    Record,
    Report,
    as_offset,
    converted,
    each_file,
    files_in,
    with_checked_offsets,
)
from kgscale.formats.jsonfile import json_items
from kgscale.formats.output import whole_file
from kgscale.records import Extraction, GoldChunk, GoldEntity, Origin, Relation

UNTYPED_RELATION = "RELATED"
"""The type that the guide gives to a relation without one."""
BAD_ENTITY = "skipped an entity"
BAD_RELATION = "skipped a relation"
BAD_CHUNK = "skipped a chunk"
REPAIRED = "repaired"


def read_guide(path: Path) -> Converted:
    """The chunks of a file, or of the .json files below a directory; those without a text are skipped."""
    report = Report()

    def records(file: Path) -> Iterator[Record]:
        for number, (_, item) in enumerate(json_items(file, "chunks"), start=1):
            if isinstance(item, UserError):
                raise item
            where = f"{file.name}, chunk {number}"
            gold = _gold_chunk(item, where, report)
            if gold is None:
                continue
            if gold.text is None:
                report.skip(where, BAD_CHUNK, "it has no text")
                continue
            yield Record(_doc_id(item) or gold.chunk_id, gold.text, gold)

    return converted(path, each_file(files_in(path, ".json"), report, records), report)


def read_guide_gold(path: Path, report: Report) -> Iterator[GoldChunk]:
    """The annotation alone, where a text is welcome but not needed; does not count into the report."""
    for number, (_, item) in enumerate(json_items(path, "chunks"), start=1):
        if isinstance(item, UserError):
            raise item
        gold = _gold_chunk(item, f"{path.name}, chunk {number}", report)
        if gold is not None:
            yield gold


def _doc_id(item: dict[str, Any]) -> str | None:
    try:
        return as_id(item.get("doc_id"))
    except ValueError:
        return None


def _gold_chunk(item: Any, where: str, report: Report) -> GoldChunk | None:
    if not isinstance(item, dict):
        report.skip(where, BAD_CHUNK, "it is not an object")
        return None
    try:
        chunk_id = as_id(item.get("chunk_id", item.get("id")))
    except ValueError as error:
        report.skip(where, BAD_CHUNK, f"its chunk_id {error}")
        return None
    where = f"{where} ({chunk_id})"
    try:
        text = None if item.get("text") is None else as_text(item["text"])
        origin = Origin(item.get("origin") or Origin.MANUAL)
    except ValueError as error:
        report.skip(where, BAD_CHUNK, f"its text or origin: {error}")
        return None
    entities = _items(item, "ground_truth_entities", "entities", where, report)
    relations = _items(item, "ground_truth_relations", "relations", where, report)
    gold = GoldChunk(
        chunk_id,
        [it for it in (_entity(entity, where, report) for entity in entities) if it],
        [it for it in (_relation(relation, where, report) for relation in relations) if it],
        origin,
        text,
        _said(item, "annotator"),
        _said(item, "prompt"),
        exhaustive=item.get("exhaustive") is not False,
    )
    return gold if text is None else with_checked_offsets(gold, text, where, report)


def _said(item: dict[str, Any], key: str) -> str | None:
    value = item.get(key)
    return value if isinstance(value, str) and value.strip() else None


def _items(item: dict[str, Any], gold_key: str, other_key: str, where: str, report: Report) -> list[Any]:
    """The annotations under one of two keys; a JSON string, as an LLM's answer pasted in is, is taken apart."""
    key = gold_key if gold_key in item else other_key
    value = item.get(key)
    if value is None:
        return []
    if isinstance(value, str):
        value = _from_answer(value, other_key)
        if value is not None:
            report.problems.add(where, REPAIRED, f"`{key}` is a JSON string where a list should be")
    if not isinstance(value, list):
        report.skip(where, "skipped all annotations under a key", f"`{key}` is not a list")
        return []
    return value


def _from_answer(answer: str, key: str) -> list[Any] | None:
    """The list in an answer such as `{"entities": [...]}` or a fenced `[...]`, null if there is none."""
    answer = answer.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        lists = [it for it in value.values() if isinstance(it, list)]
        value = value.get(key, lists[0] if len(lists) == 1 else None)
    return value if isinstance(value, list) else None


def _entity(item: Any, where: str, report: Report) -> GoldEntity | None:
    if not isinstance(item, dict):
        report.skip(where, BAD_ENTITY, f'it should be {{"text": …, "type": …}}, and is {json.dumps(item)[:80]}')
        return None
    try:
        text, kind = _name(item, "text"), _type(item)
        aliases = item.get("aliases") or []
        if not isinstance(aliases, list):
            raise ValueError("`aliases` is not a list")
        aliases = [as_text(alias) for alias in aliases]
    except ValueError as error:
        report.skip(where, BAD_ENTITY, f"{error}: {json.dumps(item, ensure_ascii=True)[:80]}")
        return None
    start, end = as_offset(item.get("start")), as_offset(item.get("end"))
    if start is None or end is None or start >= end:
        if item.get("start") is not None or item.get("end") is not None:
            given = f"{item.get('start')!r} to {item.get('end')!r}"[:80]
            report.problems.add(where, "the offsets are no offsets, and are left out", f"{given} of {text!r}")
        start = end = None
    return GoldEntity(text, kind, start, end, aliases)


def _relation(item: Any, where: str, report: Report) -> Relation | None:
    if not isinstance(item, dict):
        shape = '{"source": …, "target": …, "type": …}'
        report.skip(where, BAD_RELATION, f"it should be {shape}, and is {json.dumps(item)[:80]}")
        return None
    try:
        source, target = _name(item, "source"), _name(item, "target")
        if item.get("type") is None:
            report.problems.add(where, REPAIRED, f"a relation without a type is taken as {UNTYPED_RELATION}")
            return Relation(source, target, UNTYPED_RELATION)
        return Relation(source, target, _type(item))
    except ValueError as error:
        report.skip(where, BAD_RELATION, f"{error}: {json.dumps(item, ensure_ascii=True)[:80]}")
        return None


def _name(item: dict[str, Any], key: str) -> str:
    if key not in item:
        raise ValueError(f"`{key}` is missing")
    try:
        text = as_text(item[key])
    except ValueError as error:
        raise ValueError(f"`{key}` {error}") from None
    if not text.strip():
        raise ValueError(f"`{key}` is empty")
    return text


def _type(item: dict[str, Any]) -> str:
    return "" if item.get("type") == "" else _name(item, "type")


def write_guide_gold(path: Path, records: Iterable[Record]) -> int:
    """Write annotated texts as the guide's gold standard, the whole file or none of it; returns how many chunks."""
    return _write(path, (gold_object(record) for record in records))


def gold_object(record: Record) -> dict[str, Any]:
    """One chunk of the guide's gold standard, ready for JSON."""
    gold = record.gold
    return {
        "chunk_id": gold.chunk_id,
        "doc_id": record.doc_id,
        "text": record.text,
        "origin": gold.origin.value,
        **({"annotator": gold.annotator} if gold.annotator else {}),
        **({"prompt": gold.prompt} if gold.prompt else {}),
        **({} if gold.exhaustive else {"exhaustive": False}),
        "ground_truth_entities": [
            {"text": it.text, "type": it.type}
            | ({} if it.start is None else {"start": it.start, "end": it.end})
            | ({"aliases": it.aliases} if it.aliases else {})
            for it in gold.entities
        ],
        "ground_truth_relations": [
            {"source": it.source, "target": it.target, "type": it.type} for it in gold.relations
        ],
    }


def write_guide_predictions(path: Path, rows: Iterable[Extraction]) -> int:
    """Write extractions as the guide's predictions; failed and dead ones stand there empty, with their `status`."""
    return _write(path, (_prediction_object(row) for row in rows))


def _prediction_object(row: Extraction) -> dict[str, Any]:
    return {
        "chunk_id": row.chunk_id,
        "doc_id": row.doc_id,
        "status": row.status.value,
        "entities": [
            {"text": it.text, "type": it.type}
            | ({} if it.start is None else {"start": it.start, "end": it.end})
            | ({} if it.score is None else {"score": it.score})
            for it in row.entities
        ],
        "relations": [{"source": it.source, "target": it.target, "type": it.type} for it in row.relations],
    }


def _write(path: Path, chunks: Iterable[dict[str, Any]]) -> int:
    count = 0
    with whole_file(path) as file:
        file.write('{"chunks": [')
        for chunk in chunks:
            file.write("\n" if count == 0 else ",\n")
            file.write(json.dumps(chunk, ensure_ascii=False))  # several times as fast as `dump`
            count += 1
        file.write("\n]}\n")
    return count

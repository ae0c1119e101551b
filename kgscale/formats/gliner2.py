"""GLiNER2's training JSON lines: a text, and the names in it by type.

`{"input", "output": {"entities": {type: [name…]}, "relations": [{type: {"head", "tail"}}…]}}`. A record is a chunk and
a document; there are no ids and no offsets: a name stands where it first occurs. A type with an empty list is a
negative. Classifications and JSON structures are counted and left out.
"""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from kgscale.corpus.values import as_text
from kgscale.formats.common import Converted, Record, Report, grounded
from kgscale.formats.gliner import negatives
from kgscale.formats.jsonfile import json_records, list_under
from kgscale.formats.output import whole_file
from kgscale.records import GoldChunk, GoldEntity, Relation

_READ = {"entities", "entity_descriptions", "relations", "relation_descriptions"}


def read_gliner2(path: Path) -> Converted:
    """The records of a file, or of the .json and .jsonl files below a directory."""
    report = Report()

    def record(value: dict[str, Any], where: str, name: str) -> Record:
        output = value.get("output", value.get("schema"))
        if "input" not in value or not isinstance(output, dict):
            raise ValueError("it has no `input` and `output`")
        text = as_text(value["input"])
        for key in output.keys() - _READ:
            report.skip(where, "left out a part of the output", key[:80])
        entities = list(dict.fromkeys(_entities(output.get("entities"), where, report)))
        relations = list(_relations(list_under(output, "relations"), where, report))
        found = [GoldEntity(*it) for it in entities]
        return Record(name, text, grounded(GoldChunk(name, found, relations, text=text), text))

    return json_records(path, record, report)


def _entities(value: Any, where: str, report: Report) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if not isinstance(value, dict):
        raise ValueError("`entities` is not an object")
    for kind, names in value.items():
        for name in names if isinstance(names, list) else [names]:
            if isinstance(name, str) and name.strip():
                yield as_text(name), as_text(kind)
            else:
                report.skip(where, "skipped an entity", f"{str(name)[:80]} is no name")


def _relations(items: list[Any], where: str, report: Report) -> Iterator[Relation]:
    for item in items:
        for kind, ends in item.items() if isinstance(item, dict) else [("", item)]:
            match ends:
                case {"head": str(source), "tail": str(target)} if source.strip() and target.strip():
                    yield Relation(as_text(source), as_text(target), as_text(kind))
                case _:
                    report.skip(where, "skipped a relation", f"{str(item)[:80]} has no head and tail")


def write_gliner2(records: Iterable[Record], path: Path, _: Report, *, seed: int = 0) -> None:
    """Write one line per chunk; other types, up to 25 in all, stand there with an empty list."""
    kinds: dict[str, None] = {}
    with TemporaryFile("w+", encoding="utf-8") as waiting:
        for record in records:
            entities: dict[str, dict[str, None]] = {}
            for entity in record.gold.entities:
                entities.setdefault(entity.type, {})[entity.text] = None
            kinds |= dict.fromkeys(entities)
            relations = [{it.type: {"head": it.source, "tail": it.target}} for it in record.gold.relations]
            output = {"entities": {kind: list(names) for kind, names in entities.items()}, "relations": relations}
            waiting.write(json.dumps({"input": record.text, "output": output}) + "\n")
        waiting.seek(0)
        rng = random.Random(seed)  # noqa: S311  which negatives are drawn is no secret
        with whole_file(path) as file:
            for line in waiting:
                value = json.loads(line)
                found = value["output"]["entities"]
                found |= {kind: [] for kind in negatives(kinds.keys(), found.keys(), rng)}
                file.write(json.dumps(value, ensure_ascii=False) + "\n")

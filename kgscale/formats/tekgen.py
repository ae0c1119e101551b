"""Text2KGBench (Wikidata-TekGen): JSON lines of sentences with triples, and the ontology that they follow.

`{"id", "sent", "triples": [{"sub", "rel", "obj"}]}`. A sentence is a chunk. Entities are the ends of the triples, with
offsets where they stand in the sentence; the ontology (`ontologies/*.json`, beside the file or above it) gives their
types: the domain and the range of the relation. Where it gives none, the type is empty. The triples come from
Wikidata, not from a reader of the sentence: what they do not say may stand in it, so the gold is not exhaustive.
"""

import json
from pathlib import Path
from typing import Any

from kgscale.corpus.values import as_id, as_text
from kgscale.formats.common import Converted, Record, Report, grounded
from kgscale.formats.jsonfile import json_items, json_records, list_under
from kgscale.records import GoldChunk, GoldEntity, Relation

Types = dict[str, tuple[str, str]]
"""The types of both ends, by relation."""


def read_tekgen(path: Path) -> Converted:
    """The sentences of a file, or of the files with triples below a directory."""
    report = Report()
    ontologies = _ontologies(path, report)
    skipped = set()
    if path.is_dir():
        skipped = set(path.rglob("*.json"))
        for file in path.rglob("*.jsonl"):
            _, first = next(json_items(file), ("", None))
            if not (isinstance(first, dict) and "triples" in first and "sent" in first):
                skipped.add(file)
                report.problems.add(str(file), "has no sentences with triples, and is left out")

    def record(value: Any, where: str, _: str) -> Record:
        key, text = as_id(_get(value, "id")), as_text(_get(value, "sent"))
        if "triples" not in value:
            raise ValueError("it has no `triples`")
        types = next((it for ontology, it in ontologies.items() if key.startswith(ontology)), {})
        entities: dict[tuple[str, str], None] = {}
        relations = []
        for item in list_under(value, "triples"):
            match item:
                case {"sub": str(source), "rel": str(kind), "obj": str(target)} if source.strip() and target.strip():
                    relations.append(Relation(as_text(source), as_text(target), as_text(kind)))
                    source_type, target_type = types.get(kind, ("", ""))
                    entities |= {(source, source_type): None, (target, target_type): None}
                case _:
                    report.skip(where, "skipped a relation", f"{str(item)[:80]} is no triple ({key})")
        # A name has a type from one triple and none from another: the one it has counts.
        typed = {name for name, kind in entities if kind}
        found = [GoldEntity(name, kind) for name, kind in entities if kind or name not in typed]
        return Record(key, text, grounded(GoldChunk(key, found, relations, text=text, exhaustive=False), text))

    return json_records(path, record, report, "sentence", without=skipped)


def _get(value: dict[str, Any], key: str) -> Any:
    if key not in value:
        raise ValueError(f"it has no `{key}`")
    return value[key]


def _ontologies(path: Path, report: Report) -> dict[str, Types]:
    folders = [path / "ontologies", path.parent / "ontologies", path.parent.parent / "ontologies"]
    folder = next((it for it in folders if it.is_dir()), None)
    found: dict[str, Types] = {}
    for file in sorted(folder.glob("*.json")) if folder else []:
        try:
            value = json.loads(file.read_text(encoding="utf-8-sig"))
            labels = {it["qid"]: as_text(it["label"]) for it in value["concepts"]}
            types = {
                it["label"]: (labels.get(it.get("domain"), ""), labels.get(it.get("range"), ""))
                for it in value["relations"]
            }
            found[f"{as_text(value['id'])}_"] = types
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            report.problems.add(str(file), "cannot be read as an ontology", f"{type(error).__name__} {error}")
    if not found:
        report.problems.add(str(path), "no ontology is there: the entities have no types")
    return found

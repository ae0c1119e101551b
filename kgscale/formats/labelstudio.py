"""Label Studio: its JSON export in, tasks with pre-annotations and the labelling config out.

A task is a chunk; `data.chunk_id` and `data.doc_id` are its ids, else the task's own. Regions are character offsets,
end exclusive. A relation with direction `left` leads back, one with `bi` both ways. Of several annotations of a task
the one marked as ground truth counts, else the first; cancelled ones never do. Without any the first prediction is
taken, as pseudo-gold. A choice about a region without a label is its type; those about the whole text are left out.

https://labelstud.io/guide/export and https://labelstud.io/guide/predictions
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from kgscale.corpus.values import as_id, as_text
from kgscale.formats.common import Converted, Record, Report, as_offset, with_checked_offsets
from kgscale.formats.jsonfile import json_records, list_under
from kgscale.formats.output import whole_file
from kgscale.formats.spans import Link, links_of, mentions_of
from kgscale.records import GoldChunk, GoldEntity, Origin, Relation

LABELS, RELATIONS, TEXT = "label", "relations", "text"
"""The names of the controls in the labelling config."""
IN_UTF16 = "offsets that count UTF-16 units were turned into characters"


def read_label_studio(path: Path) -> Converted:
    """The tasks of an export (JSON, not JSON-MIN), or of the .json files below a directory."""
    report = Report()

    def record(value: dict[str, Any], where: str, name: str) -> Record:
        data = value.get("data")
        if not isinstance(data, dict):
            raise ValueError("it is no task with `data` (JSON-MIN loses relations: export as JSON)")
        text = _text_of(data)
        key = as_id(data.get("chunk_id") or value.get("id") or name)
        doc_id = as_id(data.get("doc_id") or key)
        chosen, origin = _chosen(value, f"{where} ({key})", report)
        if chosen is None:
            return Record(doc_id, text, GoldChunk(key, [], [], text=text), annotated=False)
        regions, relations = _results(chosen, text, f"{where} ({key})", report)
        gold = GoldChunk(key, [it for region in regions.values() for it in region], relations, origin, text)
        return Record(doc_id, text, with_checked_offsets(gold, text, where, report))

    return json_records(path, record, report, "task")


def _text_of(data: dict[str, Any]) -> str:
    if isinstance(data.get(TEXT), str):
        return as_text(data[TEXT])
    texts = [it for key, it in data.items() if isinstance(it, str) and key not in ("chunk_id", "doc_id")]
    if len(texts) != 1:
        raise ValueError("it has no `data.text`")
    return as_text(texts[0])


def _chosen(task: dict[str, Any], where: str, report: Report) -> tuple[list[Any] | None, Origin]:
    """The results that count, null where there are none, and what they are."""
    old = "annotations" if "annotations" in task else "completions"
    there = [it for it in list_under(task, old) if isinstance(it, dict)]
    done = [it for it in there if not it.get("was_cancelled")]
    for it in there:
        if it.get("was_cancelled") and it.get("result"):
            report.skip(where, "left out a cancelled annotation")
    predictions = [it for it in list_under(task, "predictions") if isinstance(it, dict)]
    meta = task.get("meta") if isinstance(task.get("meta"), dict) else {}
    if not done:
        for _ in predictions[1:]:
            report.skip(where, "left out another prediction of the same task")
        return (list_under(predictions[0], "result"), Origin.PSEUDO) if predictions else (None, Origin.PSEUDO)
    done.sort(key=lambda it: not it.get("ground_truth"))
    for _ in done[1:]:
        report.skip(where, "left out another annotation of the same task")
    assert isinstance(meta, dict)
    reviewed = predictions or done[0].get("parent_prediction") or meta.get("origin") == Origin.REVIEWED
    return list_under(done[0], "result"), Origin.REVIEWED if reviewed else Origin.MANUAL


def _results(
    results: list[Any], text: str, where: str, report: Report
) -> tuple[dict[str, list[GoldEntity]], list[Relation]]:
    """The entities of each region, by its id (one for each label), and the relations between regions."""
    items = [it for it in results if isinstance(it, dict)]
    labelled = {str(it.get("id")) for it in items if str(it.get("type")).endswith("labels")}
    regions: dict[str, list[GoldEntity]] = {}
    for number, item in enumerate(items):
        value = item.get("value") if isinstance(item.get("value"), dict) else {}
        assert isinstance(value, dict)
        kind = str(item.get("type"))
        if kind == "relation":
            continue
        if kind == "choices" and ("start" not in value or str(item.get("id")) in labelled):
            report.skip(where, "left out a choice", f"{value.get('choices')}"[:80])
        elif kind.endswith("labels") or kind == "choices":
            region = _region(value, kind, text, where, report)
            if region:
                regions[str(item.get("id") or f"#{number}")] = region
        else:
            report.skip(where, "left out a result of another type", kind[:80])
    relations = [
        relation for it in items if it.get("type") == "relation" for relation in _relations(it, regions, where, report)
    ]
    return regions, relations


def _region(value: dict[str, Any], kind: str, text: str, where: str, report: Report) -> list[GoldEntity]:
    start, end = as_offset(value.get("start")), as_offset(value.get("end"))
    if start is None or end is None or not start < end or ("text" not in value and end > len(text)):
        report.skip(where, "skipped an entity", f"its offsets are {value.get('start')!r} to {value.get('end')!r}"[:80])
        return []
    # An export may lack the text of a region; what it covers counts then.
    name = as_text(value["text"]) if isinstance(value.get("text"), str) else text[start:end]
    if text[start:end] != name and (units := _from_utf16(text, start, end)) and text[slice(*units)] == name:
        start, end = units
        report.problems.add(where, IN_UTF16, name[:80])
    # A region that nobody labelled has no type.
    labels = value.get(kind) or value.get("labels") or [""]
    return [GoldEntity(name, as_text(it), start, end) for it in (labels if isinstance(labels, list) else [labels])]


def _from_utf16(text: str, start: int, end: int) -> tuple[int, int] | None:
    data = text.encode("utf-16-le")
    try:
        return len(data[: 2 * start].decode("utf-16-le")), len(data[: 2 * end].decode("utf-16-le"))
    except UnicodeDecodeError:
        return None


def _relations(
    item: dict[str, Any], regions: dict[str, list[GoldEntity]], where: str, report: Report
) -> Iterator[Relation]:
    ends = [regions.get(str(item.get(key))) for key in ("from_id", "to_id")]
    if not (ends[0] and ends[1]):
        report.skip(where, "skipped a relation", f"{item.get('from_id')} or {item.get('to_id')} is no entity"[:80])
        return
    source, target = ends[0][0].text, ends[1][0].text
    direction = item.get("direction")
    for kind in list_under(item, "labels") or [""]:
        if direction != "left":
            yield Relation(source, target, as_text(kind))
        if direction in ("left", "bi"):
            yield Relation(target, source, as_text(kind))
        if direction == "bi" and kind:
            report.symmetric_types.add(kind)


def config_of(tasks: Path) -> Path:
    """Where the labelling config of a file of tasks stands: `labels.xml` by `tasks.json`, else `NAME.xml`."""
    return tasks.with_name("labels.xml") if tasks.name == "tasks.json" else tasks.with_suffix(".xml")


def write_label_studio(
    records: Iterable[Record], path: Path, report: Report, types: tuple[Iterable[str], Iterable[str]] = ((), ())
) -> None:
    """Write tasks to import, and beside them the labelling config, with these types of entities and relations first.

    Pseudo-gold becomes a prediction, from which people start; any other annotation stays one. Raises `WorkError` if a
    file cannot be written.
    """
    kinds, relation_kinds = (dict.fromkeys(it) for it in types)
    with whole_file(path) as file, whole_file(config_of(path)) as xml:
        file.write("[")
        for number, record in enumerate(records):
            task, entity_types, relation_types = _task(record, report)
            kinds |= dict.fromkeys(entity_types)
            relation_kinds |= dict.fromkeys(relation_types)
            file.write((",\n" if number else "\n") + json.dumps(task, ensure_ascii=False))
        file.write("\n]\n")
        xml.write(labelling_config(kinds, relation_kinds))


def labelling_config(entity_types: Iterable[str], relation_types: Iterable[str]) -> str:
    """The config of a Label Studio project for these types."""
    lines = ["<View>", "  <Relations>"]
    lines += [f"    <Relation value={quoteattr(it)}/>" for it in relation_types if it]
    lines += ["  </Relations>", f'  <Labels name="{LABELS}" toName="{TEXT}">']
    lines += [f"    <Label value={quoteattr(it)}/>" for it in entity_types if it]
    lines += ["  </Labels>", f'  <Text name="{TEXT}" value="${TEXT}"/>', "</View>"]
    return "\n".join(lines) + "\n"


def _task(record: Record, report: Report) -> tuple[dict[str, Any], list[str], list[str]]:
    """The task, and the types that it uses."""
    gold = record.gold
    task: dict[str, Any] = {"data": {TEXT: record.text, "chunk_id": gold.chunk_id, "doc_id": record.doc_id}}
    if not record.annotated:
        return task, [], []
    mentions = mentions_of(record, report)
    links = links_of(record, mentions, report)
    result: list[dict[str, Any]] = []
    for number, it in enumerate(mentions):
        value = {"start": it.start, "end": it.end, "text": record.text[it.start : it.end]}
        value |= {"labels": [it.entity.type]} if it.entity.type else {}
        result.append({"id": f"e{number}", "from_name": LABELS, "to_name": TEXT, "type": "labels", "value": value})
    result += [
        {
            "from_id": f"e{it.head}",
            "to_id": f"e{it.tail}",
            "type": "relation",
            "direction": direction,
            **({"labels": [it.type]} if it.type else {}),
        }
        for it, direction in _directed(links, gold.chunk_id, report)
    ]
    if gold.origin is Origin.PSEUDO:
        task["predictions"] = [{"model_version": gold.annotator or Origin.PSEUDO.value, "result": result}]
    else:
        task |= {"annotations": [{"result": result}], "meta": {"origin": gold.origin.value}}
    return task, [it.entity.type for it in mentions], [it.type for it in links]


def _directed(links: list[Link], where: str, report: Report) -> Iterator[tuple[Link, str]]:
    """Each relation once, with its direction; two that lead both ways are one."""
    there = dict.fromkeys(links)
    for _ in range(len(links) - len(there)):
        report.problems.add(where, "a relation that stands twice is written once")
    for it in there:
        back = Link(it.tail, it.head, it.type)
        if it.head == it.tail or back not in there:
            yield it, "right"
        elif it.head < it.tail:
            yield it, "bi"

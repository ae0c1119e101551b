import json
from xml.etree import ElementTree

import pytest

from kgscale.errors import UserError
from kgscale.formats import Record, Report
from kgscale.formats.labelstudio import IN_UTF16, labelling_config, read_label_studio, write_label_studio
from kgscale.records import GoldChunk, GoldEntity, Origin, Relation

TEXT = "Apple Inc. was founded by Steve Jobs."


def region(name, start, end, *labels, **value):
    value = {"start": start, "end": end, "text": TEXT[start:end], "labels": list(labels), **value}
    return {"id": name, "from_name": "label", "to_name": "text", "type": "labels", "value": value}


def relation(source, target, direction="right", **more):
    return {"from_id": source, "to_id": target, "type": "relation", "direction": direction, **more}


APPLE, JOBS = region("a", 0, 10, "ORG"), region("b", 26, 36, "PER")


def read(tmp_path, *tasks):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks), encoding="utf-8")
    result = read_label_studio(path)
    return list(result.records), result.report


def task(*results, text=TEXT, **more):
    return {"id": 1, "data": {"text": text}, "annotations": [{"result": list(results)}], **more}


def test_entities_and_relations_in_every_direction(tmp_path):
    results = [
        APPLE,
        JOBS,
        relation("b", "a", labels=["FOUNDED"]),
        relation("a", "b", "left", labels=["LED"]),
        relation("a", "b", "bi", labels=["LIKE"]),
        relation("a", "b", labels=[]),
    ]
    (record,), report = read(tmp_path, task(*results))
    assert (record.gold.chunk_id, record.doc_id, record.gold.origin) == ("1", "1", Origin.MANUAL)
    assert record.gold.entities == [GoldEntity("Apple Inc.", "ORG", 0, 10), GoldEntity("Steve Jobs", "PER", 26, 36)]
    assert record.gold.relations == [
        Relation("Steve Jobs", "Apple Inc.", "FOUNDED"),
        Relation("Steve Jobs", "Apple Inc.", "LED"),
        Relation("Apple Inc.", "Steve Jobs", "LIKE"),
        Relation("Steve Jobs", "Apple Inc.", "LIKE"),
        Relation("Apple Inc.", "Steve Jobs", ""),
    ]
    assert report.symmetric_types == {"LIKE"}
    assert report.skipped == 0


def test_several_labels_missing_texts_and_choices(tmp_path):
    no_text = region("c", 0, 5, "BRAND", "FRUIT")
    del no_text["value"]["text"]
    choice = {"id": "d", "type": "choices", "value": {"start": 26, "end": 31, "choices": ["first name"]}}
    whole = {"type": "choices", "value": {"choices": ["relevant"]}}
    (record,), report = read(tmp_path, task(no_text, choice, whole, {"type": "rating", "value": {"rating": 3}}))
    assert record.gold.entities == [
        GoldEntity("Apple", "BRAND", 0, 5),
        GoldEntity("Apple", "FRUIT", 0, 5),
        GoldEntity("Steve", "first name", 26, 31),
    ]
    assert dict(report.problems.counts) == {"left out a choice": 1, "left out a result of another type": 1}


def test_which_annotation_counts(tmp_path):
    annotations = [
        {"result": [APPLE, JOBS], "was_cancelled": True},
        {"result": [APPLE]},
        {"result": [JOBS], "ground_truth": True},
    ]
    predictions = [{"result": [APPLE]}, {"result": [JOBS]}]
    several, pseudo, reviewed, nobody = (
        task(annotations=annotations),
        task(id=2, annotations=[], predictions=predictions),
        task(JOBS, id=3, predictions=predictions),
        task(id=4, annotations=annotations[:1]),
    )
    records, report = read(tmp_path, several, pseudo, reviewed, nobody)
    assert [[it.type for it in record.gold.entities] for record in records] == [["PER"], ["ORG"], ["PER"], []]
    assert [it.gold.origin for it in records[:3]] == [Origin.MANUAL, Origin.PSEUDO, Origin.REVIEWED]
    assert [it.annotated for it in records] == [True, True, True, False]
    assert dict(report.problems.counts) == {
        "left out a cancelled annotation": 2,
        "left out another annotation of the same task": 1,
        "left out another prediction of the same task": 1,
    }


def test_offsets_in_utf16_units_are_turned_and_told(tmp_path):
    text = "😀😀 Ada met Bob"
    bad = region("b", 3, 6, "PER", text="Bob")
    (record,), report = read(tmp_path, task(region("a", 5, 8, "PER", text="Ada"), bad, text=text))
    assert record.gold.entities == [GoldEntity("Ada", "PER", 3, 6), GoldEntity("Bob", "PER")]
    assert report.problems.counts[IN_UTF16] == 1
    assert sum(report.problems.counts.values()) == 2


def test_what_does_not_fit_is_told(tmp_path):
    results = [region("a", None, 3, "ORG"), region("b", 5, 5, "ORG"), relation("a", "b"), "x", {"type": "labels"}]
    (record,), report = read(tmp_path, task(*results), {"id": 2, "text": "JSON-MIN"}, {"id": 3, "data": {"n": 1}})
    assert record.gold.entities == []
    assert dict(report.problems.counts) == {"skipped an entity": 3, "skipped a relation": 1, "skipped a task": 2}


def test_ids_of_regions_may_be_anything(tmp_path):
    regions = [{**region("a", 0, 5, "ORG"), "id": it} for it in (["a"], {"a": 1}, None, 7)]
    choice = {"id": ["a"], "type": "choices", "value": {"start": 0, "end": 5, "choices": ["x"]}}
    (record,), report = read(tmp_path, task(*regions, choice))
    assert record.gold.entities == [GoldEntity("Apple", "ORG", 0, 5)] * 4
    assert report.skipped == 1


def test_a_region_beyond_the_text_without_its_own_text_is_no_entity(tmp_path):
    beyond = region("a", 0, len(TEXT) + 1, "ORG")
    del beyond["value"]["text"]
    (record,), report = read(tmp_path, task(beyond))
    assert record.gold.entities == []
    assert report.skipped == 1


def test_json_min_is_refused_in_words(tmp_path):
    with pytest.raises(UserError, match="export as JSON"):
        read(tmp_path, {"id": 2, "text": TEXT, "label": [{"start": 0, "end": 5, "labels": ["ORG"]}]})


def test_pseudo_gold_becomes_predictions_and_the_config_has_every_type(tmp_path):
    kinds = ['a "b" <c> & d', "机构"]
    entities = [GoldEntity("Apple Inc.", kinds[0], 0, 10), GoldEntity("Steve Jobs", kinds[1], 26, 36)]
    relations = [Relation("Apple Inc.", "Steve Jobs", "like"), Relation("Steve Jobs", "Apple Inc.", "like")]
    for origin in Origin:
        record = Record("d", TEXT, GoldChunk("c", entities, relations, origin, TEXT))
        unread = Record("d", TEXT, GoldChunk("e", [], []), annotated=False)
        write_label_studio([record, unread], tmp_path / f"{origin}/tasks.json", Report())
        first, second = json.loads((tmp_path / f"{origin}/tasks.json").read_text())
        assert ("predictions" in first) == (origin is Origin.PSEUDO)
        assert second == {"data": {"text": TEXT, "chunk_id": "e", "doc_id": "d"}}
        result = (first.get("predictions") or first["annotations"])[0]["result"]
        assert [it["direction"] for it in result if it["type"] == "relation"] == ["bi"]
        config = ElementTree.parse(tmp_path / f"{origin}/labels.xml").getroot()
        assert [it.get("value") for it in config.iter("Label")] == kinds
        assert [it.get("value") for it in config.iter("Relation")] == ["like"]


def test_the_config_is_xml_whatever_the_types_are():
    assert ElementTree.fromstring(labelling_config(["<", ""], ["&"])).find("Labels/Label").get("value") == "<"

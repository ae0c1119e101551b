"""Review: through Label Studio and back."""

import json
import xml.etree.ElementTree as ET

import pytest

from kgscale.config import SchemaConfig
from kgscale.errors import UserError
from kgscale.formats import load_gold
from kgscale.gold.review import Tool, take_reviewed, write_review
from kgscale.records import Origin

TEXT = "Ada 😀 of Acme met Bob."


def pseudo(path, count=3):
    chunk = {
        "doc_id": "d",
        "text": TEXT,
        "origin": "pseudo",
        "annotator": "big-model",
        "prompt": "0f0f",
        "ground_truth_entities": [
            {"text": "Ada", "type": "person", "start": 0, "end": 3, "aliases": ["Augusta"]},
            {"text": "Acme", "type": "organization", "start": 9, "end": 13},
        ],
        "ground_truth_relations": [{"source": "Ada", "target": "Acme", "type": "works_for"}],
    }
    path.write_text(json.dumps({"chunks": [{"chunk_id": f"c{at}", **chunk} for at in range(count)]}))
    return path


def silent(_):
    pass


def test_label_studio_is_given_every_type_of_the_schema(tmp_path):
    write_review(pseudo(tmp_path / "gold.json"), tmp_path / "ls.json", Tool.LABEL_STUDIO, SchemaConfig(), silent)
    config = ET.parse(tmp_path / "ls.xml")
    assert [it.get("value") for it in config.iter("Label")] == list(SchemaConfig().entity_types)
    assert [it.get("value") for it in config.iter("Relation")] == list(SchemaConfig().relation_types)
    tasks = json.loads((tmp_path / "ls.json").read_text())
    assert [it["predictions"][0]["model_version"] for it in tasks] == ["big-model"] * 3


def test_the_config_stands_beside_the_tasks_and_nothing_is_written_over(tmp_path):
    gold = pseudo(tmp_path / "gold.json")
    (tmp_path / "labels.xml").write_text("another project's")
    with pytest.raises(UserError, match=r"labels\.xml would be written over"):
        write_review(gold, tmp_path / "tasks.json", Tool.LABEL_STUDIO, SchemaConfig(), silent)
    assert (tmp_path / "labels.xml").read_text() == "another project's"
    with pytest.raises(UserError, match=r"where the labelling config would stand"):
        write_review(gold, tmp_path / "ls.xml", Tool.LABEL_STUDIO, SchemaConfig(), silent)
    (tmp_path / "labels.xml").unlink()
    write_review(gold, tmp_path / "tasks.json", Tool.LABEL_STUDIO, SchemaConfig(), silent)
    assert sorted(it.name for it in tmp_path.iterdir()) == ["gold.json", "labels.xml", "tasks.json"]
    config = ET.parse(tmp_path / "labels.xml")
    assert [it.get("value") for it in config.iter("Label")] == list(SchemaConfig().entity_types)


def test_what_comes_back_is_reviewed_and_knows_who_annotated(tmp_path):
    gold = pseudo(tmp_path / "gold.json")
    write_review(gold, tmp_path / "ls.json", Tool.LABEL_STUDIO, SchemaConfig(), silent)
    tasks = json.loads((tmp_path / "ls.json").read_text())
    # One is accepted and changed, one is skipped, one is not looked at.
    result = tasks[0]["predictions"][0]["result"]
    result[1]["value"]["labels"] = ["product"]
    tasks[0]["annotations"] = [{"result": result}]
    tasks[1]["annotations"] = [{"result": result, "was_cancelled": True}]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    taken = take_reviewed(gold, tmp_path / "export.json", tmp_path / "reviewed.json", silent)
    assert (taken.chunks, taken.unreviewed) == (1, 2)
    (chunk,) = load_gold(tmp_path / "reviewed.json").chunks
    assert (chunk.chunk_id, chunk.origin, chunk.annotator, chunk.prompt) == (
        "c0",
        Origin.REVIEWED,
        "big-model",
        "0f0f",
    )
    assert [(it.text, it.type, it.start, it.aliases) for it in chunk.entities] == [
        ("Ada", "person", 0, ["Augusta"]),
        ("Acme", "product", 9, []),
    ]
    assert [(it.source, it.type, it.target) for it in chunk.relations] == [("Ada", "works_for", "Acme")]


def test_a_sample_annotated_from_nothing_is_manual(tmp_path, sample):
    src = sample([TEXT])
    write_review(src, tmp_path / "ls.json", Tool.LABEL_STUDIO, SchemaConfig(), silent)
    tasks = json.loads((tmp_path / "ls.json").read_text())
    value = {"start": 0, "end": 3, "text": "Ada", "labels": ["person"]}
    tasks[0]["annotations"] = [
        {"result": [{"id": "a", "from_name": "label", "to_name": "text", "type": "labels", "value": value}]}
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    take_reviewed(src, tmp_path / "export.json", tmp_path / "manual.json", silent)
    (chunk,) = load_gold(tmp_path / "manual.json").chunks
    assert (chunk.origin, chunk.annotator, len(chunk.entities)) == (Origin.MANUAL, None, 1)


@pytest.mark.parametrize("change", [{"chunk_id": "c9"}, {"text": "Another text."}])
def test_an_export_of_something_else_is_refused(tmp_path, change):
    gold = pseudo(tmp_path / "gold.json", 1)
    write_review(gold, tmp_path / "ls.json", Tool.LABEL_STUDIO, SchemaConfig(), silent)
    tasks = json.loads((tmp_path / "ls.json").read_text())
    tasks[0]["data"] |= change
    tasks[0]["annotations"] = [{"result": []}]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    with pytest.raises(UserError, match="sent for review"):
        take_reviewed(gold, tmp_path / "export.json", tmp_path / "reviewed.json", silent)
    assert not (tmp_path / "reviewed.json").exists()


def test_an_export_that_nobody_worked_on_is_refused(tmp_path):
    gold = pseudo(tmp_path / "gold.json")
    write_review(gold, tmp_path / "ls.json", Tool.LABEL_STUDIO, SchemaConfig(), silent)
    with pytest.raises(UserError, match="nobody"):
        take_reviewed(gold, tmp_path / "ls.json", tmp_path / "reviewed.json", silent)

"""The demo corpus keeps what its README promises: exact offsets, a closed schema, enough of everything."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from kgscale.configfile import load_config

DEMO = Path(__file__).parent.parent / "jobs" / "demo"

SCHEMA = load_config(DEMO.parent / "demo.yaml").schema_
ENTITY_TYPES = set(SCHEMA.entity_types)
RELATION_ENDS = {name: (set(it.source), set(it.target)) for name, it in SCHEMA.relation_types.items()}
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def read_corpus():
    lines = (DEMO / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


CORPUS = read_corpus()
GOLD = json.loads((DEMO / "gold.json").read_text(encoding="utf-8"))["chunks"]


def is_chinese(text):
    return len(re.findall(r"[\u4e00-\u9fff]", text)) > 0.3 * len(text)


def relation_key(relation):
    return relation["source"], relation["type"], relation["target"]


@pytest.fixture(params=GOLD, ids=lambda chunk: chunk["chunk_id"])
def chunk(request):
    return request.param


def test_both_files_hold_the_same_chunks_once():
    ids = [row["chunk_id"] for row in CORPUS]
    assert len(set(ids)) == len(ids)
    assert [gold["chunk_id"] for gold in GOLD] == ids
    assert [gold["text"] for gold in GOLD] == [row["text"] for row in CORPUS]


def test_rows_have_the_promised_fields():
    assert all(set(row) == {"chunk_id", "doc_id", "text"} for row in CORPUS)
    assert all(row["chunk_id"].startswith(row["doc_id"] + "-") for row in CORPUS)
    assert all(row["text"] == row["text"].strip() != "" for row in CORPUS)


def test_offsets_give_the_text_and_do_not_overlap(chunk):
    position = 0
    for entity in chunk["ground_truth_entities"]:
        assert position <= entity["start"] < entity["end"]
        assert chunk["text"][entity["start"] : entity["end"]] == entity["text"]
        position = entity["end"]


def test_types_are_within_the_schema(chunk):
    assert {entity["type"] for entity in chunk["ground_truth_entities"]} <= ENTITY_TYPES
    assert {relation["type"] for relation in chunk["ground_truth_relations"]} <= set(RELATION_ENDS)


def test_relations_join_annotated_entities_of_allowed_types(chunk):
    types_of = {}
    for entity in chunk["ground_truth_entities"]:
        types_of.setdefault(entity["text"], set()).add(entity["type"])
    for relation in chunk["ground_truth_relations"]:
        source_types, target_types = RELATION_ENDS[relation["type"]]
        assert types_of.get(relation["source"], set()) & source_types, relation
        assert types_of.get(relation["target"], set()) & target_types, relation


def test_relations_are_stated_once(chunk):
    keys = [relation_key(relation) for relation in chunk["ground_truth_relations"]]
    assert len(set(keys)) == len(keys)
    assert all(source != target for source, _, target in keys)
    partners = [frozenset((source, target)) for source, kind, target in keys if kind == "partner_of"]
    assert len(set(partners)) == len(partners), "a symmetric relation is listed in one direction"


def test_every_mention_outside_code_is_annotated(chunk):
    text = chunk["text"]
    entities = chunk["ground_truth_entities"]
    covered = [(entity["start"], entity["end"]) for entity in entities]
    covered += [match.span() for match in CODE.finditer(text)]
    for name in {entity["text"] for entity in entities}:
        for match in re.finditer(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", text):
            assert any(match.start() < end and start < match.end() for start, end in covered), match


def test_there_is_enough_of_everything():
    texts = [gold["text"] for gold in GOLD]
    assert len(GOLD) >= 80
    assert sum(not gold["ground_truth_entities"] for gold in GOLD) >= 10
    assert sum(len(text.split()) > 600 for text in texts) >= 2
    assert sum(is_chinese(text) for text in texts) >= 6
    entities = Counter(e["type"] for gold in GOLD for e in gold["ground_truth_entities"])
    relations = Counter(r["type"] for gold in GOLD for r in gold["ground_truth_relations"])
    assert {kind for kind in ENTITY_TYPES if entities[kind] < 8} == set()
    assert {kind for kind in RELATION_ENDS if relations[kind] < 8} == set()


def test_the_readme_states_the_true_counts():
    readme = (DEMO / "README.md").read_text(encoding="utf-8")
    mentions = Counter(e["type"] for gold in GOLD for e in gold["ground_truth_entities"])
    relations = Counter(r["type"] for gold in GOLD for r in gold["ground_truth_relations"])
    for kind, count in (mentions | relations).items():
        assert re.search(rf"^\| {kind} \| {count} \|", readme, re.MULTILINE), kind

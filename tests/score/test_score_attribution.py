"""Why relations are lost: one cause each, every case and an oracle."""

from collections import Counter

import polars as pl
import pytest
import score_oracle as oracle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from score_helpers import answer, compared, entity, gold_chunk, gold_entity, make_run, same_as

from kgscale.records import Entity, GoldEntity, Relation, Status
from kgscale.score.compare import compare_run
from kgscale.score.scorer import score_run
from kgscale.score.tables import CAUSES, read_table
from kgscale.score.verdict import Fact, Kind

TRUTH = gold_chunk("a", [gold_entity("A"), gold_entity("B"), gold_entity("C")], [Relation("A", "B", "founded_by")])


def causes(tmp_path, entities, relations, truth=TRUTH, **more):
    run = make_run(tmp_path, ["a"], {"m": [answer([entity(it) for it in entities], relations, **more)]}, [truth])
    it = score_run(run).methods[0]
    return {x.what: x.count for x in it.missed}, {x.what: x.count for x in it.spurious}


@pytest.mark.parametrize(
    ("entities", "relations", "missed", "spurious"),
    [
        ("AB", [Relation("a", "b", "founder")], {}, {}),
        ("AB", [], {"both found but no edge": 1}, {}),
        ("A", [], {"target missing": 1}, {}),
        ("B", [], {"source missing": 1}, {}),
        ("C", [], {"both missing": 1}, {}),
        ("", [], {"both missing": 1}, {}),
        ("AB", [Relation("A", "B", "uses")], {"wrong type": 1}, {"wrong type": 1}),
        ("AB", [Relation("B", "A", "uses")], {"wrong type": 1}, {"wrong type": 1}),
        ("AB", [Relation("B", "A", "founded_by")], {"wrong direction": 1}, {"wrong direction": 1}),
        ("", [Relation("B", "A", "founded_by")], {"wrong direction": 1}, {"wrong direction": 1}),
        ("ABC", [Relation("A", "C", "uses")], {"both found but no edge": 1}, {"pair unrelated": 1}),
        ("ABX", [Relation("A", "X", "uses")], {"both found but no edge": 1}, {"entity invented": 1}),
        ("AB", [Relation("A", "B", "founded_by"), Relation("A", "B", "uses")], {}, {"wrong type": 1}),
    ],
)
def test_each_cause(tmp_path, entities, relations, missed, spurious):
    assert causes(tmp_path, entities, relations) == (missed, spurious)


def test_a_chunk_without_an_answer_is_told_apart(tmp_path):
    assert causes(tmp_path, "", [], status=Status.FAILED) == ({"chunk not answered": 1}, {})


def test_a_symmetric_relation_has_no_wrong_direction(tmp_path):
    truth = gold_chunk("a", [gold_entity("A"), gold_entity("B")], [Relation("B", "A", "partner_of")])
    assert causes(tmp_path / "1", "AB", [Relation("A", "B", "partner_of")], truth) == ({}, {})
    assert causes(tmp_path / "2", "AB", [Relation("A", "B", "uses")], truth) == ({"wrong type": 1}, {"wrong type": 1})


def test_what_the_candidate_lost_is_told_in_the_verdict(tmp_path):
    found = [Relation("A", "B", "founded_by"), Relation("A", "C", "uses"), Relation("B", "C", "uses")]
    truth = gold_chunk("a", [gold_entity(it) for it in "ABC"], found)
    candidate = answer([entity("A"), entity("B")], found[:1])
    run = make_run(tmp_path, ["a"], {"llm": [same_as(truth)], "hybrid": [candidate]}, [truth])
    scores = score_run(run)
    before, after = scores.losses
    assert (before.before, before.after, before.relations) == ("llm", "hybrid", 2)
    assert {it.what: it.count for it in before.causes} == {"target missing": 2}
    assert (after.before, after.relations) == ("hybrid", 0)
    told = [it for it in compare_run(run, run.config.compare).reasons if it.kind is Kind.LOST]
    assert told == [
        Fact.of(Kind.LOST, relations=2, baseline="llm", candidate="hybrid", entity_missing=1.0, cause="target missing")
    ]
    table = read_table(run, CAUSES).to_dicts()
    assert {(it["method"], it["kind"], it["type"], it["cause"], it["count"]) for it in table} == {
        ("hybrid", "missed", "uses", "target missing", 2)
    }


NAMES = st.sampled_from("ABCD")
KINDS = st.sampled_from(["founded_by", "uses", "partner_of"])
RELATIONS = st.lists(st.builds(Relation, NAMES, NAMES, KINDS), max_size=6)


def keyed(relations):
    found = set()
    for it in relations:
        ends = (it.source.lower(), it.target.lower())
        found.add((*(sorted(ends) if it.type == "partner_of" else ends), it.type))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.builds(GoldEntity, NAMES, st.just("person")), max_size=4),
    RELATIONS,
    st.lists(st.builds(Entity, NAMES, st.just("person")), max_size=4),
    RELATIONS,
)
def test_the_same_causes_as_the_oracle(gold_entities, gold_relations, entities, relations):
    truth = gold_chunk("a", gold_entities, gold_relations)
    found = compared([truth], [answer(entities, relations)], ["a"]).found.causes
    told = {kind: Counter(found.filter(pl.col("kind") == kind)["cause"]) for kind in ("missed", "spurious")}
    truth_keys, said_keys = keyed(gold_relations), keyed(relations)
    said_names = {x.text.lower() for x in entities}
    assert told["missed"] == Counter(oracle.why_missed(x, said_keys, said_names) for x in truth_keys - said_keys)
    gold_names = {x.text.lower() for x in gold_entities}
    assert told["spurious"] == Counter(oracle.why_spurious(x, truth_keys, gold_names) for x in said_keys - truth_keys)

"""The verdict: signed differences, floors, the matrix, and what forbids an answer."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_helpers import answer, entity, gold_chunk, gold_entity, make_run

from kgscale.config import CompareConfig, VllmEngine
from kgscale.errors import UserError
from kgscale.records import GOLD_SCHEMA, Origin, Relation, Status, to_table
from kgscale.runs import GOLD_FILE, RUN_FILE, Run
from kgscale.score.compare import compare, compare_run, family
from kgscale.score.decide import Case, action_at, decide
from kgscale.score.results import Interval
from kgscale.score.scorer import score_run
from kgscale.score.verdict import Difference, Fact, Kind, Outcome, SpeedUp, Standing

RULES = CompareConfig()


def difference(before, after, what="entity", **more):
    known = {
        "entity": (0.80, 10, 5),
        "relation": (0.75, 8, 3),
        "ragas": (0.75, 5, 2),
        "faithfulness": (0.80, None, None),
    }
    floor, minimum, recommended = known[what]
    return Difference(what, "mode", before, after, 100 * (before - after), floor, minimum, recommended, **more)


def verdict(entity, relation=(0.9, 0.9), speed_up=4.0, **more):
    pair = (difference(*entity), difference(*relation, what="relation"))
    return decide(Case("llm", "hybrid", pair, speed_up and SpeedUp(speed_up), 100, **more), RULES)


def kinds(it):
    return {fact.kind for fact in it.reasons}


@pytest.mark.parametrize(
    ("drop", "speed_up", "action"),
    [
        (-30, 1, "use"),
        (0, 1, "use"),
        (1.99, 1.5, "use"),
        (2, 1, "look"),
        (2, 2, "use"),
        (5, 1, "keep"),
        (5, 4.9, "look"),
        (5, 5, "use"),
        (10, 2, "keep"),
        (10, 5, "look"),
        (10, 10, "use"),
        (100 * (0.80 - 0.78), 1, "look"),
        (1, 0.5, "look"),
        (2, 0.99, "keep"),
    ],
)
def test_the_guides_matrix(drop, speed_up, action):
    assert action_at(drop, speed_up, RULES) == action


def test_recommended():
    it = verdict((0.90, 0.89), speed_up=4)
    assert (it.outcome, it.passed) == (Outcome.RECOMMENDED, True)
    assert kinds(it) == {Kind.CELL}


def test_the_larger_drop_enters_the_matrix():
    assert verdict((0.99, 0.99), (0.90, 0.84), speed_up=1.5).cells[0].drop == pytest.approx(6)
    assert verdict((0.99, 0.91), (0.90, 0.90), speed_up=1.5).cells[0].drop == pytest.approx(8)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(1, 50))
def test_an_improvement_never_fails(one, two, three, four, speed_up):
    entity, relation = sorted((one, two)), sorted((three, four))
    it = verdict(entity, relation, speed_up)
    assert it.passed
    assert it.outcome in (Outcome.RECOMMENDED, Outcome.LOOK)
    assert it.outcome == Outcome.RECOMMENDED or entity[1] < 0.80 or relation[1] < 0.75


def test_below_the_floor_is_not_recommended_unless_nothing_is_lost():
    assert verdict((0.81, 0.79), speed_up=20).outcome == Outcome.NOT_RECOMMENDED
    better = verdict((0.30, 0.50), speed_up=20)
    assert (better.outcome, better.passed) == (Outcome.LOOK, True)
    assert Kind.FLOOR_NO_WORSE in kinds(better)


def test_a_drop_beyond_the_minimum_is_never_recommended_outright():
    it = verdict((0.99, 0.88), speed_up=20)
    assert (it.outcome, it.passed) == (Outcome.LOOK, False)
    assert Fact.of(Kind.ABOVE_MINIMUM, what="entity", drop=it.differences[0].drop, limit=10) in it.reasons


def test_a_missed_recommended_threshold_is_told():
    it = verdict((0.99, 0.93), speed_up=20)
    assert it.outcome == Outcome.RECOMMENDED
    assert Kind.ABOVE_RECOMMENDED in kinds(it)


def test_a_slower_candidate_is_said_to_be_slower():
    it = verdict((0.90, 0.85), speed_up=0.5)
    assert it.outcome == Outcome.NOT_RECOMMENDED
    assert it.reasons[0] == Fact.of(Kind.SLOWER, candidate="hybrid", baseline="llm", times=2.0)
    assert Kind.CELL_SLOWER in kinds(it)
    assert verdict((0.90, 0.95), speed_up=0.5).outcome == Outcome.LOOK


def test_unknown_speed_counts_as_equal():
    assert verdict((0.90, 0.89), speed_up=None).outcome == Outcome.RECOMMENDED
    assert verdict((0.90, 0.87), speed_up=None).outcome == Outcome.LOOK
    assert verdict((0.9, 0.9), speed_up=None).reasons[0].kind is Kind.SPEED_UNKNOWN


def test_an_obstacle_forbids_a_verdict():
    it = verdict((0.9, 0.9), obstacles=(Fact.of(Kind.NO_GOLD),))
    assert (it.outcome, it.passed) == (Outcome.UNDECIDED, False)
    assert kinds(it).isdisjoint({Kind.NEEDED, Kind.ENOUGH, Kind.TOO_CLOSE})


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 50), st.floats(1, 2))
def test_an_uncertain_speed_up_changes_no_outcome(before, after, times, apart):
    sure = verdict((before, after), speed_up=times)
    speed = SpeedUp(times, Interval(times / apart, times * apart), 20)
    unsure = decide(Case("llm", "hybrid", sure.differences, speed, 100), RULES)
    assert (unsure.outcome, unsure.passed) == (sure.outcome, sure.passed)
    ends = {action_at(sure.cells[0].drop, end, RULES) for end in (times / apart, times * apart)}
    assert (Kind.SPEED_BORDER in kinds(unsure)) == (ends != {sure.cells[0].action})


def test_answers_by_retrieval_count_as_the_guide_says():
    ragas = difference(0.80, 0.74, "ragas")
    assert verdict((0.9, 0.9), rag=(ragas,)).outcome == Outcome.NOT_RECOMMENDED
    assert verdict((0.9, 0.9), rag=(difference(0.90, 0.84, "ragas"),)).outcome == Outcome.LOOK
    mild = verdict((0.9, 0.9), rag=(difference(0.90, 0.87, "ragas"),))
    assert (mild.outcome, Kind.ABOVE_RECOMMENDED in kinds(mild)) == (Outcome.RECOMMENDED, True)
    better = verdict((0.9, 0.9), rag=(difference(0.5, 0.6, "faithfulness"),))
    assert (better.outcome, better.passed) == (Outcome.LOOK, True)
    assert [it.drop for it in mild.cells] == [0], "the matrix is about extraction"


def run_of(tmp_path, baseline, candidate, gold=True):
    truth = [gold_chunk("a", [gold_entity("A"), gold_entity("B")], [Relation("A", "B", "uses")])] if gold else None
    return score_run(make_run(tmp_path, ["a"], {"llm": [baseline], "hybrid": [candidate]}, truth))


FULL = [entity("A"), entity("B")], [Relation("A", "B", "uses")]


def test_compare_a_run(tmp_path):
    scores = run_of(
        tmp_path, answer(*FULL, batch_ms=300.0, batch_size=1.0), answer(*FULL, batch_ms=300.0, batch_size=3.0)
    )
    it = compare(scores, RULES)
    assert it.outcome == Outcome.RECOMMENDED
    assert it.speed_up.times == pytest.approx(3)
    assert [(d.what, d.mode, d.drop) for d in it.differences] == [
        ("entity", "name+type", 0),
        ("relation", "pair+type", 0),
    ]


def test_the_guides_mode_name_is_explained(tmp_path):
    it = compare(run_of(tmp_path, answer(*FULL), answer(*FULL)), CompareConfig(relation_mode="relaxed"))
    assert it.differences[1].mode == "pair"
    assert Fact.of(Kind.MODE_NAME, name="relaxed", mode="pair") in it.reasons


def test_low_coverage_refuses_a_verdict(tmp_path):
    it = compare(run_of(tmp_path, answer(*FULL), answer(status=Status.FAILED)), RULES)
    assert it.outcome == Outcome.UNDECIDED
    assert it.obstacles == (Fact.of(Kind.COVERAGE, method="hybrid", coverage=0.0, needed=0.95),)


def test_no_gold_no_verdict(tmp_path):
    it = compare(run_of(tmp_path, answer(*FULL), answer(*FULL), gold=False), RULES)
    assert it.outcome == Outcome.UNDECIDED
    assert it.obstacles == (Fact.of(Kind.NO_GOLD),)


def test_a_method_without_relations_is_compared_by_entities(tmp_path):
    gold = [gold_chunk("a", [gold_entity("A"), gold_entity("B")], [Relation("A", "B", "uses")])]
    run = make_run(tmp_path, ["a"], {"llm": [answer(*FULL)], "gliner": [answer(FULL[0])]}, gold)
    config = json.loads(run.store.read(RUN_FILE))
    config["config"]["methods"]["gliner"]["relations"] = None
    run.store.write(RUN_FILE, json.dumps(config).encode())
    run = Run(run.store.uri)
    score_run(run)
    it = compare_run(run, CompareConfig(candidate="gliner"))
    assert (it.outcome, it.compared_relations) == (Outcome.RECOMMENDED, False)
    relation = it.differences[1]
    assert (relation.drop, relation.standing, relation.baseline) == (None, Standing.NOT_APPLICABLE, 1.0)
    assert Fact.of(Kind.NO_RELATIONS, methods="gliner") in it.reasons


def test_unknown_and_equal_methods_are_the_users_mistake(tmp_path):
    scores = run_of(tmp_path, answer(), answer())
    with pytest.raises(UserError, match="no scores of a method 'x'"):
        compare(scores, CompareConfig(candidate="x"))
    with pytest.raises(UserError, match="both 'llm'"):
        compare(scores, CompareConfig(candidate="llm"))


def test_rules_are_data():
    strict = CompareConfig(drop_steps=(1,), speed_steps=(3,), matrix=(("look", "use"), ("keep", "keep")))
    assert action_at(0.5, 2, strict) == "look"
    assert action_at(2, 9, strict) == "keep"
    with pytest.raises(ValueError, match="needs 2 rows of 4"):
        CompareConfig(drop_steps=(1,))
    with pytest.raises(ValueError, match="must rise"):
        CompareConfig(drop_steps=(5, 2, 10))


def test_where_the_ends_of_the_interval_disagree_it_is_undecided():
    entity = difference(0.90, 0.885, interval=Interval(0.5, 2.5), p_value=0.01)
    relation = difference(0.90, 0.90, "relation", interval=Interval(-0.5, 0.5), p_value=1.0)
    at_equal_speed = decide(Case("llm", "hybrid", (entity, relation), SpeedUp(1.0), 100), RULES)
    assert (at_equal_speed.outcome, at_equal_speed.passed) == (Outcome.UNDECIDED, False)
    # The border at 2 is half as far from 1.5 as the end of the interval: four times the chunks.
    assert at_equal_speed.chunks_needed == 400
    assert Fact.of(Kind.NEEDED, chunks=400) in at_equal_speed.reasons
    assert Fact.of(Kind.CELL_END, action="look", change=-2.5) in at_equal_speed.reasons
    faster = decide(Case("llm", "hybrid", (entity, relation), SpeedUp(3.0), 1000), RULES)
    assert faster.outcome == Outcome.RECOMMENDED
    # At three times the speed the first border is at 5: (1.0 / 3.5)^2 of the chunks would do.
    assert Fact.of(Kind.ENOUGH, chunks=82) in faster.reasons
    assert [(it.at, it.action) for it in faster.cells] == [("estimate", "use"), ("low", "use"), ("high", "use")]


def test_an_estimate_on_a_border_cannot_be_decided():
    entity = difference(0.90, 0.88, interval=Interval(1.0, 3.0), p_value=0.01)
    it = decide(Case("llm", "hybrid", (entity,), SpeedUp(1.0), 100), RULES)
    assert (it.outcome, it.chunks_needed) == (Outcome.UNDECIDED, None)
    assert Kind.TOO_CLOSE in kinds(it)


def test_a_run_is_compared_with_paired_intervals(tmp_path):
    ids = [f"c{n}" for n in range(40)]
    gold = [gold_chunk(it, [gold_entity("A"), gold_entity("B"), gold_entity("C")]) for it in ids]
    full = [answer([entity("A"), entity("B"), entity("C")], batch_ms=10.0, batch_size=1.0)] * 40
    less = [answer([entity("A"), entity("B")], batch_ms=1.0, batch_size=1.0)] * 4 + full[4:]
    run = make_run(tmp_path, ids, {"llm": full, "hybrid": less}, gold, shard_chunks=40)
    scores = score_run(run)
    assert (scores.resampling.unit, scores.resampling.units) == ("document", 40)
    interval = scores.methods[1].metric("name").f1_interval
    assert interval.low < scores.methods[1].metric("name").f1 < interval.high
    it = compare_run(run, RULES)
    found = it.differences[0]
    assert 0 <= found.interval.low < found.drop < found.interval.high < 5
    assert found.p_value > 0.05
    assert it.differences[1].interval is None


def test_a_gold_by_a_model_of_the_baselines_family_is_told(tmp_path):
    assert family("Qwen/Qwen3-4B-Instruct-2507") == family("qwen3-32b") == "qwen"
    assert family("smollm2-135m") != family("gpt-4o")
    assert family("meta-llama/Meta-Llama-3-70B") == family("Llama-3.1-8B-Instruct")
    gold = [gold_chunk("a", [gold_entity("A")])]
    run = make_run(tmp_path, ["a"], {"llm": [answer([entity("A")])], "hybrid": [answer([entity("A")])]}, gold)
    run.store.write_table(GOLD_FILE, to_table(gold, GOLD_SCHEMA), {"kgscale.annotator": "SmolLM2-1.7B"})
    assert score_run(run).gold.annotator == "SmolLM2-1.7B"
    told = Fact.of(Kind.SAME_FAMILY, annotator="SmolLM2-1.7B", model=VllmEngine().model, method="llm")
    assert told in compare_run(run, RULES).reasons


def test_a_pseudo_gold_by_an_unknown_model_is_told(tmp_path):
    gold = [replace(gold_chunk("a", [gold_entity("A")]), origin=Origin.PSEUDO), gold_chunk("b", [gold_entity("A")])]
    said = [answer([entity("A")])] * 2
    run = make_run(tmp_path, ["a", "b"], {"llm": said, "hybrid": said}, gold)
    score_run(run)
    assert Fact.of(Kind.UNKNOWN_ANNOTATOR, pseudo=1) in compare_run(run, RULES).reasons

"""The scorer against the oracle, and what must not change a score."""

import tempfile
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import score_oracle as oracle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from score_helpers import SCHEMA, answer, chunk_figures, gold_chunk, make_run, same_as

from kgscale.records import Entity, GoldEntity, Relation, Status
from kgscale.score.metrics import macro, micro
from kgscale.score.scorer import score_run
from kgscale.score.tables import PER_CHUNK, read_table

RULES = oracle.Rules(
    SCHEMA["aliases"]["names"], SCHEMA["aliases"]["entity_types"], SCHEMA["aliases"]["relation_types"], {"partner_of"}
)
# Few names, so that they meet; with every trap that keys must see through.
NAMES = st.sampled_from(
    [
        "Acme",
        "ACME ",
        "\uff21cme",
        "Acme  Inc",
        "Acme\u00a0Inc",
        "Bob",
        "PG",
        "Postgres",
        "",
        " \t",
        "三体",
        "Straße",
        "ß",
    ]
)
TYPES = st.sampled_from(["organization", "ORG", "Person", "thing", "", "product"])
KINDS = st.sampled_from(["founded_by", "FOUNDER", "uses", "partner_of", "Partner_Of ", ""])
ENTITIES = st.builds(Entity, NAMES, TYPES)
RELATIONS = st.builds(Relation, NAMES, NAMES, KINDS)
GOLD_ENTITIES = st.builds(GoldEntity, NAMES, TYPES, aliases=st.lists(NAMES, max_size=2))
IDS = [f"c{n}" for n in range(6)]
GOLD = st.lists(st.sampled_from([*IDS, "elsewhere"]), unique=True, max_size=7).flatmap(
    lambda ids: st.tuples(
        *(
            st.builds(gold_chunk, st.just(it), st.lists(GOLD_ENTITIES, max_size=5), st.lists(RELATIONS, max_size=4))
            for it in ids
        )
    )
)
ANSWERS = st.lists(
    st.builds(answer, st.lists(ENTITIES, max_size=5), st.lists(RELATIONS, max_size=4), status=st.sampled_from(Status)),
    min_size=6,
    max_size=6,
)
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def scored(gold, answers, ids=IDS, **more):
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), ids, {"m": answers}, gold, **more)
        return score_run(run).methods[0], read_table(run, PER_CHUNK)


def usable(answers, ids=IDS):
    return {
        name: (it.entities, it.relations)
        for name, it in zip(ids, answers, strict=True)
        if it.status in (Status.OK, Status.TRUNCATED)
    }


def figures(gold, answers, ids=IDS):
    """Micro and macro averages by mode, in memory."""
    per_chunk = chunk_figures(gold, answers, ids)
    averages = micro(per_chunk, "mode").join(macro(per_chunk, "mode"), on="mode").sort("mode")
    return averages.with_columns(pl.col(pl.Float64).round(12)).rows()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(GOLD, ANSWERS, st.integers(1, 6))
def test_same_counts_as_the_oracle(gold, answers, shard_chunks):
    scores, per_chunk = scored(gold, answers, shard_chunks=shard_chunks)
    expected = oracle.counts(gold, usable(answers), RULES)
    found = {(row["mode"], row["chunk_id"]): (row["tp"], row["fp"], row["fn"]) for row in per_chunk.to_dicts()}
    assert found == expected
    for metric in scores.metrics if gold else ():
        assert (metric.precision, metric.recall, metric.f1) == pytest.approx(oracle.micro(expected, metric.mode))
        each = [oracle.prf(*v)[2] for (mode, _), v in expected.items() if mode == metric.mode]
        defined = [it for it in each if it is not None]
        assert metric.macro_f1 == (pytest.approx(sum(defined) / len(defined)) if defined else None)


@FEW
@given(GOLD, ANSWERS)
def test_same_counts_as_the_oracle_in_many_cases(gold, answers):
    per_chunk = chunk_figures(gold, answers, IDS)
    names = [*IDS, *(it.chunk_id for it in gold if it.chunk_id not in IDS)]
    found = {(it["mode"], names[it["row"]]): (it["tp"], it["fp"], it["fn"]) for it in per_chunk.to_dicts()}
    assert found == oracle.counts(gold, usable(answers), RULES)


@FEW
@given(GOLD, ANSWERS, st.randoms(use_true_random=False))
def test_order_changes_nothing(gold, answers, rng):
    order = rng.sample(range(len(IDS)), len(IDS))
    mixed_gold = [
        replace(
            it,
            entities=rng.sample(it.entities, len(it.entities)),
            relations=rng.sample(it.relations, len(it.relations)),
        )
        for it in rng.sample(gold, len(gold))
    ]
    mixed = [replace(answers[it], entities=rng.sample(answers[it].entities, len(answers[it].entities))) for it in order]
    assert figures(mixed_gold, mixed, [IDS[it] for it in order]) == figures(gold, answers)


@FEW
@given(GOLD, ANSWERS)
def test_a_corpus_twice_scores_the_same(gold, answers):
    again = [replace(it, chunk_id=f"{it.chunk_id}-again") for it in gold]
    twice = figures([*gold, *again], [*answers, *answers], [*IDS, *(f"{it}-again" for it in IDS)])
    assert [it[5:] for it in twice] == [it[5:] for it in figures(gold, answers)]


@FEW
@given(GOLD)
def test_perfect_answers_score_1(gold):
    by_id = {it.chunk_id: it for it in gold}
    answers = [same_as(by_id[it]) if it in by_id else answer() for it in IDS]
    per_chunk = micro(chunk_figures([it for it in gold if it.chunk_id in IDS], answers, IDS), "mode")
    assert all(it["f1"] in (1, None) and it["fp"] == it["fn"] == 0 for it in per_chunk.to_dicts())

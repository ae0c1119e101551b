"""Runs beside each other: the gate, history, repeats, and what samples would have shown."""

import numpy as np
import polars as pl
import pytest
from score_helpers import SCHEMA, answer, entity, gold_chunk, gold_entity, make_run

from kgscale.config import CompareConfig
from kgscale.errors import UserError
from kgscale.records import Status
from kgscale.score.compare import samples_of
from kgscale.score.gate import MaxDrop, gate, max_drop
from kgscale.score.history import history, spreads
from kgscale.score.samplesize import sample_sizes
from kgscale.score.scorer import score_run

IDS = [f"c{n}" for n in range(40)]
GOLD = [gold_chunk(it, [gold_entity("A"), gold_entity("B")]) for it in IDS]
LIMITS = (MaxDrop("entity_f1", 0.02),)


def scored(path, missing, gold=GOLD, **more):
    """A run whose method misses one of two entities in the first so many chunks."""
    answers = [answer([entity("A")] if n < missing else [entity("A"), entity("B")]) for n in range(40)]
    run = make_run(path, IDS, {"llm": answers}, gold, shard_chunks=40, **more)
    score_run(run)
    return run


def test_the_gate_passes_what_is_as_good_or_better(tmp_path):
    old = scored(tmp_path / "old", 10)
    assert gate(scored(tmp_path / "same", 10), old, LIMITS).passed
    better = gate(scored(tmp_path / "better", 0), old, LIMITS)
    assert better.passed
    assert better.checks[0].drop < 0


def test_the_gate_stops_a_significant_drop(tmp_path):
    old, new = scored(tmp_path / "old", 0), scored(tmp_path / "new", 20)
    found = gate(new, old, LIMITS)
    assert not found.passed
    assert found.checks[0].interval.low > 0.02
    assert found.reasons[0].startswith("llm: entity_f1 (name+type) fell by 0.1")
    assert gate(new, old, (MaxDrop("entity_f1", 0.5),)).passed


def test_the_gate_lets_noise_pass(tmp_path):
    found = gate(scored(tmp_path / "new", 3), scored(tmp_path / "old", 0), (MaxDrop("entity_f1", 0.0),))
    assert found.checks[0].drop > 0
    assert found.checks[0].p_value > 0.05
    assert found.passed


def test_the_gate_refuses_what_cannot_be_compared(tmp_path):
    old = scored(tmp_path / "old", 0)
    with pytest.raises(UserError, match=r"they differ in the corpus\n"):
        gate(scored(tmp_path / "corpus", 0, corpus="other"), old, LIMITS)
    with pytest.raises(UserError, match=r"they differ in the gold \(39 chunks here, 40 there\)"):
        gate(scored(tmp_path / "gold", 0, GOLD[:-1]), old, LIMITS)
    with pytest.raises(UserError, match="they differ in the schema's entity types"):
        gate(scored(tmp_path / "schema", 0, schema={**SCHEMA, "entity_types": ["x"]}), old, LIMITS)
    with pytest.raises(UserError, match="no scores of a method 'x'"):
        gate(old, old, LIMITS, ["x"])


def test_the_gate_needs_coverage(tmp_path):
    old = scored(tmp_path / "old", 0)
    answers = [answer([entity("A"), entity("B")])] * 37 + [answer(status=Status.FAILED)] * 3
    new = make_run(tmp_path / "new", IDS, {"llm": answers}, GOLD, shard_chunks=40)
    score_run(new)
    assert gate(new, old, (MaxDrop("entity_f1", 1),)).reasons == (
        "llm answered 92.5% of the gold chunks, and 95% is needed",
    )


def test_limits_are_read_from_the_command_line():
    assert max_drop("entity_f1=0.02") == MaxDrop("entity_f1", 0.02)
    assert max_drop("pair+type=0") == MaxDrop("pair+type", 0)
    for wrong in ("entity_f1", "entity_f1=x", "entity_f1=2", "bleu=0.1"):
        with pytest.raises(UserError, match="--max-drop"):
            max_drop(wrong)


def test_history_lists_scored_runs_oldest_first(tmp_path):
    for number, missing in enumerate((20, 10, 0)):
        run = scored(tmp_path / f"run{number}", missing)
        text = run.store.read("scores.json").decode().replace(run.info["created_at"], f"2026-01-0{number + 1}T00:00:00")
        run.store.write("scores.json", text.encode())
    make_run(tmp_path / "unscored", IDS, {"llm": [answer()] * 40})
    entries = history(str(tmp_path))
    assert [it.run for it in entries] == ["run0", "run1", "run2"]
    assert entries[0].entity.f1 < entries[1].entity.f1 < entries[2].entity.f1
    assert len({it.basis for it in entries}) == 1
    with pytest.raises(UserError, match="no scored run"):
        history(str(tmp_path / "run0"))


def test_repeats_show_their_spread(tmp_path):
    scores = [score_run(scored(tmp_path / str(n), missing)) for n, missing in enumerate((0, 8, 16))]
    name = next(it for it in spreads(scores) if it.mode == "name")
    f1s = [it.methods[0].metric("name").f1 for it in scores]
    assert (name.repeats, name.low, name.high) == (3, min(f1s), max(f1s))
    assert name.mean == pytest.approx(np.mean(f1s))
    assert name.deviation == pytest.approx(np.std(f1s, ddof=1))
    assert spreads(scores[:1]) == ()


def chunks(number, lost):
    rng = np.random.default_rng(0)
    tp = rng.integers(5, 10, number)
    less = np.maximum(tp - (rng.random(number) < lost) * 2, 0)
    return pl.DataFrame({"tp": tp, "fp": 1, "fn": 10 - tp, "tp_after": less, "fp_after": 1, "fn_after": 10 - less})


def test_larger_samples_are_less_wrong():
    found = sample_sizes(chunks(2000, 0.3), 1.0, CompareConfig(), 0)
    assert [it.chunks for it in found] == [50, 100, 500]
    assert found[0].deviation > found[1].deviation > found[2].deviation
    assert found[0].drop.low < found[2].drop.low < found[2].drop.high < found[0].drop.high
    assert found[0].deviation / found[1].deviation == pytest.approx(2**0.5, rel=0.1)
    assert 0 <= found[2].other_action <= found[0].other_action <= 1


def test_relations_count_where_they_drop_more():
    entity_chunks = chunks(300, 0.0)
    relation = chunks(300, 0.9).select(pl.all().name.suffix("_relation"))
    alone = sample_sizes(entity_chunks, 1.0, CompareConfig(), 0)
    both = sample_sizes(pl.concat([entity_chunks, relation], how="horizontal"), 1.0, CompareConfig(), 0)
    assert [it.chunks for it in both] == [50, 100]
    assert alone[0].drop.high == 0 < both[0].drop.low


def test_samples_of_a_run(tmp_path):
    ids = [f"c{n}" for n in range(60)]
    gold = [gold_chunk(it, [gold_entity("A"), gold_entity("B")]) for it in ids]
    full = [answer([entity("A"), entity("B")])] * 60
    less = [answer([entity("A")])] * 30 + full[30:]
    run = make_run(tmp_path, ids, {"llm": full, "hybrid": less}, gold, shard_chunks=60)
    score_run(run)
    (only,) = samples_of(run, run.config.compare)
    assert only.chunks == 50
    assert only.drop.low > 0
    better = samples_of(run, run.config.compare.model_copy(update={"baseline": "hybrid", "candidate": "llm"}))
    assert better[0].drop.high < 0

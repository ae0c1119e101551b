"""Runs beside each other: the gate, history, repeats, and what samples would have shown."""

import json
import random

import numpy as np
import polars as pl
import pytest
from score_helpers import SCHEMA, answer, entity, gold_chunk, gold_entity, make_run, same_as

from kgscale.config import CompareConfig
from kgscale.errors import UserError
from kgscale.records import GOLD_SCHEMA, Status, to_table
from kgscale.runs import GOLD_FILE, Run
from kgscale.score import batches
from kgscale.score.compare import compare_run
from kgscale.score.gate import MaxDrop, gate, max_drop
from kgscale.score.history import history, repeats
from kgscale.score.samplesize import sample_sizes
from kgscale.score.scorer import score_run
from kgscale.score.tables import read_scores

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
    symmetric = {**SCHEMA["relation_types"], "uses": {"symmetric": True}}
    with pytest.raises(UserError, match="they differ in the schema's relation types"):
        gate(scored(tmp_path / "symmetric", 0, schema={**SCHEMA, "relation_types": symmetric}), old, LIMITS)
    with pytest.raises(UserError, match="no scores of a method 'x'"):
        gate(old, old, LIMITS, ["x"])


def test_the_gate_judges_a_changed_prompt(tmp_path):
    told = {**SCHEMA, "entity_types": dict.fromkeys(SCHEMA["entity_types"], "a description for the prompt")}
    assert gate(scored(tmp_path / "new", 0, schema=told), scored(tmp_path / "old", 0), LIMITS).passed


def test_the_gate_names_methods_that_only_one_run_has(tmp_path):
    old = scored(tmp_path / "old", 0)
    both = {"llm": [same_as(it) for it in GOLD], "hybrid": [answer()] * 40}
    new = make_run(tmp_path / "new", IDS, both, GOLD, shard_chunks=40)
    score_run(new)
    found = gate(new, old, LIMITS)
    assert ([it.method for it in found.checks], found.left_out) == (["llm"], ("hybrid",))


def test_a_drop_of_just_what_is_allowed_passes(tmp_path):
    old, new = scored(tmp_path / "old", 0), scored(tmp_path / "new", 20)
    drop = gate(new, old, LIMITS).checks[0].drop
    assert gate(new, old, (MaxDrop("entity_f1", round(drop, 10)),)).passed
    assert not gate(new, old, (MaxDrop("entity_f1", round(drop - 1e-4, 10)),)).passed


def test_a_metric_that_is_gone_fails(tmp_path):
    old = scored(tmp_path / "old", 0)
    untyped = [answer([entity("A", ""), entity("B", "")])] * 40
    new = make_run(tmp_path / "new", IDS, {"llm": untyped}, GOLD, shard_chunks=40)
    score_run(new)
    found = gate(new, old, LIMITS)
    assert (found.passed, found.checks[0].after) == (False, None)
    assert "no longer defined" in found.reasons[0]


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


def dated(run, day):
    text = run.store.read("scores.json").decode().replace(run.info["created_at"], f"2026-01-{day:02d}T00:00:00")
    run.store.write("scores.json", text.encode())
    return run


def test_history_lists_scored_runs_oldest_first(tmp_path):
    for number, missing in enumerate((20, 10, 0)):
        dated(scored(tmp_path / f"run{2 - number}", missing), number + 1)
    make_run(tmp_path / "unscored", IDS, {"llm": [answer()] * 40})
    found = history(str(tmp_path))
    assert [it.run for it in found.entries] == ["run2", "run1", "run0"]
    f1 = [it.entity.f1 for it in found.entries]
    assert f1 == sorted(f1)
    assert len({it.basis for it in found.entries}) == 1
    assert found.damaged == ()
    with pytest.raises(UserError, match="no scored run"):
        history(str(tmp_path / "run0"))


def test_history_goes_on_past_damage_and_names_it(tmp_path):
    for name in ("a", "b", "c", "d", "good"):
        scored(tmp_path / name, 0)
    (tmp_path / "a" / "scores.json").write_text('{"run": ')
    (tmp_path / "b" / "run.json").write_text("not JSON")
    (tmp_path / "c" / "run.json").unlink()
    info = json.loads((tmp_path / "d" / "run.json").read_text())
    (tmp_path / "d" / "run.json").write_text(json.dumps({**info, "fingerprint": {}}))
    found = history(str(tmp_path))
    assert [it.run for it in found.entries] == ["good"]
    assert [it.split(":")[0] for it in found.damaged] == ["a", "b", "c", "d"]
    (tmp_path / "good" / "scores.json").unlink()
    with pytest.raises(UserError, match="no scored run"):
        history(str(tmp_path))


def test_repeats_show_their_spread(tmp_path):
    runs = [scored(tmp_path / name, n) for name, n in (("demo", 0), ("demo-2", 8), ("demo-3", 16))]
    scored(tmp_path / "demo-other", 40)
    scored(tmp_path / "demo-4", 40, corpus="other")
    f1s = [read_scores(it).methods[0].metric("name").f1 for it in runs]
    for name in (next(it for it in repeats(run) if it.mode == "name") for run in runs):
        assert (name.repeats, name.low, name.high) == (3, min(f1s), max(f1s))
        assert name.mean == pytest.approx(np.mean(f1s))
        assert name.deviation == pytest.approx(np.std(f1s, ddof=1))
    assert repeats(Run(tmp_path / "demo-other")) == ()
    assert repeats(Run(tmp_path / "demo-4")) == ()


def test_another_fingerprint_is_no_repeat(tmp_path):
    for name in ("demo", "demo-2"):
        scored(tmp_path / name, 0)
    info = json.loads((tmp_path / "demo" / "run.json").read_text())
    info["fingerprint"]["methods"]["llm"]["stamp"] = "another prompt"
    (tmp_path / "demo" / "run.json").write_text(json.dumps(info))
    assert history(str(tmp_path)).spreads == ()
    assert repeats(Run(tmp_path / "demo")) == ()


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
    (only,) = compare_run(run, run.config.compare).samples
    assert only.chunks == 50
    assert only.drop.low > 0
    turned = run.config.compare.model_copy(update={"baseline": "hybrid", "candidate": "llm"})
    better = compare_run(run, turned).samples
    assert better[0].drop.high < 0


@pytest.mark.parametrize("batch_chunks", [3, 1000])
def test_the_gold_may_lie_in_its_file_in_any_order_and_in_any_row_groups(tmp_path, monkeypatch, batch_chunks):
    monkeypatch.setattr(batches.batches, "__defaults__", (batch_chunks,))
    ids = [f"c{n}" for n in range(12)]
    gold = [gold_chunk(it, [gold_entity(f"name {it}")]) for it in (*ids, "outside")]
    answers = [same_as(it) if n % 3 else answer([entity("other")]) for n, it in enumerate(gold[:-1])]
    run = make_run(tmp_path, ids, {"m": answers}, gold)
    expected = score_run(run)
    shuffled = to_table(random.Random(3).sample(gold, len(gold)), GOLD_SCHEMA)
    with run.store.table_writer(GOLD_FILE, GOLD_SCHEMA) as writer:
        writer.write_table(shuffled, row_group_size=2)
    found = score_run(run)
    assert found.methods[0].metrics == expected.methods[0].metrics
    assert found.gold == expected.gold


def test_a_gate_that_would_measure_nothing_is_refused(tmp_path):
    old, new = scored(tmp_path / "old", 10), scored(tmp_path / "new", 10)
    with pytest.raises(UserError, match="neither run has relation_f1 of llm"):
        gate(new, old, (MaxDrop("relation_f1", 0.1),))

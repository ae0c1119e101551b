"""What is left of a run is predicted from measured rates, and the prediction is held against what came."""

import json
from dataclasses import replace

import pytest

from kgscale.config import Config
from kgscale.extract.forecast import forecast
from kgscale.extract.methods import plan_steps
from kgscale.extract.placement import Node, place
from kgscale.lock import driver_lock
from kgscale.runs import EVENTS_FILE
from kgscale.shards import Shard
from tests.making import make_run, rows_of

LEFT = {"gliner": 40_000.0, "llm": 40_000.0, "hybrid": 40_000.0}
COST_MS = {"gliner": 10.0, "llm": 500.0, "hybrid": 310.0}


def config(**cluster):
    return Config.model_validate({"corpus": {"path": "x"}, "cluster": cluster})


@pytest.fixture
def measured(tmp_path):
    """A run of 40 chunks of 50 words each; the rows of hybrid hold the cost of their entities too."""
    run = make_run(tmp_path / "measured", ["word " * 50] * 40, shard=8)
    with driver_lock(run.store, "test") as token:
        for method, ms in COST_MS.items():
            for shard in run.remaining(method):
                rows = [replace(row, batch_ms=4 * ms, batch_size=4.0) for row in rows_of(run, shard)]
                run.commit(shard, rows, token)
    starts = [("llm", 500.0), None, ("llm", 50.0), ("llm", 60.0), ("gliner", 7.0)]
    events = [
        {"event": "worker_ready", "engine": it[0], "seconds": it[1]} if it else {"event": "drive_started"}
        for it in starts
    ]
    lines = [*map(json.dumps, events), '{"event": "worker_ready", "engine": "llm"', '{"event": "worker_ready"}']
    run.store.write(EVENTS_FILE, "\n".join(lines).encode())
    return run


def test_measured_rates_predict_the_time_of_the_busiest_engine(measured):
    it = config(rates_from=measured.store.uri, gpu_hour_price=2.0)
    found = forecast(it, plan_steps(it), LEFT, place(it, ["gliner", "llm"], [Node(16, 2)]), None)
    # 800 chunks each: 0.5 s for llm and 0.3 s for the relations of hybrid, on two GPUs.
    assert found.wall_s == pytest.approx(60 + 800 * (0.5 + 0.3) / 2)
    assert found.start_s == 60
    assert found.gpu_hours == pytest.approx(2 * found.wall_s / 3600)
    assert found.cost == pytest.approx(2 * found.gpu_hours)
    assert f"measured in {measured.store.uri}" in str(found)
    assert "about 6 min 20 s, of which 1 min 0 s to start; 0.21 GPU-hours, 0.42 at the configured price" in str(found)


def test_a_run_predicts_its_own_rest_from_what_it_has(measured):
    it = config()
    found = forecast(it, plan_steps(it), {"llm": 20_000.0}, place(it, ["llm"], [Node(2)]), measured)
    assert found.wall_s == pytest.approx(60 + 400 * 0.5)
    assert (found.gpu_hours, found.cost) == (0, None)


def test_what_is_published_is_said_to_be_no_measurement():
    it = Config.model_validate(
        {"corpus": {"path": "x"}, "engines": {"gliner": {"model": "urchade/gliner_medium-v2.1"},
         "llm": {"model": "Qwen/Qwen3-4B-Instruct-2507"}}}
    )  # fmt: skip
    placement = place(it, ["gliner", "llm"], [Node(64, 8)])
    found = forecast(it, plan_steps(it), {"gliner": 3e8, "llm": 3e8}, placement, None)
    # A million chunks of 300 words: 38 a second on each of 8 GPUs.
    assert found.wall_s == pytest.approx(1e6 / (38 * 8))
    assert "an estimate for Qwen/Qwen3-4B-Instruct-2507 on an H200, not measured here" in str(found)
    assert forecast(it, plan_steps(it), {"llm": 1e6}, place(it, ["llm"], [Node(2)]), None) is None, "not on a CPU"


def test_an_unknown_rate_is_not_guessed(tmp_path):
    it = config()
    run = make_run(tmp_path, 8)
    with driver_lock(run.store, "test") as token:
        run.commit(Shard("llm", 0, 4), rows_of(run, Shard("llm", 0, 4)), token)
    assert forecast(it, plan_steps(it), LEFT, place(it, ["gliner", "llm"], [Node(16, 2)]), run) is None


def test_an_engine_that_waits_for_another_is_ready_after_it(measured):
    it = config(rates_from=measured.store.uri)
    steps = plan_steps(it)
    both = place(it, ["gliner", "llm"], [Node(16, 1)])
    found = forecast(it, steps, {"gliner": 10_000_000.0, "llm": 50.0}, both, None)
    # On a GPU the LLM comes first; of the starts, the longest of the last drive counts.
    assert (found.engines["llm"].ready_s, found.engines["gliner"].ready_s) == (60.0, 67.0)
    assert found.start_s == 67.0
    assert found.wall_s == pytest.approx(67 + 200_000 * 0.01 / len(both.of("gliner")))
    alone = forecast(it, steps, {"gliner": 10_000.0, "llm": 0.0}, both, None)
    assert alone.engines["gliner"].ready_s == 7.0, "for an engine without work nobody waits"

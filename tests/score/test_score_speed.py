"""The interval of the speed-up: honest coverage, and what it stands on."""

from dataclasses import replace

import numpy as np
import pytest
from score_helpers import answer, gold_chunk, gold_entity, make_run

from kgscale.score.compare import compare_run
from kgscale.score.scorer import score_run
from kgscale.score.speed import ratio_interval, shard_times, student


def test_students_t_is_that_of_the_tables():
    table = {4: 2.776, 5: 2.571, 9: 2.262, 19: 2.093, 60: 2.000, 1000: 1.962}
    for freedom, wanted in table.items():
        assert student(freedom) == pytest.approx(wanted, abs=0.001)


@pytest.mark.parametrize(("shards", "noise"), [(8, 0.1), (30, 0.3)])
def test_nineteen_of_twenty_intervals_hold_the_truth(shards, noise):
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        # Long shards cost both methods more; the state of the machine is different for each.
        work = rng.lognormal(0, 0.5, shards)
        times = np.stack([4 * work * rng.lognormal(0, noise, shards), work * rng.lognormal(0, noise, shards)], axis=1)
        found = ratio_interval(times)
        held += found.low < 4 < found.high
    assert 0.92 < held / 2000 < 0.98


def test_equal_shards_leave_no_doubt():
    found = ratio_interval(np.array([[2.0, 1.0]] * 10))
    assert (found.low, found.high) == (pytest.approx(2), pytest.approx(2))
    assert ratio_interval(np.array([[2.0, 1.0]] * 4)) is None
    assert ratio_interval(np.zeros((10, 2))) is None
    assert ratio_interval(np.zeros((0, 2))) is None


def test_times_are_paired_by_chunk_and_shard(tmp_path):
    ids = [f"c{n}" for n in range(12)]
    gold = [gold_chunk(it, [gold_entity("A")]) for it in ids]
    slow = [answer(batch_ms=float(10 * (n + 1)), batch_size=2.0) for n in range(12)]
    # A chunk without a time, as a dead one, is left out on both sides.
    fast = [answer(batch_ms=float(n + 1), batch_size=1.0) for n in range(11)] + [answer()]
    run = make_run(tmp_path, ids, {"llm": slow, "hybrid": fast}, gold, shard_chunks=2)
    score_run(run)
    assert shard_times(run, "llm", "hybrid").tolist() == [[15, 3], [35, 7], [55, 11], [75, 15], [95, 19], [55, 11]]
    it = compare_run(run, run.config.compare).speed_up
    assert it.shards == 6
    assert (it.interval.low, it.interval.high) == (pytest.approx(5), pytest.approx(5))
    bare = make_run(tmp_path / "bare", ids, {"llm": slow, "hybrid": [replace(it, batch_ms=None) for it in fast]}, gold)
    score_run(bare)
    assert compare_run(bare, bare.config.compare).speed_up is None

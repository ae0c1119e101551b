"""Intervals and p-values: the same as plain resampling gives, and fast."""

import time

import numpy as np
import polars as pl
import pytest

from kgscale.score import bootstrap
from kgscale.score.bootstrap import AFTER, COUNTS, paired, resampled, units_of


def units(number, seed=0, most=6):
    rng = np.random.default_rng(seed)
    return pl.DataFrame({name: rng.integers(0, most, number) for name in COUNTS})


def pair(number, seed=0, better=0.0, most=6):
    rng = np.random.default_rng(seed)
    before = {name: rng.integers(0, most, number) for name in COUNTS}
    noise = {f"{name}_after": np.maximum(it + rng.integers(-1, 2, number), 0) for name, it in before.items()}
    noise["tp_after"] = noise["tp_after"] + (rng.random(number) < better)
    return pl.DataFrame({**before, **noise})


def intervals(frame, seed):
    return bootstrap.intervals(*resampled(frame.select(COUNTS), seed).T)


def f1(sums):
    return 2 * sums[..., 0] / (2 * sums[..., 0] + sums[..., 1] + sums[..., 2])


def plain(frame, replicates=4000):
    """Unit by unit, with replacement."""
    rng = np.random.default_rng(7)
    values = frame.to_numpy()
    drawn = [values[rng.integers(0, len(values), len(values))].sum(axis=0) for _ in range(replicates)]
    return np.array(drawn)


def test_an_interval_agrees_with_plain_resampling():
    frame = units(300)
    found = intervals(frame, 0)
    low, high = np.quantile(f1(plain(frame)), [0.025, 0.975])
    assert (found.f1.low, found.f1.high) == pytest.approx((low, high), abs=0.003)
    assert found.f1.low < f1(frame.sum().to_numpy()[0]) < found.f1.high
    assert found.precision.low < found.precision.high


def test_a_paired_interval_agrees_with_plain_resampling():
    frame = pair(300, better=0.3)
    found = paired(frame, 0)
    sums = plain(frame)
    low, high = np.quantile(f1(sums[:, :3]) - f1(sums[:, 3:]), [0.025, 0.975])
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=0.002)


def test_many_different_units_are_drawn_from_the_normal_distribution_just_as_well(monkeypatch):
    frame = pair(1500, most=40, better=0.5)
    exact = paired(frame, 0)
    monkeypatch.setattr(bootstrap, "MOST_UNITS", 0)
    normal = paired(frame, 0)
    assert (normal.interval.low, normal.interval.high) == pytest.approx(
        (exact.interval.low, exact.interval.high), abs=2e-4
    )
    assert normal.p_value == pytest.approx(exact.p_value, abs=0.01)
    assert normal.drop == exact.drop


def test_rare_counts_keep_their_skewed_interval_however_many_units_there_are(monkeypatch):
    hits = np.random.default_rng(2).random(5_000) < 0.001
    frame = units(5_000, most=40).with_columns(tp=pl.Series(hits.astype(int)))
    quick = intervals(frame, 0)
    monkeypatch.setattr(bootstrap, "MOST_UNITS", 10_000)
    exact = intervals(frame, 1)
    for found, expected in ((quick.f1, exact.f1), (quick.recall, exact.recall)):
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=0.05)


def test_the_p_value_agrees_with_swapping_units():
    frame = pair(60, seed=3, better=0.1)
    values = frame.to_numpy()
    rng = np.random.default_rng(1)
    observed = abs(f1(values[:, :3].sum(axis=0)) - f1(values[:, 3:].sum(axis=0)))
    extreme = 0
    for _ in range(4000):
        swap = rng.random(len(values)) < 0.5
        mixed = np.where(swap[:, None], np.roll(values, 3, axis=1), values).sum(axis=0)
        extreme += abs(f1(mixed[:3]) - f1(mixed[3:])) >= observed - 1e-12
    assert paired(frame, 0).p_value == pytest.approx(extreme / 4000, abs=0.03)


def test_a_real_difference_is_significant_and_none_is_not():
    assert paired(pair(500, better=0.9), 0).p_value < 0.001
    same = units(100)
    found = paired(same.with_columns(**{after: pl.col(name) for name, after in zip(COUNTS, AFTER, strict=True)}), 0)
    assert (found.drop, found.interval.low, found.interval.high, found.p_value) == (0, 0, 0, 1)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    population = units(20_000, seed=5)
    truth = f1(population.sum().to_numpy()[0])
    covered = 0
    for seed in range(40):
        found = intervals(population.sample(200, seed=seed), seed).f1
        covered += found.low <= truth <= found.high
    assert 32 <= covered <= 40


def test_undefined_has_no_interval():
    nothing = pl.DataFrame({name: [0, 0] for name in (*COUNTS, *AFTER)})
    found = intervals(nothing, 0)
    assert found.precision is found.recall is found.f1 is None
    assert paired(nothing, 0).drop is None


def test_the_same_seed_gives_the_same_interval_whatever_the_order():
    frame = units(50)
    assert intervals(frame, 1) == intervals(frame.sample(fraction=1, shuffle=True, seed=3), 1)
    assert intervals(frame, 1) != intervals(frame, 2)


def test_documents_are_resampled_where_there_are_enough():
    many = pl.DataFrame({"row": range(100), "doc_id": [f"d{n // 4}" for n in range(99)] + [None]})
    assert units_of(many)["unit"].n_unique() == 26
    few = pl.DataFrame({"row": range(100), "doc_id": ["one"] * 100})
    assert units_of(few)["unit"].n_unique() == 100


def test_ten_thousand_replicates_of_a_million_chunks_take_no_time():
    frame = units(1_000_000, most=4)
    started = time.process_time()
    intervals(frame, 0)
    assert time.process_time() - started < 4
    million = pair(1_000_000, most=8)
    started = time.process_time()
    paired(million, 0)
    assert time.process_time() - started < 4

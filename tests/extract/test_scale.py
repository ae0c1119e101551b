"""Sixteen GPUs in simulated time: the loop keeps them busy to the end, and loses little when some of them go."""

import pytest

from benchmarks.simulate import simulate

CHUNKS = 200_000


@pytest.fixture(scope="module")
def calm():
    return simulate(CHUNKS, 16, None)


def test_replicas_are_busy_to_the_end(calm):
    assert calm.utilisation >= 0.97
    assert calm.tail < 0.02


def test_sixteen_gpus_do_the_work_of_sixteen(calm):
    # A short run: the last replica is ready a minute after the first, a twelfth of it.
    assert simulate(CHUNKS, 1, None).hours / calm.hours > 0.88 * 16


def test_a_tenth_of_the_gpus_lost_costs_little_more_than_a_tenth(calm):
    # Two of sixteen: with what is left, the rest of the run takes 16/14 of its time.
    spot = simulate(CHUNKS, 16, None, lost=2, lost_at_s=calm.hours * 360)
    assert spot.hours / calm.hours < 1 + 0.9 * (16 / 14 - 1) + 0.02

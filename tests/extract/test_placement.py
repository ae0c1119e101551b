"""Placement as arithmetic: who sits where, and never more booked than there is."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.config import Config
from kgscale.errors import UserError
from kgscale.extract.placement import Resources, place


def config(**cluster):
    engines = {"gliner": {}, "llm": {}, "big": {}, "web": {"kind": "openai", "model": "m"}}
    return Config.model_validate({"corpus": {"path": "x"}, "engines": engines, "cluster": cluster})


def seating(placement):
    """The engine of each worker by bundle, slots given out in turn as the cluster does."""
    seats = Counter()
    for pool in placement.pools:
        bundles = placement.seats[pool.engine].bundles
        for slot in range(pool.replicas):
            if bundles:
                seats[bundles[slot % len(bundles)], pool.engine] += 1
    return seats


@pytest.mark.parametrize(("cpus", "booked", "threads"), [(1, 0.5, 1), (2, 1, 1), (8, 1, 4)])
def test_on_cores_the_engines_divide_them(cpus, booked, threads):
    placement = place(config(), ["gliner", "llm"], Resources(cpus, 0))
    assert [(pool.engine, pool.replicas) for pool in placement.pools] == [("llm", 1), ("gliner", 1)]
    assert {(seat.cpus, seat.gpus, seat.threads) for seat in placement.seats.values()} == {(booked, 0, threads)}
    assert placement.bundles == ()


@pytest.mark.parametrize("gpus", [1, 8])
def test_each_gpu_gets_one_llm_and_its_gliner_workers(gpus):
    placement = place(config(), ["gliner", "llm"], Resources(16 * gpus, gpus))
    assert placement.bundles == ({"GPU": 1.0, "CPU": 3.0},) * gpus
    assert seating(placement) == {(gpu, name): n for gpu in range(gpus) for name, n in (("llm", 1), ("gliner", 2))}
    assert placement.seats["llm"].gpus + 2 * placement.seats["gliner"].gpus == pytest.approx(1.0)


def test_gliner_waits_for_the_llm_that_shares_its_gpu():
    after = {pool.engine: pool.after for pool in place(config(), ["gliner", "llm"], Resources(16, 1)).pools}
    assert after == {"llm": (), "gliner": ("llm",)}


def test_two_llm_engines_take_turns_on_the_gpus():
    placement = place(config(), ["gliner", "llm", "big"], Resources(64, 5))
    assert placement.seats["llm"].bundles == (0, 2, 4)
    assert placement.seats["big"].bundles == (1, 3)
    with pytest.raises(UserError, match=r"2 LLM engines .* the cluster has 1"):
        place(config(), ["llm", "big"], Resources(8, 1))


def test_an_endpoint_needs_no_hardware():
    placement = place(config(), ["web"], Resources(8, 2))
    assert (placement.seats["web"].cpus, placement.seats["web"].gpus) == (0, 0)
    assert placement.bundles == ()


@pytest.mark.parametrize(
    "cluster", [{"llm_gpu_share": 0.9}, {"gliner_gpu_share": 0.2}, {"gliner_replicas": 6}, {"llm_gpu_share": 1.0}]
)
def test_an_overbooked_gpu_is_refused_with_its_figure(cluster):
    with pytest.raises(UserError, match=r"would book 1\.\d+ of it"):
        place(config(**cluster), ["gliner", "llm"], Resources(16, 2))


@given(
    st.sampled_from([1, 2, 3, 4, 7, 16, 64]),
    st.integers(0, 9),
    st.sets(st.sampled_from(["gliner", "llm", "big", "web"]), min_size=1),
    st.fixed_dictionaries(
        {},
        optional={
            "llm_replicas": st.integers(1, 9),
            "gliner_replicas": st.integers(1, 20),
            "llm_gpu_share": st.sampled_from([0.5, 0.8]),
            "gliner_gpu_share": st.sampled_from([0.05, 0.1]),
            "cpus_per_worker": st.sampled_from([0.5, 1.0, 3.0]),
        },
    ),
)
def test_nothing_is_booked_twice(cpus, gpus, engines, cluster):
    try:
        placement = place(config(**cluster), sorted(engines), Resources(cpus, gpus))
    except UserError:
        assert gpus
        return
    assert {pool.engine for pool in placement.pools} == set(placement.seats) == engines
    assert all(pool.replicas >= 1 for pool in placement.pools)
    # Ray counts in ten-thousandths.
    in_all = sum(round(placement.seats[pool.engine].cpus, 4) * pool.replicas for pool in placement.pools)
    assert in_all <= cpus + 1e-9
    assert sum(bundle["CPU"] for bundle in placement.bundles) <= cpus + 1e-9
    for index, bundle in enumerate(placement.bundles):
        here = [(placement.seats[name], n) for (at, name), n in seating(placement).items() if at == index]
        assert sum(round(seat.cpus, 4) * n for seat, n in here) <= bundle["CPU"] + 1e-9
        assert sum(round(seat.gpus, 4) * n for seat, n in here) <= bundle["GPU"] + 1e-9
        assert sum(n for seat, n in here if seat.engine in ("llm", "big")) <= 1
    if gpus == 0:
        local = [pool for pool in placement.pools if pool.engine != "web"]
        workers = sum(pool.replicas for pool in local)
        assert sum(placement.seats[pool.engine].threads * pool.replicas for pool in local) <= max(cpus, workers)


def test_the_placement_is_told_in_words():
    assert place(config(), ["gliner", "llm"], Resources(8, 2)).lines() == [
        "llm: 2 on GPUs 0, 1, 0.8 GPU and 1 cores each, 2 threads",
        "gliner: 4 on GPUs 0, 1, 0.1 GPU and 1 cores each, 1 threads",
    ]
    assert place(config(), ["llm"], Resources(2, 0)).lines() == ["llm: 1 on CPU, 1 cores each, 2 threads"]

"""Placement as arithmetic: who sits where, and never more booked than there is."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.config import Config, GlinerEngine, OpenAIEngine, VllmEngine
from kgscale.configfile import load_config
from kgscale.errors import UserError
from kgscale.extract.placement import Node, Seat, place
from kgscale.extract.seating import environment


def config(**cluster):
    engines = {"gliner": {}, "llm": {}, "big": {}, "web": {"kind": "openai", "model": "m"}}
    return Config.model_validate({"corpus": {"path": "x"}, "engines": engines, "cluster": cluster})


def seating(placement):
    """How many workers of each engine sit on each GPU or node."""
    return Counter((seat.node if seat.gpu is None else seat.gpu, seat.engine) for seat in placement.seats)


@pytest.mark.parametrize(("cpus", "booked", "threads"), [(1, 0.5, [1, 1]), (2, 1, [1, 1]), (8, 1, [3, 4])])
def test_on_cores_the_engines_divide_them_and_vllm_keeps_one_for_itself(cpus, booked, threads):
    placement = place(config(), ["gliner", "llm"], [Node(cpus, 0)])
    assert [seat.engine for seat in placement.seats] == ["llm", "gliner"]
    assert {(seat.cpus, seat.gpus) for seat in placement.seats} == {(booked, 0)}
    assert [seat.threads for seat in placement.seats] == threads
    assert (placement.gpus, placement.bundle) == (0, {})


@pytest.mark.parametrize("gpus", [1, 8])
def test_each_gpu_gets_one_llm_and_its_gliner_workers(gpus):
    placement = place(config(), ["gliner", "llm"], [Node(16 * gpus, gpus)])
    assert (placement.gpus, placement.bundle) == (gpus, {"GPU": 1.0, "CPU": 3.0})
    assert seating(placement) == {(gpu, name): n for gpu in range(gpus) for name, n in (("llm", 1), ("gliner", 2))}
    assert sum(seat.gpus for seat in placement.seats) == pytest.approx(gpus)


def test_the_demo_fits_on_a_gpu():
    demo = load_config(Path(__file__).parents[2] / "jobs" / "demo.yaml")
    placement = place(demo, list(demo.engines), [Node(16, 1)])
    assert set(seating(placement)) == {(0, name) for name in demo.engines}
    assert sum(seat.gpus for seat in placement.seats) <= 1 + 1e-9


def test_gliner_waits_for_the_llm_that_shares_its_gpu():
    after = {pool.engine: pool.after for pool in place(config(), ["gliner", "llm"], [Node(16, 1)]).pools}
    assert after == {"llm": (), "gliner": ("llm",)}


def test_two_llm_engines_take_turns_on_the_gpus():
    placement = place(config(), ["gliner", "llm", "big"], [Node(64, 5)])
    assert [seat.gpu for seat in placement.of("llm")] == [0, 2, 4]
    assert [seat.gpu for seat in placement.of("big")] == [1, 3]
    with pytest.raises(UserError, match=r"2 LLM engines .* the cluster has 1"):
        place(config(), ["llm", "big"], [Node(8, 1)])


def test_an_endpoint_needs_no_hardware():
    placement = place(config(), ["web"], [Node(8, 2)])
    assert [(seat.cpus, seat.gpus, seat.gpu, seat.node) for seat in placement.seats] == [(0, 0, None, None)]
    assert placement.gpus == 0


@pytest.mark.parametrize(
    "cluster", [{"llm_gpu_share": 0.9}, {"gliner_gpu_share": 0.2}, {"gliner_replicas": 6}, {"llm_gpu_share": 1.0}]
)
def test_an_overbooked_gpu_is_refused_with_its_figure(cluster):
    with pytest.raises(UserError, match=r"would book 1\.\d+ of it"):
        place(config(**cluster), ["gliner", "llm"], [Node(16, 2)])


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
        placement = place(config(**cluster), sorted(engines), [Node(cpus, gpus)])
    except UserError:
        assert gpus
        return
    assert {pool.engine for pool in placement.pools} == {seat.engine for seat in placement.seats} == engines
    assert len(set(placement.seats)) == len(placement.seats)
    # Ray counts in ten-thousandths.
    assert sum(round(seat.cpus, 4) for seat in placement.seats) <= cpus + 1e-9
    assert placement.gpus * placement.bundle.get("CPU", 0) <= cpus + 1e-9
    for gpu in range(placement.gpus):
        here = [seat for seat in placement.seats if seat.gpu == gpu]
        assert sum(round(seat.cpus, 4) for seat in here) <= placement.bundle["CPU"] + 1e-9
        assert sum(round(seat.gpus, 4) for seat in here) <= placement.bundle["GPU"] + 1e-9
        assert sum(seat.engine in ("llm", "big") for seat in here) <= 1
    if gpus == 0:
        local = [seat for seat in placement.seats if seat.engine != "web"]
        assert sum(seat.threads for seat in local) <= max(cpus, len(local))


def test_every_node_of_a_cluster_without_gpus_is_used():
    nodes = [Node(8, 0, "a"), Node(16, 0, "b"), Node(4, 0, "c")]
    placement = place(config(), ["gliner", "llm"], nodes)
    assert seating(placement) == {(node.name, engine): 1 for node in nodes for engine in ("llm", "gliner")}
    assert {seat.node: seat.threads for seat in placement.of("gliner")} == {"a": 4, "b": 8, "c": 2}
    assert {seat.node: seat.threads for seat in placement.of("llm")} == {"a": 3, "b": 7, "c": 1}
    dealt = place(config(gliner_replicas=4, llm_replicas=1), ["gliner", "llm"], nodes)
    assert seating(dealt) == {("a", "llm"): 1, ("a", "gliner"): 2, ("b", "gliner"): 1, ("c", "gliner"): 1}


def test_gliner_takes_the_nodes_that_the_llm_cannot_use():
    nodes = [Node(16, 2, "gpus"), Node(8, 0, "bare"), Node(0.5, 0, "head")]
    placement = place(config(), ["gliner", "llm"], nodes)
    assert seating(placement) == {
        (0, "llm"): 1,
        (1, "llm"): 1,
        (0, "gliner"): 2,
        (1, "gliner"): 2,
        ("bare", "gliner"): 2,
    }
    assert [(seat.gpus, seat.threads) for seat in placement.seats if seat.node == "bare"] == [(0, 4), (0, 4)]
    for one in ({"cpu_nodes": False}, {"gliner_replicas": 4}):
        assert not any(seat.node for seat in place(config(**one), ["gliner", "llm"], nodes).seats)


def test_a_bundle_fits_beside_every_gpu():
    placement = place(config(), ["gliner", "llm"], [Node(64, 1, "a"), Node(4, 2, "b")])
    assert placement.gpus == 3
    assert placement.bundle["CPU"] <= 2


def test_the_placement_is_told_in_words():
    assert place(config(), ["gliner", "llm"], [Node(8, 2)]).lines() == [
        "llm: 2 on GPUs 0, 1, 0.8 GPU and 1 cores each, 2 threads",
        "gliner: 4 on GPUs 0, 1, 0.1 GPU and 1 cores each, 1 thread",
    ]
    nodes = [Node(16, 1, "a"), Node(8, 0, "b"), Node(8, 0, "c")]
    assert place(config(), ["gliner"], nodes).lines() == [
        "gliner: 2 on GPUs 0, 0.1 GPU and 1 cores each, 1 thread",
        "gliner: 4 on the cores of 2 nodes, 1 cores each, 4 threads",
    ]
    assert place(config(), ["llm"], [Node(2, 0)]).lines() == ["llm: 1 on CPU, 1 cores each, 1 thread"]


def test_what_ray_shows_of_a_worker_holds_no_secret(monkeypatch):
    """The variables of a worker's runtime environment stand on Ray's dashboard and in its logs."""
    for name in ("OPENAI_API_KEY", "WEB_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "never-to-be-seen")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    engines = {"gliner": GlinerEngine(), "llm": VllmEngine(), "web": OpenAIEngine(model="m", api_key_env="WEB_KEY")}
    for name, engine in engines.items():
        for gpus in (0.0, 0.5):
            shown = environment(Seat(engine=name, cpus=1.0, gpus=gpus, threads=1), engine)
            assert "never-to-be-seen" not in str(shown)
            assert shown["AWS_REGION"] == "eu-west-1"

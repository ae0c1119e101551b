"""The drive loop under faults: every row is committed once, and only what kills its worker alone is dead."""

import random

import pytest

from kgscale.errors import WorkError
from kgscale.extract.cluster import Cluster
from kgscale.extract.drive import Drive, Interrupted, Policy, Pool
from kgscale.extract.methods import Step
from kgscale.extract.prompt import Task
from kgscale.records import Status

from .simulator import Faults, SimulatedCluster, SimulatedRun

STEPS = {
    "gliner": Step("gliner", "gliner", Task.ENTITIES),
    "llm": Step("llm", "llm", Task.BOTH),
    "hybrid": Step("hybrid", "llm", Task.RELATIONS, upstream="gliner"),
}
UPSTREAM = {"hybrid": "gliner"}


def quiet(event: str, /, **fields: object) -> None:
    pass


def simulate(seed: int, faults: Faults, *, rows: int = 100, shard: int = 16, replicas: int = 2, **policy: object):
    rng = random.Random(seed)
    run = SimulatedRun(rows, shard, rng)
    run.upstream = UPSTREAM
    cluster = SimulatedCluster(run, faults, rng)
    pools = [Pool("llm", replicas), Pool("gliner", replicas, after=("llm",) if seed % 2 else ())]
    drive = Drive(STEPS, pools, run, cluster, Policy(**policy), quiet)
    return run, cluster, drive


def all_rows(run: SimulatedRun) -> set[tuple[str, int]]:
    return {(method, row) for method in STEPS for row in range(run.rows)}


def test_calm_run_commits_every_row_in_one_try() -> None:
    run, cluster, drive = simulate(0, Faults())
    drive.run()
    assert set(run.statuses) == all_rows(run)
    assert set(cluster.submitted.values()) == {1}


@pytest.mark.parametrize("seed", range(200))
def test_random_faults_lose_nothing_and_repeat_nothing(seed: int) -> None:
    rng = random.Random(seed)
    faults = Faults(
        death_before_commit=rng.choice([0, 0.02, 0.1]),
        death_after_commit=rng.choice([0, 0.02, 0.1]),
        start_failure=rng.choice([0, 0.05]),
        error=rng.choice([0, 0.02]),
        slow=rng.choice([0, 0.05]),
    )
    run, _, drive = simulate(seed, faults, rows=rng.randint(1, 150), shard=rng.choice([1, 5, 16, 64]))
    try:
        drive.run()
    except WorkError as error:
        # Three failed starts in a row end the job; what was committed stays and another drive goes on from there.
        assert "does not start" in str(error)
        cluster = SimulatedCluster(run, Faults(), random.Random(seed))
        Drive(STEPS, [Pool("llm", 1), Pool("gliner", 1)], run, cluster, Policy(), quiet).run()
    assert set(run.statuses) == all_rows(run)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["poison", "hanging", "raising"])
def test_only_the_chunk_that_kills_is_lost(seed: int, kind: str) -> None:
    bad = frozenset(random.Random(seed).sample(range(100), 2))
    run, _, drive = simulate(seed, Faults(**{kind: bad}), deadline_s=60.0)
    drive.run()
    lost = Status.FAILED if kind == "raising" else Status.DEAD
    assert {key for key, status in run.statuses.items() if status != Status.OK} == {(m, r) for m in STEPS for r in bad}
    assert all(run.statuses[method, row] == lost for method in STEPS for row in bad)


def test_an_innocent_neighbour_is_never_declared_dead() -> None:
    # One chunk per shard: the neighbours share a worker with the poison, again and again.
    run, _, drive = simulate(3, Faults(poison=frozenset({7})), rows=40, shard=1, replicas=1, inflight=3)
    drive.run()
    assert {key for key, status in run.statuses.items() if status == Status.DEAD} == {(m, 7) for m in STEPS}


def test_resume_does_only_what_is_left() -> None:
    run, cluster, drive = simulate(1, Faults())
    asked = iter([False] * 12)
    with pytest.raises(Interrupted):
        drive.run(stop=lambda: next(asked, True))
    done = set(run.statuses)
    assert done
    assert done != all_rows(run)
    again = SimulatedCluster(run, Faults(), random.Random(2))
    Drive(STEPS, [Pool("llm", 1), Pool("gliner", 1)], run, again, Policy(), quiet).run()
    assert set(run.statuses) == all_rows(run)
    assert sum(shard.rows * count for shard, count in again.submitted.items()) == len(all_rows(run) - done)


def test_an_engine_that_never_starts_stops_the_job_with_its_message() -> None:
    _, cluster, drive = simulate(0, Faults(start_failure=1.0), replicas=1)
    with pytest.raises(WorkError, match="does not start: no memory"):
        drive.run()
    assert cluster.now() < 60


def test_workers_of_a_finished_engine_are_given_back() -> None:
    run, cluster, drive = simulate(4, Faults(), rows=400)
    killed: list[tuple[float, int]] = []
    original = cluster.kill

    def kill(worker: int) -> None:
        killed.append((cluster.now(), worker))
        original(worker)

    cluster.kill = kill  # type: ignore[method-assign]
    drive.run()
    assert min(at for at, _ in killed) < cluster.now() * 0.8


def test_the_simulator_is_a_cluster() -> None:
    run = SimulatedRun(1, 1, random.Random(0))
    cluster: Cluster = SimulatedCluster(run, Faults(), random.Random(0))
    assert cluster.now() == 0

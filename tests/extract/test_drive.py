"""The drive loop under faults: every row is committed once, and only what kills its worker alone is dead."""

import random

import pytest

from kgscale.errors import WorkError
from kgscale.extract.cluster import Cluster, Done, Failed
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


def refusal(drive: Drive) -> str | None:
    """What the drive ended with, null if it came to its end."""
    try:
        drive.run()
    except WorkError as error:
        return str(error)
    return None


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
    if told := refusal(drive):
        # Three failed starts in a row end the job; what was committed stays and another drive goes on from there.
        assert "does not start" in told
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
    run, _, drive = simulate(1, Faults())
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


@pytest.mark.parametrize("seed", range(60))
def test_killed_at_any_moment_again_and_again(seed: int) -> None:
    rng = random.Random(seed)
    run = SimulatedRun(rng.randint(20, 80), rng.choice([1, 7, 16]), rng)
    run.upstream = UPSTREAM
    faults = Faults(death_before_commit=0.02, death_after_commit=0.02, poison=frozenset({11}))
    deaths = 0
    while set(run.statuses) != all_rows(run):
        left = rng.randint(1, 60)

        def observe(event: str, /, **fields: object) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        # With the driver its workers are gone, in the middle of whatever they did.
        cluster = SimulatedCluster(run, faults, rng)
        try:
            Drive(STEPS, [Pool("llm", 2), Pool("gliner", 1)], run, cluster, Policy(), observe).run()
        except KeyboardInterrupt:
            deaths += 1
    assert deaths >= 1
    assert {key for key, status in run.statuses.items() if status != Status.OK} == {(m, 11) for m in STEPS}


def test_an_engine_that_never_starts_stops_the_job_with_its_message() -> None:
    _, cluster, drive = simulate(0, Faults(start_failure=1.0), replicas=1)
    with pytest.raises(WorkError, match="does not start: no memory"):
        drive.run()
    assert cluster.now() < 60


def test_a_worker_that_does_not_come_up_is_made_up_for_by_the_others() -> None:
    # Of two workers one fails; later, once the engine has worked, two replacements in a row fail.
    for failing in ({1}, {2}, {5, 6}):
        run, cluster, drive = simulate(2, Faults(failing_starts=frozenset(failing), poison=frozenset({11})), replicas=2)
        drive.run()
        assert set(run.statuses) == all_rows(run)
        assert set(cluster._workers) >= failing


def test_workers_wait_for_the_engines_they_come_after() -> None:
    # Even seeds have no order among the engines, odd ones have GLiNER after the LLM.
    for seed in range(10):
        events: list[tuple[str, str]] = []
        _, _, drive = simulate(seed, Faults())
        drive._observe = lambda event, /, _events=events, **fields: _events.append((event, fields.get("engine", "")))
        drive.run()
        started = events.index(("worker_starting", "gliner"))
        ready = [at for at, it in enumerate(events) if it == ("worker_ready", "llm")]
        assert (started > max(ready)) == bool(seed % 2)


@pytest.mark.parametrize("seed", range(20))
def test_a_step_waits_for_the_last_entity_that_it_builds_on(seed: int) -> None:
    # The last row of a shard is given up last, long after its neighbours are there.
    run, _, drive = simulate(seed, Faults(poison=frozenset({31}), engine="gliner"), rows=48, replicas=1)
    drive.run()
    assert {key for key, status in run.statuses.items() if status == Status.DEAD} == {("gliner", 31)}


def test_workers_of_a_finished_engine_are_given_back() -> None:
    _, cluster, drive = simulate(4, Faults(), rows=400)
    killed: list[tuple[float, int]] = []
    original = cluster.kill

    def kill(worker: int) -> None:
        killed.append((cluster.now(), worker))
        original(worker)

    cluster.kill = kill  # type: ignore[method-assign]
    drive.run()
    assert min(at for at, _ in killed) < cluster.now() * 0.8


@pytest.mark.parametrize("seed", range(60))
def test_a_worker_that_finishes_while_it_is_killed_is_replaced(seed: int) -> None:
    # A shard takes about as long as it may, and a kill takes a moment: every order of the two happens.
    run, _, drive = simulate(seed, Faults(), rows=60, shard=10, replicas=1, inflight=1, deadline_s=1.0)
    drive.run()
    assert set(run.statuses) == all_rows(run)


@pytest.mark.parametrize("seed", range(60))
def test_a_worker_that_starts_while_it_is_killed_is_replaced_or_ends_the_job(seed: int) -> None:
    run, _, drive = simulate(seed, Faults(), rows=20, replicas=1, start_timeout_s=3.0)
    if told := refusal(drive):
        assert "does not start: not ready after 3 s" in told
    else:
        assert set(run.statuses) == all_rows(run)


def test_asked_to_stop_a_failing_shard_does_not_use_up_the_grace() -> None:
    run, cluster, drive = simulate(1, Faults(raising=frozenset(range(100))), rows=100, shard=100, replicas=1)
    began: list[float] = []

    def stop() -> bool:
        if not began and cluster.submitted:
            began.append(cluster.now())
        return bool(began)

    with pytest.raises(Interrupted):
        drive.run(stop)
    assert cluster.now() - began[0] < 8.0
    assert not run.statuses


def test_the_deadline_follows_the_median_and_has_a_floor() -> None:
    # Shards take 1 to 2.5 s, a hanging one would be waited for 900 s if nothing were known.
    run, cluster, drive = simulate(5, Faults(hanging=frozenset({90})), rows=96, shard=16, replicas=1)
    drive.run()
    assert {key for key, status in run.statuses.items() if status != Status.OK} == {(m, 90) for m in STEPS}
    assert cluster.now() < 3 * 10 * 140


def test_shards_run_longest_first() -> None:
    run, cluster, drive = simulate(2, Faults(), replicas=1, inflight=1)
    del drive._steps["hybrid"]
    drive.run()
    words = dict(zip(run.planned, run.shard_words, strict=True))
    for method in ("gliner", "llm"):
        order = [words[shard.start, shard.stop] for shard in cluster.submitted if shard.method == method]
        assert order == sorted(order, reverse=True)


def test_an_unknown_fatal_error_ends_the_job() -> None:
    _, cluster, drive = simulate(0, Faults())
    happen = cluster._happen

    def fatal(what: object) -> object:
        event = happen(what)
        return Failed(event.worker, event.shard, "the disk is full", fatal=True) if isinstance(event, Done) else event

    cluster._happen = fatal  # type: ignore[method-assign]
    with pytest.raises(WorkError, match="the disk is full"):
        drive.run()


def test_the_simulator_is_a_cluster() -> None:
    run = SimulatedRun(1, 1, random.Random(0))
    cluster: Cluster = SimulatedCluster(run, Faults(), random.Random(0))
    assert cluster.now() == 0

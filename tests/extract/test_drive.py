"""The drive loop under faults: every row is committed once, and only what kills its worker alone is dead."""

import random

import pytest

from kgscale.errors import WorkError
from kgscale.extract.cluster import Cluster, Done, Failed
from kgscale.extract.deadline import Deadline
from kgscale.extract.directory import RunDirectory
from kgscale.extract.drive import Drive, Interrupted, Policy
from kgscale.extract.placement import Pool
from kgscale.records import Status
from kgscale.shards import Shard

from .schedules import METHODS, UPSTREAM
from .simulated_run import SimulatedDirectory, SimulatedRun
from .simulated_world import CALM, Faults, World
from .simulator import SimulatedCluster


def quiet(event: str, /, **fields: object) -> None:
    pass


def simulate(seed: int, faults: Faults, *, rows: int = 100, shard: int = 16, replicas: int = 2, **policy: object):
    rng = random.Random(seed)
    run = SimulatedRun(rows, shard, rng)
    run.upstream = UPSTREAM
    cluster = SimulatedCluster(run, faults, World(rng), {"llm": replicas, "gliner": replicas})
    pools = [Pool("llm"), Pool("gliner", after=("llm",) if seed % 2 else ())]
    drive = Drive(dict(METHODS), pools, SimulatedDirectory(run), cluster, Policy(**policy), quiet)
    return run, cluster, drive


def again(run: SimulatedRun, seed: int, faults: Faults = CALM, observe=quiet, **room: int):
    """Another driver on the same run."""
    cluster = SimulatedCluster(run, faults, World(random.Random(seed)), {"llm": 1, "gliner": 1, **room})
    return cluster, Drive(METHODS, [Pool("llm"), Pool("gliner")], SimulatedDirectory(run), cluster, Policy(), observe)


def refusal(drive: Drive) -> str | None:
    """What the drive ended with, null if it came to its end."""
    try:
        drive.run()
    except WorkError as error:
        return str(error)
    return None


def all_rows(run: SimulatedRun) -> set[tuple[str, int]]:
    return {(method, row) for method in METHODS for row in range(run.rows)}


def test_calm_run_commits_every_row_in_one_try() -> None:
    run, cluster, drive = simulate(0, Faults())
    drive.run()
    assert set(run.statuses) == all_rows(run)
    assert set(cluster.submitted.values()) == {1}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["poison", "hanging", "raising"])
def test_only_the_chunk_that_kills_is_lost(seed: int, kind: str) -> None:
    bad = frozenset(random.Random(seed).sample(range(100), 2))
    run, _, drive = simulate(seed, Faults(**{kind: bad}), deadline_s=60.0)
    drive.run()
    lost = Status.FAILED if kind == "raising" else Status.DEAD
    assert {key for key, status in run.statuses.items() if status != Status.OK} == {
        (m, r) for m in METHODS for r in bad
    }
    assert all(run.statuses[method, row] == lost for method in METHODS for row in bad)


def test_an_innocent_neighbour_is_never_declared_dead() -> None:
    # One chunk per shard: the neighbours share a worker with the poison, again and again.
    run, _, drive = simulate(3, Faults(poison=frozenset({7})), rows=40, shard=1, replicas=1, inflight=3)
    drive.run()
    assert {key for key, status in run.statuses.items() if status == Status.DEAD} == {(m, 7) for m in METHODS}


def test_resume_does_only_what_is_left() -> None:
    run, _, drive = simulate(1, Faults())
    asked = iter([False] * 12)
    with pytest.raises(Interrupted):
        drive.run(stop=lambda: next(asked, True))
    done = set(run.statuses)
    assert done
    assert done != all_rows(run)
    cluster, drive = again(run, 2)
    drive.run()
    assert set(run.statuses) == all_rows(run)
    assert sum(shard.rows * count for shard, count in cluster.submitted.items()) == len(all_rows(run) - done)


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
        assert set(cluster.workers) >= failing


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
    assert {key for key, status in run.statuses.items() if status != Status.OK} == {(m, 90) for m in METHODS}
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
    reply = cluster._reply

    def fatal(number: int, shard: Shard) -> None:
        reply(number, shard)
        told = cluster.mail.pop()
        assert isinstance(told, Done)
        cluster.mail.append(Failed(number, shard, "the disk is full", fatal=True))

    cluster._reply = fatal  # type: ignore[method-assign]
    with pytest.raises(WorkError, match="the disk is full"):
        drive.run()


def test_the_simulator_is_a_cluster() -> None:
    run = SimulatedRun(1, 1, random.Random(0))
    cluster: Cluster = SimulatedCluster(run, CALM, World(random.Random(0)), {})
    directory: RunDirectory = SimulatedDirectory(run)
    assert (cluster.now(), directory.planned) == (0, [(0, 1)])


@pytest.mark.parametrize("seed", range(20))
def test_room_that_comes_is_used_and_room_that_goes_is_done_without(seed: int) -> None:
    run, cluster, drive = simulate(seed, Faults(), rows=2000, shard=64, replicas=2)
    cluster.world.at(20, lambda: cluster.rooms.update(llm=6))
    cluster.world.at(40, lambda: cluster.lose_workers("llm", 3, forever=True))
    drive.run()
    assert set(run.statuses.values()) == {Status.OK}
    assert sum(worker.engine == "llm" for worker in cluster.workers.values()) == 6


def test_a_node_that_is_lost_costs_no_shard_its_reputation() -> None:
    # One chunk a shard: blamed twice it would be dead.
    run, cluster, drive = simulate(0, Faults(), rows=60, shard=1, replicas=2, inflight=1)
    for at in (6.0, 9.0, 12.0):
        cluster.world.at(at, lambda: cluster.lose_workers("llm", 2))
    retried: list[str] = []
    drive._observe = lambda event, /, **fields: retried.append(event) if event == "shard_retried" else None
    drive.run()
    assert set(run.statuses.values()) == {Status.OK}
    assert not retried


def test_a_shard_that_loses_one_node_after_the_other_is_suspected() -> None:
    run, cluster, drive = simulate(0, Faults(engine="llm"), rows=4, shard=4, replicas=1)
    die = cluster._die
    cluster._faults = Faults(poison=frozenset({2}), engine="llm")
    cluster._die = lambda number, error, **_: die(number, error, blameless=True)  # type: ignore[method-assign]
    drive.run()
    assert {key for key, status in run.statuses.items() if status == Status.DEAD} == {("llm", 2), ("hybrid", 2)}


def test_the_end_is_shared_among_the_workers() -> None:
    # Four shards for three workers: uncut, one worker would have twice as much to do as the others.
    run, cluster, drive = simulate(0, Faults(), rows=4 * 256, shard=256, replicas=3, inflight=1)
    del drive._steps["hybrid"]
    del drive._steps["gliner"]
    cluster._service = lambda _engine, _worker, shard, _live: shard.rows * 0.1  # type: ignore[method-assign]
    drive.run()
    busy = [seconds for number, seconds in cluster.busy_s.items() if cluster.workers[number].engine == "llm"]
    assert sum(busy) == pytest.approx(102.4)
    assert max(busy) < 1.2 * sum(busy) / 3
    assert set(run.statuses) == {("llm", row) for row in range(run.rows)}


def test_what_is_told_committed_and_is_not_there_is_done_again() -> None:
    run, _, drive = simulate(1, Faults())
    publish = run.publish
    lost: list[Shard] = []

    def forget(shard: Shard, content: object) -> None:
        if not lost and shard.method == "llm":
            lost.append(shard)
        else:
            publish(shard, content)

    run.publish = forget  # type: ignore[method-assign]
    drive.run()
    assert lost
    assert set(run.statuses) == all_rows(run)


def test_a_directory_that_keeps_nothing_ends_the_job() -> None:
    run, _, drive = simulate(1, Faults())
    run.upstream = {}
    run.publish = lambda shard, content: None  # type: ignore[method-assign]
    with pytest.raises(WorkError, match="rows that were committed are not there: gliner 0-16"):
        drive.run()


def test_a_deadline_learns_and_forgets() -> None:
    deadline = Deadline()
    assert deadline.seconds == 900
    for _ in range(5):
        deadline.took(30.0)
    assert deadline.seconds == 300
    for _ in range(1000):
        deadline.took(1.0)
    assert deadline.seconds == 120
    fixed = Deadline(7.0)
    fixed.took(100.0)
    assert fixed.seconds == 7.0


@pytest.mark.parametrize(("at_once", "rows", "most"), [(0, 2000, 32), (100, 2000, 112), (512, 400, 208)])
def test_a_worker_has_the_chunks_that_keep_its_engine_full_but_no_more_than_its_share(at_once, rows, most) -> None:
    run, cluster, _ = simulate(0, CALM, rows=rows, shard=16)
    given: dict[int, int] = {}
    firsts: list[dict[int, int]] = []

    def observe(event: str, /, **fields: object) -> None:
        if event == "shard_started" and METHODS[fields["method"]].engine == "llm":
            given[fields["worker"]] = given.get(fields["worker"], 0) + fields["stop"] - fields["start"]
        if event == "shard_committed" and METHODS[fields["method"]].engine == "llm":
            firsts.append(dict(given))

    pools = [Pool("llm", at_once=at_once), Pool("gliner")]
    Drive(dict(METHODS), pools, SimulatedDirectory(run), cluster, Policy(), observe).run()
    assert set(run.statuses) == all_rows(run)
    assert max(firsts[0].values()) == most

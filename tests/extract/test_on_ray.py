"""Cluster, workers and loop on a real local Ray with declared GPUs and a real run directory; only the model is fake."""

import errno
import os
import signal
import sys
import time
from collections import Counter

import pytest

from kgscale.config import Config
from kgscale.errors import WorkError
from kgscale.extract import seating
from kgscale.extract.cluster import Died, Done, Failed, Ready, StartFailed
from kgscale.extract.directory import Driven
from kgscale.extract.drive import Drive, Interrupted, Policy
from kgscale.extract.gliner import Found
from kgscale.extract.methods import Step
from kgscale.extract.placement import Pool
from kgscale.extract.prompt import Task
from kgscale.extract.ray_cluster import RayCluster
from kgscale.extract.seating import Seating
from kgscale.extract.workers import GlinerWorker, WorkerSpec
from kgscale.lock import driver_lock
from kgscale.records import Entity, Status
from kgscale.runs import Shard
from kgscale.verify import verify
from tests.making import make_run

pytestmark = pytest.mark.engines
ONLY_GLINER = {"gliner": {"entities": "gliner"}}


class FakeModel:
    """What a word of a text says, happens to its worker."""

    device = "fake"

    def extract(self, texts):
        found = []
        for text in texts:
            if "POISON" in text:
                os._exit(1)
            if "HANG" in text:
                time.sleep(3600)
            if "RAISE" in text:
                raise ValueError("this chunk cannot be read")
            if "SLOW" in text:
                time.sleep(0.2)
            found.append(Found([Entity(text.split()[0], "person", 0, len(text.split()[0]), 0.9)], windows=1))
        return found


class FakeWorker(GlinerWorker):
    def start(self):
        if "NO START" in self._run.config.corpus.path:
            raise RuntimeError("the weights of this model\nare not to be had")
        if "DIES AT START" in self._run.config.corpus.path:
            os._exit(1)
        self._models = dict.fromkeys(Task, FakeModel())
        return FakeModel.device

    def seat(self):
        """Where it sits: its placement group's bundle, its GPU and its process."""
        import ray

        bundle = ray.get_runtime_context().get_assigned_resources()
        return bundle, os.environ.get("CUDA_VISIBLE_DEVICES"), os.getpid()


class FullDisk(FakeWorker):
    """Whose disk fills up when the third file is to be renamed."""

    def run(self, shard, attempt):
        from pathlib import Path

        if shard.start >= 4:

            def fail(*_arguments):
                raise OSError(errno.ENOSPC, "No space left on device")

            Path.replace = fail
        return super().run(shard, attempt)


class FakeLlmWorker(FakeWorker):
    async def start(self):
        return super().start()

    async def seat(self):
        return super().seat()


@pytest.fixture(scope="module")
def cluster():
    """A local Ray with four times the cores there are and two GPUs that are only declared."""
    import ray
    from ray import cloudpickle

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(num_cpus=8, num_gpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


class Chairs:
    """Places for fake GLiNER workers, as many as are asked for."""

    def __init__(self, run, token, worker=FakeWorker, replicas=9):
        self.free = list(range(replicas))
        self.replicas, self.worker = replicas, worker
        self.spec = WorkerSpec(run.store.uri, "gliner", token)

    def room(self, engine):
        return self.replicas

    def start(self, engine):
        import ray

        return self.free.pop(), ray.remote(self.worker).options(num_cpus=0.5, max_restarts=0).remote(self.spec)

    def leave(self, engine, place):
        self.free.append(place)

    def is_gone(self, place):
        return False


class Watching:
    """Remembers what the loop tells."""

    def __init__(self):
        self.events = []

    def __call__(self, event, /, **fields):
        self.events.append((event, fields))

    def __getitem__(self, name):
        return [fields for event, fields in self.events if event == name]


def drive(run, *, worker=FakeWorker, replicas=2, watching=None, stop=lambda: False, **policy):
    with driver_lock(run.store, "test") as token:
        steps = {"gliner": Step("gliner", "gliner", Task.ENTITIES)}
        cluster = RayCluster(Chairs(run, token, worker, replicas))
        loop = Drive(
            steps,
            [Pool("gliner")],
            Driven(run, token),
            cluster,
            Policy(**policy),
            watching or (lambda *_a, **_f: None),
        )
        loop.run(stop)


def statuses(run):
    return {row.row: row for start, stop in run.planned for row in run.read_rows(Shard("gliner", start, stop))}


def test_chunks_that_kill_hang_or_raise_are_lost_alone(cluster, tmp_path):
    texts = [f"Ada {at}" for at in range(24)]
    texts[5], texts[10], texts[17] = "POISON", "HANG", "RAISE"
    run = make_run(tmp_path, texts, shard=4, methods=ONLY_GLINER)
    watching = Watching()
    drive(run, watching=watching, attempts=1, deadline_s=5.0)
    assert verify(run).passed
    rows = statuses(run)
    bad = {at: row for at, row in rows.items() if row.status is not Status.OK}
    assert {at: row.status for at, row in bad.items()} == {5: "dead", 10: "dead", 17: "failed"}
    assert bad[5].error.startswith("worker died: ")
    assert bad[10].error == "deadline: no shard finished in 5 s"
    assert bad[17].error == "ValueError: this chunk cannot be read"
    assert all(row.entities == [] for row in bad.values())
    assert [row.entities[0].text for at, row in rows.items() if at not in bad] == ["Ada"] * 21
    assert all(":" in row.worker for at, row in rows.items() if at not in bad)
    assert len(watching["worker_died"]) <= 8


def test_a_worker_killed_from_outside_costs_nothing(cluster, tmp_path):
    run = make_run(tmp_path, [f"SLOW {at}" for at in range(24)], shard=3, methods=ONLY_GLINER)
    watching = Watching()
    killed = []

    def kill_one(event, /, **fields):
        watching(event, **fields)
        committed = len(watching["shard_committed"])
        if event == "shard_committed" and committed in (2, 4):
            start = fields["start"]
            worker = run.read_rows(Shard("gliner", start, start + 1))[0].worker
            os.kill(int(worker.rsplit(":", 1)[1]), signal.SIGKILL)
            killed.append(worker)

    drive(run, watching=kill_one)
    assert len(killed) == 2
    assert len(watching["worker_died"]) == 2
    assert verify(run).passed
    assert {row.status for row in statuses(run).values()} == {Status.OK}
    assert max(row.attempts for row in statuses(run).values()) >= 2


@pytest.mark.parametrize(
    ("corpus", "told"),
    [
        ("NO START", "the engine 'gliner' does not start: RuntimeError: the weights of this model are not to be had"),
        ("DIES AT START", "the engine 'gliner' does not start: worker died: "),
    ],
)
def test_an_engine_that_cannot_start_ends_the_job_within_seconds(cluster, tmp_path, corpus, told):
    run = make_run(tmp_path, 8, methods=ONLY_GLINER, corpus={"path": corpus})
    begun = time.monotonic()
    with pytest.raises(WorkError) as caught:
        drive(run)
    assert str(caught.value).startswith(told)
    assert time.monotonic() - begun < 60
    assert run.committed("gliner") == []


def test_a_full_disk_ends_the_job_and_leaves_no_half_file(cluster, tmp_path):
    run = make_run(tmp_path, 16, methods=ONLY_GLINER)
    with pytest.raises(WorkError, match="the disk is full"):
        drive(run, worker=FullDisk, replicas=1, inflight=1)
    assert set(run.committed("gliner")) <= {(0, 4)}
    files = [path.name for path in (tmp_path / "extractions").rglob("*") if path.is_file()]
    assert len(files) == len(run.committed("gliner"))
    drive(run)
    assert verify(run).passed


def test_a_worker_that_outlived_its_driver_commits_nothing(cluster, tmp_path):
    run = make_run(tmp_path, 4, methods=ONLY_GLINER)
    with driver_lock(run.store, "old") as old:
        pass
    with driver_lock(run.store, "new"):
        ray_cluster = RayCluster(Chairs(run, old))
        worker = ray_cluster.spawn("gliner")
        (event,) = wait_for(ray_cluster)
        assert event == Ready(worker, "fake")
        ray_cluster.submit(worker, Shard("gliner", 0, 4), 1)
        (event,) = wait_for(ray_cluster)
        assert isinstance(event, Failed)
        assert event.fatal
        assert "another driver has taken over this run" in event.error
        ray_cluster.kill(worker)
    assert run.committed("gliner") == []


def wait_for(cluster, events=1):
    found = []
    until = time.monotonic() + 60
    while len(found) < events and time.monotonic() < until:
        found += cluster.wait(1.0)
    return found


def test_what_the_cluster_tells_of_its_workers(cluster, tmp_path):
    run = make_run(tmp_path, ["Ada", "POISON", "Ada", "SLOW"], shard=1, methods=ONLY_GLINER)
    with driver_lock(run.store, "test") as token:
        workers = RayCluster(Chairs(run, token))
        assert workers.wait(0.01) == []
        first, second = workers.spawn("gliner"), workers.spawn("gliner")
        assert {type(event) for event in wait_for(workers, 2)} == {Ready}
        workers.submit(first, Shard("gliner", 0, 1), 1)
        (done,) = wait_for(workers)
        assert isinstance(done, Done)
        assert (done.shard, done.result.statuses) == (Shard("gliner", 0, 1), {"ok": 1})
        # One death is one event, whatever waited behind it.
        workers.submit(first, Shard("gliner", 1, 2), 1)
        workers.submit(first, Shard("gliner", 2, 3), 1)
        (died,) = wait_for(workers)
        assert isinstance(died, Died)
        assert died.worker == first
        assert workers.wait(0.2) == []
        third = workers.spawn("gliner")
        assert third not in (first, second), "numbers are never used again"
        workers.kill(third)
        (failed,) = wait_for(workers)
        assert isinstance(failed, StartFailed)
        assert failed.worker == third
        # An idle worker that is killed says nothing; killing twice does no harm.
        workers.kill(second)
        workers.kill(second)
        assert workers.wait(0.2) == []


def test_asked_to_stop_what_runs_is_finished_and_a_resume_does_the_rest(cluster, tmp_path):
    run = make_run(tmp_path, [f"SLOW {at}" for at in range(16)], shard=2, methods=ONLY_GLINER)
    watching = Watching()
    with pytest.raises(Interrupted):
        drive(run, replicas=1, watching=watching, stop=lambda: bool(watching["shard_committed"]))
    begun = sum(1 for _ in watching["shard_started"])
    assert len(run.committed("gliner")) == len(watching["shard_committed"]) == begun < 8
    again = Watching()
    drive(run, replicas=1, watching=again)
    assert len(again["shard_started"]) == 8 - begun
    assert verify(run).passed


def test_the_death_of_an_idle_worker_is_told(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("kgscale.extract.ray_cluster.PING_EVERY_S", 0.2)
    run = make_run(tmp_path, ["SLOW"], methods=ONLY_GLINER)
    workers = RayCluster(Chairs(run, "token"))
    first = workers.spawn("gliner")
    wait_for(workers)
    *_, pid = cluster.get(workers._actors[first].handle.seat.remote(), timeout=60)
    os.kill(pid, signal.SIGKILL)
    (died,) = wait_for(workers)
    assert isinstance(died, Died)
    assert died.worker == first
    assert not died.blameless


def test_llm_and_gliner_workers_share_a_gpu_and_a_replacement_goes_back(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(seating, "GlinerWorker", FakeWorker)
    monkeypatch.setattr(seating, "LlmWorker", FakeLlmWorker)
    config = Config.model_validate({"corpus": {"path": "x"}})
    run = make_run(tmp_path, 4)
    seats = Seating(config, ["llm", "gliner"], run.store.uri, "token")
    seats.wait_for_gpus()
    workers = RayCluster(seats)
    assert (workers.room("llm"), workers.room("gliner")) == (2, 4)
    numbers = {engine: [workers.spawn(engine) for _ in range(workers.room(engine))] for engine in ("llm", "gliner")}
    assert {type(event) for event in wait_for(workers, 6)} == {Ready}

    def gpu_of(number):
        _, gpu, _ = cluster.get(workers._actors[number].handle.seat.remote(), timeout=60)
        return gpu

    found = {engine: [gpu_of(number) for number in numbers[engine]] for engine in numbers}
    assert sorted(found["llm"]) == ["0", "1"]
    assert Counter(found["gliner"]) == {"0": 2, "1": 2}
    victim = numbers["llm"][0]
    workers.kill(victim)
    replacement = workers.spawn("llm")
    assert wait_for(workers) == [Ready(replacement, "fake")]
    assert gpu_of(replacement) == found["llm"][0]
    for number in (*numbers["gliner"], numbers["llm"][1], replacement):
        workers.kill(number)
    # Ray lives on, and has its GPUs back.
    seats.close()
    until = time.monotonic() + 20
    while cluster.available_resources().get("GPU") != 2 and time.monotonic() < until:
        time.sleep(0.1)
    assert cluster.available_resources()["GPU"] == 2

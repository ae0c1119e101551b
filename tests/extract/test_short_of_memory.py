"""A worker that Ray ends because the machine is full is replaced, and what it had in hand is not blamed for it."""

import sys
from pathlib import Path

import pytest

from kgscale.errors import WorkError
from kgscale.extract.prompt import Task
from tests.extract.test_on_ray import ONLY_GLINER, FakeModel, FakeWorker, Watching, drive, statuses
from tests.making import make_run

pytestmark = pytest.mark.engines
NOTICE = (
    "1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 192.0.2.2, ID: e15f) was "
    "4.70GB used / 23.54GB limit (0.95)\nOOM kill reason: Memory usage exceeded threshold\nTop 10 memory users: PID"
)
"""How Ray 2.60 begins to tell it."""
TOLD = "ended by Ray, since its machine ran short of memory (4.70GB used / 23.54GB)"


@pytest.fixture(scope="module")
def cluster():
    """A local Ray."""
    import ray
    from ray import cloudpickle

    for module in (sys.modules[__name__], sys.modules[FakeWorker.__module__]):
        cloudpickle.register_pickle_by_value(module)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


class Full(FakeWorker):
    """Meets the end that Ray prepares for a worker of a full machine, once, with a chunk in hand."""

    def start(self):
        self._models = dict.fromkeys(Task, FakeModel())
        return "fake"

    def run(self, shard, attempt):
        from ray.exceptions import OutOfMemoryError

        once = Path(self._run.store.path("full"))
        if shard.start == 1 and not once.exists():
            once.touch()
            raise OutOfMemoryError(NOTICE)
        return super().run(shard, attempt)


class NeverRoom(FakeWorker):
    def start(self):
        from ray.exceptions import OutOfMemoryError

        raise OutOfMemoryError(NOTICE)


def test_a_full_machine_costs_a_worker_and_no_chunk(cluster, tmp_path):
    run = make_run(tmp_path, 3, shard=1, methods=ONLY_GLINER)
    watching = Watching()
    # One attempt: a chunk that were blamed would be given up.
    drive(run, worker=Full, replicas=1, watching=watching, attempts=1)
    assert [it["error"] for it in watching["worker_died"]] == [TOLD]
    assert len(watching["worker_starting"]) == 2
    assert not watching["shard_retried"]
    assert [row.status for _, row in sorted(statuses(run).items())] == ["ok"] * 3


def test_an_engine_that_finds_no_memory_to_start_in_says_so(cluster, tmp_path):
    run = make_run(tmp_path, 3, methods=ONLY_GLINER)
    with pytest.raises(WorkError) as caught:
        drive(run, worker=NeverRoom, replicas=1)
    assert str(caught.value) == f"the engine 'gliner' does not start: {TOLD}"

"""Workers that do nothing and answer: in the same process, and as Ray actors."""

import time
from collections import deque
from typing import Any

from kgscale.extract.cluster import Done, Event, Ready
from kgscale.extract.ray_cluster import RayCluster
from kgscale.extract.workers import ShardResult
from kgscale.records import Status
from kgscale.shards import Shard
from tests.extract.simulated_run import SimulatedRun


class AtOnce:
    """Workers in this process that answer at once."""

    def __init__(self, run: SimulatedRun, workers: int) -> None:
        self._run = run
        self._workers = workers
        self._spawned = 0
        self._events: deque[Event] = deque()

    def room(self, engine: str) -> int:
        return self._workers

    def spawn(self, engine: str) -> int:
        self._spawned += 1
        self._events.append(Ready(self._spawned, "none"))
        return self._spawned

    def submit(self, worker: int, shard: Shard, attempt: int) -> None:
        self._run.publish(shard, Status.OK)
        self._events.append(Done(worker, shard, ShardResult({"ok": shard.rows}, 0)))

    def wait(self, timeout_s: float) -> list[Event]:
        return [self._events.popleft() for _ in range(min(8, len(self._events)))]

    def kill(self, worker: int) -> None:
        pass

    def now(self) -> float:
        return time.monotonic()


class NoOp:
    """An actor that does nothing."""

    def start(self) -> str:
        return "none"

    def ping(self) -> None:
        pass

    def run(self, shard: Shard, attempt: int) -> ShardResult:
        return ShardResult({"ok": shard.rows}, 0)


class Chairs:
    """Places for no-op actors; what they are told done is published by the driver, which costs it nothing."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._free = {"llm": list(range(workers)), "gliner": list(range(workers))}

    def room(self, engine: str) -> int:
        return self._workers

    def start(self, engine: str) -> tuple[int, Any]:
        import ray

        return self._free[engine].pop(), ray.remote(NoOp).options(num_cpus=0).remote()

    def leave(self, engine: str, place: int) -> None:
        self._free[engine].append(place)

    def is_gone(self, place: int) -> bool:
        return False


class Published(RayCluster):
    def __init__(self, run: SimulatedRun, workers: int) -> None:
        super().__init__(Chairs(workers))
        self._simulated = run

    def wait(self, timeout_s: float) -> list[Event]:
        events = super().wait(timeout_s)
        for event in events:
            if isinstance(event, Done):
                self._simulated.publish(event.shard, Status.OK)
        return events

"""The cluster as the drive loop sees it, and Ray behind that interface."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from kgscale.extract.workers import ShardResult
from kgscale.runs import Shard


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has started and takes shards."""

    worker: int
    device: str


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A worker did not come up; `error` is the engine's own message."""

    worker: int
    error: str


@dataclass(frozen=True, slots=True)
class Done:
    """A shard is committed."""

    worker: int
    shard: Shard
    result: ShardResult


@dataclass(frozen=True, slots=True)
class Failed:
    """A shard ended with an error, its worker lives on; `fatal` says that trying again elsewhere cannot help."""

    worker: int
    shard: Shard
    error: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Died:
    """A worker is gone, with every shard that was in it."""

    worker: int
    error: str


Event = Ready | StartFailed | Done | Failed | Died


class Cluster(Protocol):
    """All that the drive loop asks of a cluster; a worker is known by a number that is never used again."""

    def spawn(self, engine: str) -> int:
        """Begin to start a worker of an engine; `Ready` or `StartFailed` follows."""

    def submit(self, worker: int, shard: Shard, attempt: int) -> None:
        """Hand a shard to a ready worker; `Done`, `Failed` or the worker's `Died` follows."""

    def wait(self, timeout_s: float) -> list[Event]:
        """What has happened; waits at most so long for something to happen."""

    def kill(self, worker: int) -> None:
        """End a worker at once; `Died` follows when it is gone, unless it was idle."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""


@dataclass
class _Actor:
    handle: Any
    engine: str
    slot: int
    ready: bool = False
    tasks: dict[Any, Shard] = field(default_factory=dict)


class RayCluster:
    """Workers as Ray actors with `max_restarts=0`: the driver owns replacement, so a death is never ambiguous."""

    def __init__(self, starters: Mapping[str, Callable[[int], Any]]) -> None:
        """`starters` makes an actor of each engine, in the slot of that number, with the methods `start` and `run`."""
        self._starters = starters
        self._actors: dict[int, _Actor] = {}
        self._starting: dict[Any, int] = {}
        self._running: dict[Any, int] = {}
        self._spawned = 0

    def spawn(self, engine: str) -> int:
        """Begin to start an actor, in the first slot that no other actor of the engine has."""
        taken = {actor.slot for actor in self._actors.values() if actor.engine == engine}
        slot = next(it for it in count() if it not in taken)
        self._spawned += 1
        actor = _Actor(self._starters[engine](slot), engine, slot)
        self._actors[self._spawned] = actor
        self._starting[actor.handle.start.remote()] = self._spawned
        return self._spawned

    def submit(self, worker: int, shard: Shard, attempt: int) -> None:
        """Queue a shard in an actor."""
        actor = self._actors[worker]
        reference = actor.handle.run.remote(shard, attempt)
        actor.tasks[reference] = shard
        self._running[reference] = worker

    def wait(self, timeout_s: float) -> list[Event]:
        """Turn finished references into events; a dead actor gives one event, whatever it had in hand."""
        import ray

        references = [*self._starting, *self._running]
        if not references:
            time.sleep(min(timeout_s, 0.05))
            return []
        ready, _ = ray.wait(references, num_returns=1, timeout=timeout_s)
        if ready:
            ready, _ = ray.wait(references, num_returns=len(references), timeout=0)
        return [event for reference in ready if (event := self._event(reference)) is not None]

    def kill(self, worker: int) -> None:
        """Kill an actor's process."""
        import ray

        actor = self._actors.get(worker)
        if actor is not None:
            ray.kill(actor.handle, no_restart=True)
            if actor.ready and not actor.tasks:
                del self._actors[worker]

    def now(self) -> float:
        """The monotonic clock of this process."""
        return time.monotonic()

    def _event(self, reference: Any) -> Event | None:
        import ray

        starting = reference in self._starting
        worker = self._starting.pop(reference, None) or self._running.pop(reference, None)
        if worker is None:
            return None
        actor = self._actors[worker]
        shard = actor.tasks.pop(reference, None)
        try:
            value = ray.get(reference)
        except ray.exceptions.RayActorError as death:
            self._forget(worker)
            message = _message(death)
            return StartFailed(worker, message) if starting else Died(worker, message)
        except Exception as error:  # noqa: BLE001  # whatever a worker raised is reported, not re-raised here
            cause = getattr(error, "cause", None) or error
            if shard is not None:
                return Failed(worker, shard, _message(cause), fatal=getattr(cause, "exit_code", None) is not None)
            self.kill(worker)
            self._forget(worker)
            return StartFailed(worker, _message(cause))
        if shard is not None:
            return Done(worker, shard, value)
        actor.ready = True
        return Ready(worker, value)

    def _forget(self, worker: int) -> None:
        for reference in self._actors.pop(worker).tasks:
            self._running.pop(reference, None)


def _message(error: BaseException) -> str:
    """An error in one line; of Ray's long death notices, the sentence that says why."""
    if type(error).__module__.startswith("kgscale"):
        return str(error)
    if type(error).__module__.startswith("ray."):
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = next((line for line in lines if "because" in line or "Worker exit" in line), lines[0] if lines else "")
        return f"worker died: {why[:500]}"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"

"""Ray behind the interface that the drive loop knows."""

import re
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from kgscale.errors import WorkError
from kgscale.extract.cluster import Died, Done, Event, Failed, Ready, StartFailed
from kgscale.shards import Shard

PING_EVERY_S = 5.0


class Places(Protocol):
    """Where workers can sit; a place is whatever hashable thing its maker likes."""

    def room(self, engine: str) -> int:
        """How many places an engine has now, taken or not."""

    def start(self, engine: str) -> tuple[Any, Any]:
        """Take a free place and start an actor there; it has the methods `start`, `run` and `ping`."""

    def leave(self, engine: str, place: Any) -> None:
        """Free a place."""

    def is_gone(self, place: Any) -> bool:
        """Whether a place is no longer there: its node is lost."""


@dataclass
class _Actor:
    handle: Any
    engine: str
    place: Any
    ready: bool = False
    tasks: dict[Any, Shard] = field(default_factory=dict)
    ping: Any = None
    seen_at: float = 0.0


class RayCluster:
    """Workers as Ray actors with `max_restarts=0`: the driver owns replacement, so a death is never ambiguous."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._actors: dict[int, _Actor] = {}
        self._starting: dict[Any, int] = {}
        self._running: dict[Any, int] = {}
        self._pings: dict[Any, int] = {}
        self._spawned = 0

    def room(self, engine: str) -> int:
        """How many places there are for workers of an engine."""
        return self._places.room(engine)

    def spawn(self, engine: str) -> int:
        """Begin to start an actor in a free place."""
        place, handle = self._places.start(engine)
        self._spawned += 1
        self._actors[self._spawned] = _Actor(handle, engine, place)
        self._starting[handle.start.remote()] = self._spawned
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

        gone = self._give_up_lost_starts()
        if gone:
            return gone
        self._ping_the_idle()
        references = [*self._starting, *self._running, *self._pings]
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
                self._forget(worker)

    def now(self) -> float:
        """The monotonic clock of this process: no jump of the wall clock reaches the loop."""
        return time.monotonic()

    def _give_up_lost_starts(self) -> list[Event]:
        """An actor that waits for a node that is lost would wait for ever: its place is nobody's fault."""
        import ray

        gone: list[Event] = []
        for reference, worker in list(self._starting.items()):
            if self._places.is_gone(self._actors[worker].place):
                del self._starting[reference]
                ray.kill(self._actors[worker].handle, no_restart=True)
                self._forget(worker)
                gone.append(Died(worker, "its node is lost", blameless=True))
        return gone

    def _ping_the_idle(self) -> None:
        """Of an actor that has nothing to do no death would be told."""
        now = time.monotonic()
        for worker, actor in self._actors.items():
            if actor.ready and not actor.tasks and actor.ping is None and now - actor.seen_at > PING_EVERY_S:
                actor.ping = actor.handle.ping.remote()
                actor.seen_at = now
                self._pings[actor.ping] = worker

    def _event(self, reference: Any) -> Event | None:
        import ray

        if reference in self._pings:
            return self._pinged(reference)
        starting = reference in self._starting
        worker = self._starting.pop(reference, None) or self._running.pop(reference, None)
        if worker is None:
            return None
        actor = self._actors[worker]
        shard = actor.tasks.pop(reference, None)
        actor.seen_at = time.monotonic()
        try:
            value = ray.get(reference)
        except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError) as death:
            refuse_orphanhood(death)
            # Perhaps it is only out of reach: it must not go on beside the one that takes its place.
            ray.kill(actor.handle, no_restart=True)
            self._forget(worker)
            message = _message(death)
            # An engine that finds too little memory to start in will find no more the next time.
            if starting and not _node_lost(death):
                return StartFailed(worker, message)
            return Died(worker, message, blameless=_blameless(death))
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

    def _pinged(self, reference: Any) -> Event | None:
        import ray

        worker = self._pings.pop(reference)
        self._actors[worker].ping = None
        try:
            ray.get(reference)
        except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError) as death:
            refuse_orphanhood(death)
            self._forget(worker)
            return Died(worker, _message(death), blameless=_blameless(death))
        return None

    def _forget(self, worker: int) -> None:
        actor = self._actors.pop(worker)
        for reference in actor.tasks:
            self._running.pop(reference, None)
        self._pings.pop(actor.ping, None)
        self._places.leave(actor.engine, actor.place)


def refuse_orphanhood(death: BaseException) -> None:
    """Raise `WorkError` where an actor died because its owner, this driver, is dead to Ray: its own node is lost.

    Nothing that is started from here would ever begin.
    """
    if "owner has died" in str(death):
        raise WorkError(
            "the part of Ray that runs on this machine has died",
            hint="run the same command again: what is committed is not done again",
        )


def _blameless(death: BaseException) -> bool:
    """Whether a worker died of something that no shard of its did: Ray ends any worker of a node that is too full."""
    return _node_lost(death) or _short_of_memory(death)


def _short_of_memory(error: BaseException) -> bool:
    import ray

    return isinstance(error, ray.exceptions.OutOfMemoryError)


def _node_lost(death: BaseException) -> bool:
    """Whether Ray says that the whole node went; for all but preemption it has no field, only these words."""
    text = str(death)
    return getattr(death, "preempted", False) or any(it in text for it in ("node has died", "node is dead", "node was"))


def _message(error: BaseException) -> str:
    """An error in one line; of Ray's long death notices, the sentence that says why."""
    if type(error).__module__.startswith("kgscale"):
        return str(error)
    if type(error).__module__.startswith("ray."):
        if _short_of_memory(error):
            used = re.search(r"[\d.]+ ?\wB used / [\d.]+ ?\wB", str(error))
            return f"ended by Ray, since its machine ran short of memory{f' ({used[0]})' if used else ''}"
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = next((line for line in lines if "because" in line or "Worker exit" in line), lines[0] if lines else "")
        return f"worker died: {why[:500]}"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"

"""A cluster and a run directory in simulated time; faults are drawn from a seed, so that each run replays exactly."""

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field

from kgscale.extract.cluster import Died, Done, Event, Failed, Ready, StartFailed
from kgscale.extract.workers import ShardResult
from kgscale.records import Status
from kgscale.runs import Range, Shard, gaps

FOREVER_S = 100_000.0


@dataclass(frozen=True)
class Faults:
    """What goes wrong: chances per shard or start, and rows that always kill, hang or raise."""

    death_before_commit: float = 0.0
    death_after_commit: float = 0.0
    start_failure: float = 0.0
    error: float = 0.0
    slow: float = 0.0
    poison: frozenset[int] = frozenset()
    hanging: frozenset[int] = frozenset()
    raising: frozenset[int] = frozenset()
    engine: str | None = None
    """The only engine that those rows harm; all for null."""
    failing_starts: frozenset[int] = frozenset()
    """Workers, by number, that do not come up."""


class SimulatedRun:
    """A run directory in memory; committing a row twice is what the tests look for."""

    def __init__(self, rows: int, shard_chunks: int, rng: random.Random) -> None:
        self.planned: list[Range] = [(at, min(rows, at + shard_chunks)) for at in range(0, rows, shard_chunks)]
        self.shard_words = [rng.randint(1, 1000) for _ in self.planned]
        self.files: dict[str, list[Range]] = {}
        self.statuses: dict[tuple[str, int], Status] = {}
        self.upstream: dict[str, str] = {}

    @property
    def rows(self) -> int:
        return self.planned[-1][1]

    def remaining(self, method: str) -> list[Shard]:
        done = self.files.get(method, [])
        return [Shard(method, *gap) for start, stop in self.planned for gap in gaps(start, stop, done)]

    def is_committed(self, shard: Shard) -> bool:
        return not gaps(shard.start, shard.stop, self.files.get(shard.method, []))

    def commit(self, shard: Shard, status: Status) -> None:
        upstream = self.upstream.get(shard.method)
        assert upstream is None or self.is_committed(Shard(upstream, shard.start, shard.stop)), "entities come first"
        self.files.setdefault(shard.method, []).append((shard.start, shard.stop))
        for row in range(shard.start, shard.stop):
            assert (shard.method, row) not in self.statuses, f"row {row} of {shard.method} committed twice"
            self.statuses[shard.method, row] = status

    def commit_lost(self, shard: Shard, status: Status, error: str, attempts: int) -> None:
        assert shard.rows == 1
        assert error
        assert attempts >= 1
        self.commit(shard, status)


@dataclass
class _SimulatedWorker:
    engine: str
    ready: bool = False
    dead: bool = False
    tasks: list[Shard] = field(default_factory=list)


class SimulatedCluster:
    """Events in a heap of simulated time; deterministic for a seed."""

    def __init__(self, run: SimulatedRun, faults: Faults, rng: random.Random) -> None:
        self.time = 0.0
        self.deaths = 0
        self.submitted: Counter[Shard] = Counter()
        self.busy_s: Counter[str] = Counter()
        self._run = run
        self._faults = faults
        self._rng = rng
        self._workers: dict[int, _SimulatedWorker] = {}
        self._heap: list[tuple[float, int, object]] = []
        self._order = 0

    def spawn(self, engine: str) -> int:
        number = len(self._workers) + 1
        self._workers[number] = _SimulatedWorker(engine)
        self._at(self._rng.uniform(1, 5), ("start", number))
        return number

    def submit(self, worker: int, shard: Shard, attempt: int) -> None:
        assert not self._workers[worker].dead
        assert attempt >= 1
        self.submitted[shard] += 1
        self._workers[worker].tasks.append(shard)
        if len(self._workers[worker].tasks) == 1:
            self._begin(worker)

    def wait(self, timeout_s: float) -> list[Event]:
        assert self.time < FOREVER_S, "the loop waits for something that never comes"
        until = self.time + timeout_s
        while self._heap and self._heap[0][0] <= until:
            self.time, _, what = heapq.heappop(self._heap)
            event = self._happen(what)
            if event is not None:
                return [event]
        self.time = until
        return []

    def kill(self, worker: int) -> None:
        if not self._workers[worker].dead:
            self._at(0.1, ("kill", worker))

    def now(self) -> float:
        return self.time

    def _at(self, delay: float, what: object) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.time + delay, self._order, what))

    def _begin(self, number: int) -> None:
        """Run the first task of a worker; the rest wait behind it."""
        worker, shard = self._workers[number], self._workers[number].tasks[0]
        harmed = self._faults.engine in (None, worker.engine)
        rows = set(range(shard.start, shard.stop)) if harmed else set()
        seconds = shard.rows * self._rng.uniform(0.05, 0.15)
        if self._rng.random() < self._faults.slow:
            seconds *= 20
        self.busy_s[worker.engine] += seconds
        if rows & self._faults.poison:
            self._at(seconds / 2, ("die", number))
        elif rows & self._faults.hanging:
            return
        elif rows & self._faults.raising or self._rng.random() < self._faults.error:
            self._at(seconds / 2, ("raise", number, shard))
        elif self._rng.random() < self._faults.death_before_commit:
            self._at(seconds / 2, ("die", number))
        else:
            self._at(seconds, ("commit", number, shard))

    def _happen(self, what: object) -> Event | None:
        kind, number, *rest = what  # type: ignore[misc]
        worker = self._workers[number]
        if worker.dead:
            return None
        match kind:
            case "start":
                if number in self._faults.failing_starts or self._rng.random() < self._faults.start_failure:
                    worker.dead = True
                    return StartFailed(number, "no memory")
                worker.ready = True
                return Ready(number, "simulated")
            case "kill" | "die":
                worker.dead = True
                self.deaths += 1
                # A killed idle worker says nothing, as with Ray.
                return (
                    (Died(number, "killed") if worker.tasks or not worker.ready else None)
                    if worker.ready
                    else StartFailed(number, "killed")
                )
            case "raise":
                shard = worker.tasks.pop(0)
                if worker.tasks:
                    self._begin(number)
                return Failed(number, shard, "ValueError: bad chunk")
            case _:
                shard = rest[0]
                self._run.commit(shard, Status.OK)
                if self._rng.random() < self._faults.death_after_commit:
                    worker.dead = True
                    self.deaths += 1
                    return Died(number, "died after the commit")
                worker.tasks.pop(0)
                if worker.tasks:
                    self._begin(number)
                return Done(number, shard, ShardResult({"ok": shard.rows}, 0))

"""The loop that keeps every worker busy, replaces the dead and isolates what kills them."""

import heapq
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kgscale.errors import WorkError
from kgscale.extract.cluster import Cluster, Died, Done, Event, Failed, Ready, StartFailed
from kgscale.extract.methods import Step
from kgscale.extract.workers import ShardResult
from kgscale.records import Status
from kgscale.runs import Range, Shard

WAIT_S = 0.5
FIRST_DEADLINE_S = 900.0
"""Before any shard of an engine has finished there is no median to go by."""
LEAST_DEADLINE_S = 120.0
DEADLINE_FACTOR = 10.0
START_FAILURES = 3
"""So many failed starts in a row, with none in between that worked, end the job."""


class RunDirectory(Protocol):
    """All that the drive loop asks of a run directory."""

    @property
    def planned(self) -> Sequence[Range]:
        """The row range of each shard."""

    @property
    def shard_words(self) -> Sequence[int]:
        """How long each shard is."""

    def remaining(self, method: str) -> list[Shard]:
        """What is not committed yet."""

    def is_committed(self, shard: Shard) -> bool:
        """Whether all rows of a shard are committed."""

    def commit_lost(self, shard: Shard, status: Status, error: str, attempts: int) -> None:
        """Commit the row of a single chunk that no worker could."""


class Observer(Protocol):
    """Hears of everything that happens; `fields` are plain values."""

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Take note of an event."""


@dataclass(frozen=True, slots=True)
class Pool:
    """How many workers an engine gets; they start when those of the engines in `after` are ready."""

    engine: str
    replicas: int
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """When the loop gives up on what."""

    inflight: int = 2
    attempts: int = 2
    deadline_s: float | None = None
    start_timeout_s: float = 900.0
    stop_grace_s: float = 8.0


class Interrupted(InterruptedError):  # noqa: N818  # no error: the user asked for it
    """The run was stopped on request; everything committed stays."""


@dataclass
class _Worker:
    engine: str
    spawned_at: float
    ready: bool = False
    running: dict[Shard, float] = field(default_factory=dict)
    """Shards in the worker, with the time they were handed over."""
    sign_at: float = 0.0
    """When it last finished something."""
    reserved: bool = False
    """Takes no new shard until it is empty, then runs one suspect alone."""
    killed_for: str | None = None


@dataclass
class _Queue:
    ready: list[tuple[int, int, str, Shard]] = field(default_factory=list)
    """A heap: longest first, then in the order of the corpus."""
    suspects: list[Shard] = field(default_factory=list)
    """Shards that were in a worker when it died: each runs alone, so that the blame is never shared."""
    seconds: list[float] = field(default_factory=list)
    start_failures: int = 0
    ever_ready: bool = False


class Drive:
    """One pass over everything that remains; `run()` returns when it is committed."""

    def __init__(
        self,
        steps: Mapping[str, Step],
        pools: Sequence[Pool],
        run: RunDirectory,
        cluster: Cluster,
        policy: Policy,
        observe: Observer,
    ) -> None:
        self._steps = steps
        self._pools = {pool.engine: pool for pool in pools}
        self._run = run
        self._cluster = cluster
        self._policy = policy
        self._observe = observe
        self._workers: dict[int, _Worker] = {}
        self._queues: dict[str, _Queue] = {pool.engine: _Queue() for pool in pools}
        self._blocked: dict[str, dict[int, list[Shard]]] = defaultdict(lambda: defaultdict(list))
        """By upstream method and planned shard: what waits for it."""
        self._open_rows: dict[str, Counter[int]] = {}
        """By method and planned shard: rows not committed yet."""
        self._open_shards: Counter[str] = Counter()
        """By engine: shards that are not committed yet, wherever they are."""
        self._attempts: Counter[Shard] = Counter()
        self._stop: Callable[[], bool] = lambda: False

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Work until every shard is committed.

        `stop` is asked often; once it says yes, what runs is finished within a grace time and `Interrupted` is raised.
        Raises `WorkError` when an engine does not start or nothing can be written.
        """
        self._stop = stop
        self._enqueue()
        try:
            while any(self._open_shards.values()):
                if stop():
                    self._finish_running()
                    raise Interrupted
                self._start_workers()
                self._assign()
                for event in self._cluster.wait(WAIT_S):
                    self._handle(event)
                self._watch()
        finally:
            for number in list(self._workers):
                self._cluster.kill(number)

    def _enqueue(self) -> None:
        for method, step in self._steps.items():
            remaining = self._run.remaining(method)
            rows = self._open_rows[method] = Counter()
            for shard in remaining:
                rows[self._plan_of(shard)] += shard.rows
            for shard in remaining:
                self._open_shards[step.engine] += 1
                self._release(shard)

    def _release(self, shard: Shard) -> None:
        """Queue a shard, or let it wait for the entities that it builds on."""
        upstream = self._steps[shard.method].upstream
        plan = self._plan_of(shard)
        if upstream is not None and self._open_rows.get(upstream, Counter())[plan] > 0:
            self._blocked[upstream][plan].append(shard)
        else:
            entry = (-self._run.shard_words[plan], shard.start, shard.method, shard)
            heapq.heappush(self._queues[self._steps[shard.method].engine].ready, entry)

    def _plan_of(self, shard: Shard) -> int:
        """The planned shard that holds this one: pieces of a shard never cross its borders."""
        planned = self._run.planned
        low, high = 0, len(planned) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if planned[middle][0] <= shard.start:
                low = middle
            else:
                high = middle - 1
        return low

    def _start_workers(self) -> None:
        for engine, pool in self._pools.items():
            alive = [number for number, worker in self._workers.items() if worker.engine == engine]
            if not self._open_shards[engine]:
                # Nothing left for this engine: its cores and memory are worth more to the others.
                for number in alive:
                    if not self._workers[number].running:
                        self._discard(number)
                continue
            if not all(self._settled(other) for other in pool.after):
                continue
            wanted = min(pool.replicas, self._open_shards[engine])
            for _ in range(wanted - len(alive)):
                number = self._cluster.spawn(engine)
                self._workers[number] = _Worker(engine, self._cluster.now())
                self._observe("worker_starting", engine=engine, worker=number)

    def _settled(self, engine: str) -> bool:
        """Whether an engine's workers are up, or none is needed any more."""
        workers = [worker for worker in self._workers.values() if worker.engine == engine]
        return not self._open_shards[engine] or (self._queues[engine].ever_ready and all(it.ready for it in workers))

    def _discard(self, number: int) -> None:
        del self._workers[number]
        self._cluster.kill(number)

    def _assign(self) -> None:
        for engine, queue in self._queues.items():
            workers = {n: w for n, w in self._workers.items() if w.engine == engine and w.ready and not w.killed_for}
            self._reserve(queue, list(workers.values()))
            for number, worker in workers.items():
                if worker.reserved:
                    if not worker.running and queue.suspects:
                        self._submit(number, worker, queue.suspects.pop(0))
                    continue
                while queue.ready and len(worker.running) < self._policy.inflight:
                    self._submit(number, worker, heapq.heappop(queue.ready)[-1])

    @staticmethod
    def _reserve(queue: _Queue, workers: list[_Worker]) -> None:
        """Set workers apart for suspects: as many as there are, but half of the workers go on with the rest."""
        for worker in workers:
            if worker.reserved and not worker.running and not queue.suspects:
                worker.reserved = False
        wanted = min(len(queue.suspects), max(1, len(workers) // 2)) - sum(worker.reserved for worker in workers)
        for worker in sorted((it for it in workers if not it.reserved), key=lambda it: len(it.running)):
            if wanted <= 0:
                break
            worker.reserved = True
            wanted -= 1

    def _submit(self, number: int, worker: _Worker, shard: Shard) -> None:
        now = self._cluster.now()
        if not worker.running:
            worker.sign_at = now
        worker.running[shard] = now
        self._cluster.submit(number, shard, self._attempts[shard] + 1)
        self._observe("shard_started", method=shard.method, start=shard.start, stop=shard.stop, worker=number)

    def _handle(self, event: Event) -> None:
        worker = self._workers.get(event.worker)
        if worker is None:
            return
        match event:
            case Ready() if worker.killed_for:
                self._discard(event.worker)
                self._start_failed(worker, worker.killed_for)
            case Ready():
                worker.ready = True
                self._queues[worker.engine].start_failures = 0
                self._queues[worker.engine].ever_ready = True
                seconds = self._cluster.now() - worker.spawned_at
                self._observe(
                    "worker_ready", engine=worker.engine, worker=event.worker, device=event.device, seconds=seconds
                )
            case StartFailed():
                del self._workers[event.worker]
                self._start_failed(worker, worker.killed_for or event.error)
            case Done():
                since = worker.running.pop(event.shard)
                now = self._cluster.now()
                self._queues[worker.engine].seconds.append(now - max(since, worker.sign_at))
                worker.sign_at = now
                self._committed(event.shard, event.result)
                self._bury(event.worker)
            case Failed():
                if event.fatal:
                    raise WorkError(event.error)
                del worker.running[event.shard]
                worker.sign_at = self._cluster.now()
                self._blame(event.shard, Status.FAILED, event.error, alone=True)
                self._bury(event.worker)
            case Died():
                del self._workers[event.worker]
                self._died(worker, event)

    def _bury(self, number: int) -> None:
        """Forget a worker that finished its last shard while it was being killed: of an idle one no death is told."""
        worker = self._workers[number]
        if worker.killed_for and not worker.running:
            self._discard(number)

    def _start_failed(self, worker: _Worker, error: str) -> None:
        queue = self._queues[worker.engine]
        queue.start_failures += 1
        self._observe("worker_start_failed", engine=worker.engine, error=error)
        others = any(it.engine == worker.engine for it in self._workers.values())
        if queue.start_failures >= START_FAILURES or not (queue.ever_ready or others):
            raise WorkError(f"the engine {worker.engine!r} does not start: {error}")

    def _died(self, worker: _Worker, event: Died) -> None:
        error = worker.killed_for or event.error
        self._observe("worker_died", engine=worker.engine, worker=event.worker, error=error, shards=len(worker.running))
        alone = len(worker.running) == 1
        for shard in worker.running:
            # The reply may be lost, not the work: the committed file is what counts.
            if self._run.is_committed(shard):
                self._committed(shard, None)
            else:
                self._blame(shard, Status.DEAD, error, alone=alone)

    def _blame(self, shard: Shard, status: Status, error: str, *, alone: bool) -> None:
        """Try a shard again, alone; halve it when that failed; write down what a single chunk did."""
        self._attempts[shard] += alone or shard.rows > 1
        queue = self._queues[self._steps[shard.method].engine]
        if self._attempts[shard] < self._policy.attempts or not alone:
            queue.suspects.append(shard)
        elif shard.rows > 1:
            self._open_shards[self._steps[shard.method].engine] += 1
            for half in shard.halves():
                # A half has its whole's attempts behind it: one more death is enough to halve it again.
                self._attempts[half] = self._policy.attempts - 1 if half.rows > 1 else 0
                queue.suspects.append(half)
        else:
            self._run.commit_lost(shard, status, error, self._attempts[shard])
            self._committed(shard, ShardResult({str(status): 1}, 0))
            return
        self._observe("shard_retried", method=shard.method, start=shard.start, stop=shard.stop, error=error)

    def _committed(self, shard: Shard, result: ShardResult | None) -> None:
        plan = self._plan_of(shard)
        self._open_rows[shard.method][plan] -= shard.rows
        self._open_shards[self._steps[shard.method].engine] -= 1
        self._observe(
            "shard_committed",
            method=shard.method,
            start=shard.start,
            stop=shard.stop,
            statuses=result.statuses if result else {},
            output_tokens=result.output_tokens if result else 0,
        )
        if self._open_rows[shard.method][plan] <= 0:
            for waiting in self._blocked[shard.method].pop(plan, []):
                self._release(waiting)

    def _watch(self) -> None:
        """Kill what has shown no sign of life for too long; its death comes back as an event."""
        now = self._cluster.now()
        for number, worker in list(self._workers.items()):
            if worker.killed_for:
                continue
            if not worker.ready:
                if now - worker.spawned_at > self._policy.start_timeout_s:
                    worker.killed_for = f"not ready after {self._policy.start_timeout_s:.0f} s"
                    self._cluster.kill(number)
            elif worker.running and now - worker.sign_at > (limit := self._deadline(worker.engine)):
                worker.killed_for = f"deadline: no shard finished in {limit:.0f} s"
                self._cluster.kill(number)

    def _deadline(self, engine: str) -> float:
        if self._policy.deadline_s is not None:
            return self._policy.deadline_s
        seconds = self._queues[engine].seconds
        if not seconds:
            return FIRST_DEADLINE_S
        return max(LEAST_DEADLINE_S, DEADLINE_FACTOR * statistics.median(seconds[-1000:]))

    def _finish_running(self) -> None:
        """Give what runs a last chance to be committed."""
        until = self._cluster.now() + self._policy.stop_grace_s
        while any(worker.running for worker in self._workers.values()):
            left = until - self._cluster.now()
            if left <= 0:
                return
            for event in self._cluster.wait(min(left, WAIT_S)):
                worker = self._workers.get(event.worker)
                if worker is not None and isinstance(event, Done | Failed):
                    worker.running.pop(event.shard)
                    if isinstance(event, Done):
                        self._committed(event.shard, event.result)
                elif worker is not None and isinstance(event, Died | StartFailed):
                    del self._workers[event.worker]

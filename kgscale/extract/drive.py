"""The loop that keeps every worker busy, replaces the dead and isolates what kills them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from kgscale.errors import WorkError
from kgscale.extract.backlog import SMALLEST_PIECE, Backlog
from kgscale.extract.cluster import Cluster, Died, Done, Event, Failed, Ready, StartFailed
from kgscale.extract.crew import EngineState, Worker, reserve
from kgscale.extract.deadline import Deadline
from kgscale.extract.directory import RunDirectory
from kgscale.extract.methods import Step
from kgscale.extract.placement import Pool
from kgscale.extract.workers import ShardResult
from kgscale.records import Status
from kgscale.shards import Shard

WAIT_S = 0.5
START_FAILURES = 3
"""So many failed starts in a row, with none in between that worked, end the job."""
PASSES = 3
"""So often the loop begins anew when rows that were said to be committed are not there."""


class Observer(Protocol):
    """Hears of everything that happens; `fields` are plain values."""

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Take note of an event."""


@dataclass(frozen=True, slots=True)
class Policy:
    """When the loop gives up on what."""

    inflight: int = 2
    attempts: int = 2
    deadline_s: float | None = None
    start_timeout_s: float = 900.0
    stop_grace_s: float = 5.0
    """A stop takes at most ten seconds, of which Ray's own end wants two, and on a busy machine twice that."""


class Interrupted(InterruptedError):  # noqa: N818  # no error: the user asked for it
    """The run was stopped on request; everything committed stays."""


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
        self._run = run
        self._cluster = cluster
        self._policy = policy
        self._observe = observe
        self._engines = {
            pool.engine: EngineState(pool.after, pool.at_once, Deadline(policy.deadline_s)) for pool in pools
        }
        self._workers: dict[int, Worker] = {}
        self._backlog = Backlog(steps, run.planned, run.shard_words, policy.attempts)

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Work until every shard is committed, and the directory says so too.

        `stop` is asked often; once it says yes, what runs is finished within a grace time and `Interrupted` is raised.
        Raises `WorkError` when an engine does not start or nothing can be written.
        """
        for _ in range(PASSES):
            for method in self._steps:
                self._run.settle(method)
            # A reply is believed while the work goes on; in the end only the files count.
            remaining = [shard for method in self._steps for shard in self._run.remaining(method)]
            if not remaining:
                return
            self._backlog.add(remaining)
            try:
                self._work_off(stop)
            finally:
                for number in list(self._workers):
                    self._discard(number)
        left = [str(shard) for method in self._steps for shard in self._run.remaining(method)]
        if left:
            raise WorkError(
                f"rows that were committed are not there: {', '.join(left[:5])}",
                hint="something else takes files out of the run directory, or its file system loses them",
            )

    def _work_off(self, stop: Callable[[], bool]) -> None:
        while self._backlog.open_rows():
            if stop():
                self._finish_running()
                raise Interrupted
            self._start_workers()
            self._assign()
            for event in self._cluster.wait(WAIT_S):
                self._handle(event)
            self._watch()

    def _start_workers(self) -> None:
        for name, engine in self._engines.items():
            open_rows = self._backlog.open_rows(name)
            if not open_rows:
                # Nothing left for this engine: its cores and memory are worth more to the others.
                for number in [number for number, worker in engine.workers.items() if not worker.running]:
                    self._discard(number)
                continue
            if not all(self._settled(other) for other in engine.after):
                continue
            wanted = min(self._cluster.room(name), -(-open_rows // SMALLEST_PIECE))
            for _ in range(wanted - len(engine.workers)):
                number = self._cluster.spawn(name)
                self._workers[number] = engine.workers[number] = Worker(name, self._cluster.now())
                self._observe("worker_starting", engine=name, worker=number)

    def _settled(self, name: str) -> bool:
        """Whether an engine's workers are up, or none is needed any more."""
        engine = self._engines[name]
        return not self._backlog.open_rows(name) or (
            engine.ever_ready and all(it.ready for it in engine.workers.values())
        )

    def _discard(self, number: int) -> None:
        engine = self._forget(number).engine
        self._cluster.kill(number)
        self._observe("worker_stopped", engine=engine, worker=number)

    def _forget(self, number: int) -> Worker:
        worker = self._workers.pop(number)
        del self._engines[worker.engine].workers[number]
        return worker

    def _assign(self) -> None:
        for name, engine in self._engines.items():
            if self._backlog.idle(name):
                continue
            workers = {n: w for n, w in engine.workers.items() if w.ready and not w.killed_for}
            reserve(self._backlog.suspects(name), list(workers.values()))
            for number, worker in workers.items():
                if worker.reserved and not worker.running and (suspect := self._backlog.take_suspect(name)):
                    self._submit(number, worker, suspect)
            # An even share is left for those that are still starting.
            at_hand = self._backlog.ready_rows(name) + sum(it.rows for it in engine.workers.values())
            enough = min(engine.at_once, at_hand // max(1, len(engine.workers)))
            free = {n: w for n, w in workers.items() if not w.reserved and self._has_room(w, enough)}
            while free and (shard := self._backlog.take(name, len(workers))):
                number = min(free, key=lambda it: free[it].rows)
                self._submit(number, free[number], shard)
                if not self._has_room(free[number], enough):
                    del free[number]

    def _has_room(self, worker: Worker, enough: int) -> bool:
        """Whether a worker may be given one more shard: so many shards at least, and as many chunks as keep it full."""
        return len(worker.running) < self._policy.inflight or worker.rows <= enough

    def _submit(self, number: int, worker: Worker, shard: Shard) -> None:
        now = self._cluster.now()
        if not worker.running:
            worker.sign_at = now
        worker.running[shard] = now
        self._cluster.submit(number, shard, self._backlog.attempt(shard))
        self._observe("shard_started", method=shard.method, start=shard.start, stop=shard.stop, worker=number)

    def _handle(self, event: Event) -> None:
        worker = self._workers.get(event.worker)
        if worker is None:
            return
        engine = self._engines[worker.engine]
        match event:
            case Ready() if worker.killed_for:
                self._discard(event.worker)
                self._start_failed(worker.engine, worker.killed_for)
            case Ready():
                worker.ready = True
                engine.start_failures = 0
                engine.ever_ready = True
                seconds = self._cluster.now() - worker.spawned_at
                self._observe(
                    "worker_ready", engine=worker.engine, worker=event.worker, device=event.device, seconds=seconds
                )
            case StartFailed():
                self._forget(event.worker)
                self._start_failed(worker.engine, worker.killed_for or event.error)
            case Done() | Failed() if event.shard not in worker.running:
                # Told before: an answer that comes twice counts once.
                return
            case Done():
                since = worker.running.pop(event.shard)
                now = self._cluster.now()
                engine.deadline.took(now - max(since, worker.sign_at))
                worker.sign_at = now
                self._committed(event.shard, event.result)
                self._bury(event.worker)
            case Failed():
                if event.fatal:
                    raise WorkError(event.error)
                del worker.running[event.shard]
                worker.sign_at = self._cluster.now()
                self._ended_badly(event.shard, Status.FAILED, event.error, alone=True)
                self._bury(event.worker)
            case Died():
                self._died(self._forget(event.worker), event)

    def _bury(self, number: int) -> None:
        """Forget a worker that finished its last shard while it was being killed: of an idle one no death is told."""
        worker = self._workers[number]
        if worker.killed_for and not worker.running:
            self._discard(number)

    def _start_failed(self, name: str, error: str) -> None:
        engine = self._engines[name]
        engine.start_failures += 1
        self._observe("worker_start_failed", engine=name, error=error)
        if engine.start_failures >= START_FAILURES or not (engine.ever_ready or engine.workers):
            raise WorkError(f"the engine {name!r} does not start: {error}")

    def _died(self, worker: Worker, event: Died) -> None:
        error = worker.killed_for or event.error
        self._observe("worker_died", engine=worker.engine, worker=event.worker, error=error, shards=len(worker.running))
        alone = len(worker.running) == 1
        for shard in worker.running:
            if not (event.blameless and not self._run.is_committed(shard) and self._backlog.lost(shard)):
                self._ended_badly(shard, Status.DEAD, error, alone=alone)

    def _ended_badly(self, shard: Shard, status: Status, error: str, *, alone: bool) -> None:
        """Try a shard again, unless it is done all the same; write down what a single chunk did."""
        # The reply may be lost, or the error have come after the commit: the committed file is what counts.
        if self._run.is_committed(shard):
            self._committed(shard, None)
        elif self._backlog.blame(shard, alone=alone):
            self._observe("shard_retried", method=shard.method, start=shard.start, stop=shard.stop, error=error)
        else:
            self._run.commit_lost(shard, status, error, self._backlog.attempt(shard) - 1)
            self._committed(shard, ShardResult({str(status): 1}))

    def _committed(self, shard: Shard, result: ShardResult | None) -> None:
        self._backlog.committed(shard)
        self._observe(
            "shard_committed",
            method=shard.method,
            start=shard.start,
            stop=shard.stop,
            **asdict(result or ShardResult()),
        )

    def _watch(self) -> None:
        """Kill what has shown no sign of life for too long; its death comes back as an event."""
        now = self._cluster.now()
        for engine in self._engines.values():
            limit = engine.deadline.seconds
            for number, worker in list(engine.workers.items()):
                if worker.killed_for:
                    continue
                if not worker.ready:
                    if now - worker.spawned_at > self._policy.start_timeout_s:
                        worker.killed_for = f"not ready after {self._policy.start_timeout_s:.0f} s"
                        self._cluster.kill(number)
                elif worker.running and now - worker.sign_at > limit:
                    worker.killed_for = f"deadline: no shard finished in {limit:.0f} s"
                    self._cluster.kill(number)

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
                    known = worker.running.pop(event.shard, None) is not None
                    if known and isinstance(event, Done):
                        self._committed(event.shard, event.result)
                elif worker is not None and isinstance(event, Died | StartFailed):
                    self._forget(event.worker)

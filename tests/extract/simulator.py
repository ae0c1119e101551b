"""A cluster in simulated time; what happens is drawn from a seed, so that it replays exactly."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from kgscale.extract.cluster import Died, Done, Event, Failed, Ready, StartFailed
from kgscale.extract.workers import ShardResult
from kgscale.records import Status
from kgscale.shards import Shard

from .simulated_run import HALF, SimulatedRun
from .simulated_world import CALM, Faults, World

STEPS = ("check", "write", "publish", "reply")
"""How a worker commits; the real one is `Run.commit` and what it calls."""


@dataclass
class _Worker:
    engine: str
    ready: bool = False
    dead: bool = False
    told_dead: bool = False
    """The driver believes that it is dead."""
    tasks: list[Shard] = field(default_factory=list)
    """What its process has to do."""
    handed: list[Shard] = field(default_factory=list)
    """What the driver waits for."""
    ready_at: float = 0.0
    last_at: float = 0.0
    """When it last finished something."""
    ended_at: float | None = None


@dataclass
class _Commit:
    """One shard in one worker, from its beginning to its reply."""

    number: int
    shard: Shard
    seconds: float
    pause_s: float
    bad_step: str | None
    checked: bool = False
    over: bool = False


Service = Callable[[str, int, Shard, int], float]
"""Seconds that a shard takes: of the engine, the worker, the shard and the rows in the worker."""


class SimulatedCluster:
    """One driver's workers; what they tell waits in its mail until it asks."""

    def __init__(
        self,
        run: SimulatedRun,
        faults: Faults,
        world: World,
        room: dict[str, int],
        *,
        token: int = 0,
        steps: tuple[str, ...] = STEPS,
        service: Service | None = None,
    ) -> None:
        self.world = world
        self.rooms = dict(room)
        self.deaths = 0
        self.submitted: Counter[Shard] = Counter()
        self.busy_s: defaultdict[int, float] = defaultdict(float)
        self.mail: list[Event] = []
        self._run = run
        self._faults = faults
        self._token = token
        self._steps = steps
        self._service = service or self._any_service
        self.start_s_of: dict[str, tuple[float, float]] = {}
        self.workers: dict[int, _Worker] = {}

    def room(self, engine: str) -> int:
        return self.rooms[engine]

    def spawn(self, engine: str) -> int:
        number = len(self.workers) + 1
        worker = self.workers[number] = _Worker(engine)
        rng = self.world.rng

        def start() -> None:
            if worker.dead:
                return
            if number in self._faults.failing_starts or rng.random() < self._faults.start_failure:
                worker.dead = True
                self.mail.append(StartFailed(number, "no memory"))
            else:
                worker.ready = True
                worker.ready_at = self.world.time
                self.mail.append(Ready(number, "simulated"))

        self.world.at(rng.uniform(*self.start_s_of.get(engine, (1, 5))), start)
        return number

    def submit(self, worker: int, shard: Shard, attempt: int) -> None:
        it = self.workers[worker]
        assert it.ready
        assert attempt >= 1
        assert shard not in it.tasks
        self.submitted[shard] += 1
        it.tasks.append(shard)
        it.handed.append(shard)
        if len(it.tasks) == 1 and not it.dead:
            self._begin(worker)

    def wait(self, timeout_s: float) -> list[Event]:
        until = self.world.time + timeout_s
        while not self.mail and self.world.step(until):
            pass
        if not self.mail:
            self.world.idle(until)
        told, self.mail = self.mail, []
        return told

    def kill(self, worker: int) -> None:
        self.world.at(0.1, lambda: self._die(worker, "killed"))

    def now(self) -> float:
        return self.world.time

    def lose_driver(self) -> None:
        """The driver is gone; its workers live on for a while and find out when they commit."""
        for number, worker in self.workers.items():
            if not worker.dead:
                self.world.at(self.world.rng.uniform(0, 30), partial(self._die, number, "orphan"))

    def lose_workers(self, engine: str, number: int, *, forever: bool = False) -> None:
        """The nodes of some of an engine's workers go."""
        alive = [it for it, worker in self.workers.items() if worker.engine == engine and not worker.dead]
        if forever:
            self.rooms[engine] -= number
        for it in alive[:number]:
            self._die(it, "spot", blameless=True)

    def _any_service(self, _engine: str, _worker: int, shard: Shard, _live: int) -> float:
        seconds = shard.rows * self.world.rng.uniform(0.05, 0.15)
        return seconds * 20 if self.world.rng.random() < self._faults.slow else seconds

    def _die(self, number: int, error: str, *, blameless: bool = False) -> None:
        worker = self.workers[number]
        if not worker.dead:
            self.deaths += 1
            worker.dead = True
            worker.ended_at = self.world.time
            self._tell_death(number, error, blameless=blameless)

    def _tell_death(self, number: int, error: str, *, blameless: bool = False) -> None:
        worker = self.workers[number]
        if worker.told_dead:
            return
        worker.told_dead = True
        if blameless:
            self._run.node_losses.update((it.method, it.start) for it in worker.handed if it.rows == 1)
        elif len(worker.handed) == 1:
            self._harmed(worker.handed[0])
        if not worker.ready and not blameless:
            self.mail.append(StartFailed(number, error))
        else:
            self.mail.append(Died(number, error, blameless=blameless))

    def _harmed(self, shard: Shard) -> None:
        if shard.rows == 1:
            self._run.harmed[shard.method, shard.start] += 1

    def _begin(self, number: int) -> None:
        """Run the first task of a worker; the rest wait behind it."""
        worker, shard = self.workers[number], self.workers[number].tasks[0]
        faults, rng = self._faults, self.world.rng
        upstream = self._run.upstream.get(shard.method)
        assert upstream is None or self._run.is_committed(Shard(upstream, shard.start, shard.stop)), "entities first"
        seconds = self._service(worker.engine, number, shard, sum(it.rows for it in worker.tasks))
        harmed = faults.engine in (None, worker.engine)

        def hit(bad: frozenset[int]) -> bool:
            return bool(bad) and harmed and any(row in bad for row in range(shard.start, shard.stop))

        # The moments of the commit follow the work.
        commit_s = 0.0 if faults is CALM else rng.uniform(0, 0.3)
        if hit(faults.poison):
            self.world.at(seconds / 2, lambda: self._die(number, "died"))
            return
        if hit(faults.hanging) or rng.random() < faults.hang:
            return
        if hit(faults.raising) or rng.random() < faults.error:
            self.world.at(seconds / 2, lambda: self._fail(number, shard, "ValueError: bad chunk"))
            return
        end = seconds + commit_s + 0.1
        if rng.random() < faults.death:
            self.world.at(rng.uniform(0, end), lambda: self._die(number, "died"))
        if rng.random() < faults.partition:
            self.world.at(rng.uniform(0, end), lambda: self._tell_death(number, "out of reach"))
        if rng.random() < faults.node_loss:
            self.world.at(rng.uniform(0, end), lambda: self._die(number, "its node has died", blameless=True))
        bad_step = None
        if rng.random() < faults.commit_fails_before:
            bad_step = "write"
        elif rng.random() < faults.commit_fails_after:
            bad_step = "reply"
        self._step(_Commit(number, shard, seconds, commit_s / 3, bad_step), 0, seconds)

    def _step(self, commit: _Commit, at: int, delay: float) -> None:
        """Do the next step of a commit, when its time has come and the worker lives."""

        def act() -> None:
            if self.workers[commit.number].dead or commit.over:
                return
            self._act(commit, self._steps[at])
            if not commit.over and at + 1 < len(self._steps):
                self._step(commit, at + 1, commit.pause_s)

        self.world.at(delay, act)

    def _act(self, commit: _Commit, step: str) -> None:
        number, shard = commit.number, commit.shard
        name = shard.file.rsplit("/", 1)[1]
        if step == commit.bad_step:
            commit.over = True
            self._fail(number, shard, "StoreError: cannot write")
        elif step == "check":
            commit.checked = True
            if self._token != self._run.token:
                commit.over = True
                self._fail(number, shard, "another driver has taken over this run", fatal=True)
        elif step == "write":
            if self._run.files.get(shard.method, {}).get(name) is HALF:
                self._run.publish(shard, Status.OK)
        elif step == "publish":
            assert commit.checked, "committed without a look at who holds the run"
            written = self._steps.index("write") < self._steps.index("publish")
            self._run.publish(shard, Status.OK if written else HALF)
        else:
            self.busy_s[number] += commit.seconds
            self.workers[number].last_at = self.world.time
            self._reply(number, shard)

    def _reply(self, number: int, shard: Shard) -> None:
        worker, rng = self.workers[number], self.world.rng
        done = Done(number, shard, ShardResult({"ok": shard.rows}, 0))
        if rng.random() >= self._faults.lost_reply and not worker.told_dead:
            worker.handed.remove(shard)
            self.mail.append(done)
            if rng.random() < self._faults.repeated_reply:
                self.world.at(rng.uniform(0, 5), lambda: self.mail.append(done))
        self._next(number)

    def _fail(self, number: int, shard: Shard, error: str, *, fatal: bool = False) -> None:
        worker = self.workers[number]
        if worker.dead:
            return
        self._harmed(shard)
        if not worker.told_dead:
            worker.handed.remove(shard)
            self.mail.append(Failed(number, shard, error, fatal=fatal))
        self._next(number)

    def _next(self, number: int) -> None:
        worker = self.workers[number]
        worker.tasks.pop(0)
        if worker.tasks:
            self._begin(number)

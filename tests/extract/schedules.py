"""Fault schedules: a run driven again and again through whatever a seed has in store, and what must hold at the end."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kgscale.errors import WorkError
from kgscale.extract.cluster import Event
from kgscale.extract.drive import Drive, Interrupted, Policy
from kgscale.extract.methods import Step
from kgscale.extract.placement import Pool
from kgscale.extract.prompt import Task
from kgscale.records import Status

from .simulated_run import SimulatedDirectory, SimulatedRun
from .simulated_world import CALM, Faults, World
from .simulator import STEPS, SimulatedCluster

METHODS = {
    "gliner": Step("gliner", "gliner", Task.ENTITIES),
    "llm": Step("llm", "llm", Task.BOTH),
    "hybrid": Step("hybrid", "llm", Task.RELATIONS, upstream="gliner"),
}
UPSTREAM = {"hybrid": "gliner"}
DRIVERS = 6
"""So many drivers meet with faults; the one after them has a calm day."""


class Killed(BaseException):
    """The driver is gone in the middle of whatever it did."""


@dataclass(frozen=True)
class Outcome:
    """What became of one schedule."""

    seed: int
    drivers: int
    faults: int
    """Deaths of workers and of drivers."""
    lost: int
    """Rows that are failed or dead."""


class SchedulesError(AssertionError):
    """A schedule ended badly; the seed in its message replays it."""


def draw(rng: random.Random) -> Faults:
    """Which faults a schedule has, and how often: most have a few kinds, none has all."""

    def rate(*rates: float) -> float:
        return rng.choice((0, 0, 0, *rates))

    return Faults(
        death=rate(0.02, 0.1, 0.3),
        partition=rate(0.02, 0.1),
        node_loss=rate(0.05, 0.2),
        start_failure=rate(0.05),
        error=rate(0.02),
        commit_fails_before=rate(0.02, 0.1),
        commit_fails_after=rate(0.02, 0.1),
        lost_reply=rate(0.02, 0.1),
        repeated_reply=rate(0.1, 0.5),
        slow=rate(0.05),
        hang=rate(0.02),
        poison=frozenset(rng.sample(range(20), rng.choice((0, 0, 0, 1, 2)))),
    )


class Play:
    """One schedule: a world, a run in it, and one driver after the other, or beside the other."""

    def __init__(self, seed: int, steps: tuple[str, ...] = STEPS) -> None:
        self.seed = seed
        rng = random.Random(seed)
        self.world = World(rng)
        self.run = SimulatedRun(rng.randint(1, 70), rng.choice((1, 4, 16, 40)), rng)
        self.run.upstream = UPSTREAM
        self.faults = draw(rng)
        self.drivers = 0
        self.deaths = 0
        self.watch: Callable[[str, dict[str, object]], None] = lambda _event, _fields: None
        self._steps = steps
        self._may_split = True

    def go(self) -> Outcome:
        """Play it to its end; raises `SchedulesError` with the seed if a row is lost, doubled or wrongly given up."""
        try:
            while self.drivers < DRIVERS and not self._drive(self.faults):
                pass
            # Workers that were given up for dead finish what they are at; then comes the last driver.
            while self.world.step(float("inf")):
                pass
            assert self._drive(CALM), "the last driver did not come to its end"
            statuses = self.run.statuses
            every = {(method, row) for method in METHODS for row in range(self.run.rows)}
            assert set(statuses) == every, f"{len(every - set(statuses))} rows are lost"
        except Exception as error:
            raise SchedulesError(f"seed {self.seed}: {type(error).__name__}: {error}") from error
        lost = sum(status != Status.OK for status in statuses.values())
        return Outcome(self.seed, self.drivers, self.deaths, lost)

    def _drive(self, faults: Faults) -> bool:
        """One driver; true if it came to its end."""
        self.drivers += 1
        rng = self.world.rng
        run, token = self.run, self.drivers
        run.token = token
        room = {"llm": rng.randint(1, 3), "gliner": rng.randint(1, 2)}
        cluster = SimulatedCluster(run, faults, self.world, room, token=token, steps=self._steps)
        left = rng.randint(1, 150) if faults is not CALM and rng.random() < 0.5 else None
        stop_at = rng.uniform(0, 60) if faults is not CALM and rng.random() < 0.1 else None
        start_timeout_s = 4.0 if faults is not CALM and rng.random() < 0.2 else 900.0
        policy = Policy(inflight=rng.randint(1, 3), deadline_s=20.0, start_timeout_s=start_timeout_s)
        pools = [Pool("llm"), Pool("gliner", after=("llm",) if rng.random() < 0.5 else ())]

        def observe(event: str, /, **fields: object) -> None:
            nonlocal left
            self.watch(event, fields)
            if left is not None:
                left -= 1
                if left < 0:
                    raise Killed

        drive = Drive(METHODS, pools, SimulatedDirectory(run, token), cluster, policy, observe)
        with self._split(cluster, faults):
            try:
                drive.run(lambda: stop_at is not None and self.world.time > stop_at)
            except Killed:
                self.deaths += 1
                cluster.lose_driver()
                return False
            except (WorkError, Interrupted):
                if faults is CALM:
                    raise
                return False
            finally:
                self.deaths += cluster.deaths
        if run.token == token:
            # An orderly end gives the run back: whoever still lives may not commit any more.
            run.token = 0
        return True

    @contextmanager
    def _split(self, cluster: SimulatedCluster, faults: Faults) -> Iterator[None]:
        """Perhaps a second driver takes the run over while this one, held up, believes that it has it still."""
        rng = self.world.rng
        if faults is not CALM and self._may_split and rng.random() < 0.3:
            self._may_split = False
            at, original = self.world.time + rng.uniform(0, 40), cluster.wait

            def wait(timeout_s: float) -> list[Event]:
                nonlocal at
                if self.world.time >= at:
                    at = float("inf")
                    self._drive(self.faults)
                return original(timeout_s)

            cluster.wait = wait  # type: ignore[method-assign]
        yield


def play(seed: int, steps: tuple[str, ...] = STEPS) -> Outcome:
    """Play the schedule of a seed; the same seed plays the same, event by event."""
    return Play(seed, steps).go()

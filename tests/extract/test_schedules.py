"""Seeded fault schedules: whatever happens, each row ends up committed once; and breaking the loop is noticed."""

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from kgscale import shards
from kgscale.extract.backlog import Backlog
from kgscale.extract.cluster import Done, Failed
from kgscale.extract.drive import Drive
from kgscale.shards import Shard

from . import simulated_world
from .schedules import Play, SchedulesError, play
from .simulator import STEPS

SCHEDULES = int(os.environ.get("KGSCALE_SCHEDULES", "1000"))
"""`make simulate` plays ten thousand."""
ENOUGH = 400
"""A fault in the loop must show within so many schedules."""


@pytest.mark.parametrize("part", range(10))
def test_every_schedule_ends_with_each_row_committed_once(part: int) -> None:
    outcomes = [play(seed) for seed in range(part, SCHEDULES, 10)]
    # They are no schedules of calm days.
    assert sum(it.faults for it in outcomes) > len(outcomes)
    assert sum(it.drivers for it in outcomes) > 2 * len(outcomes)


def test_a_seed_replays_exactly(monkeypatch) -> None:
    def events(seed: int) -> list[object]:
        told: list[object] = []
        handle = Drive._handle
        with monkeypatch.context() as patch:
            patch.setattr(Drive, "_handle", lambda self, event: (told.append(event), handle(self, event))[1])
            game = Play(seed)
            told.append(game.go())
        return [*told, game.world.time, game.run.files]

    assert all(events(seed) == events(seed) for seed in range(20))


def remaining_without_the_last_row(original: Callable[..., list[Shard]]) -> Callable[..., list[Shard]]:
    def remaining(method, planned, done):
        return [replace(it, stop=it.stop - 1) if it.rows > 1 else it for it in original(method, planned, done)]

    return remaining


def gaps_that_begin_late(original: Callable[..., object]) -> Callable[..., object]:
    def gaps(start, stop, done):
        return [(first + (first > start), last) for first, last in original(start, stop, done) if last > first + 1]

    return gaps


def remaining_across_borders(_original: Callable[..., list[Shard]]) -> Callable[..., list[Shard]]:
    def remaining(method, planned, done):
        return [Shard(method, *gap) for gap in shards.gaps(0, planned[-1][1], done)]

    return remaining


def blame_without_requeue(original: Callable[..., bool]) -> Callable[..., bool]:
    def blame(self, shard, *, alone):
        again = original(self, shard, alone=alone)
        suspects = self._queues[self._engine(shard)].suspects
        if again and len(suspects) > 1:
            suspects.pop()
        return again

    return blame


def blame_that_is_shared(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda self, shard, *, alone: original(self, shard, alone=True)


def lost_without_requeue(_original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda self, shard: True


def released_too_early(original: Callable[..., None]) -> Callable[..., None]:
    def committed(self, shard):
        self._open_in_plan[shard.method, self._plan_of(shard)] = shard.rows
        original(self, shard)

    return committed


def failed_without_a_look(original: Callable[..., None]) -> Callable[..., None]:
    """An error after the rename is taken for one before it, and what is there already is done in halves beside it."""

    def ended_badly(self, shard, status, error, *, alone):
        if self._backlog.blame(shard, alone=alone):
            return
        self._run.commit_lost(shard, status, error, self._backlog.attempt(shard) - 1)
        self._committed(shard, None)

    return ended_badly


def doubles_that_stay(_original: Callable[..., object]) -> Callable[..., object]:
    return lambda ranges: []


def answers_believed_twice(original: Callable[..., None]) -> Callable[..., None]:
    def handle(self, event):
        worker = self._workers.get(event.worker)
        if isinstance(event, Failed | Done) and worker is not None and event.shard not in worker.running:
            self._backlog.committed(event.shard)
        original(self, event)

    return handle


MUTANTS = {
    "remaining forgets the last row of each shard": (shards, "remaining_shards", remaining_without_the_last_row),
    "remaining crosses the planned borders": (shards, "remaining_shards", remaining_across_borders),
    "gaps begin a row late": (shards, "gaps", gaps_that_begin_late),
    "what failed is not queued again": (Backlog, "blame", blame_without_requeue),
    "what was on a lost node is not queued again": (Backlog, "lost", lost_without_requeue),
    "all shards of a dead worker are blamed": (Backlog, "blame", blame_that_is_shared),
    "what builds on entities starts too early": (Backlog, "committed", released_too_early),
    "no look at the files after an error": (Drive, "_ended_badly", failed_without_a_look),
    "rows that are there twice stay": (shards, "doubled", doubles_that_stay),
    "an answer that comes twice counts twice": (Drive, "_handle", answers_believed_twice),
}
ORDERS = {
    "published before it is written": ("check", "publish", "write", "reply"),
    "told before it is published": ("check", "write", "reply", "publish"),
    "committed without asking who holds the run": ("write", "publish", "reply"),
}


def caught(steps: tuple[str, ...] = STEPS) -> str | None:
    """The first thing that the schedules find, null if nothing."""
    for seed in range(ENOUGH):
        try:
            play(seed, steps)
        except SchedulesError as error:
            return str(error)
    return None


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_loop_is_caught(monkeypatch, mutant: str) -> None:
    owner, name, broken = MUTANTS[mutant]
    monkeypatch.setattr(simulated_world, "FOREVER_S", 3_000.0)
    monkeypatch.setattr(owner, name, broken(getattr(owner, name)))
    assert caught(), "no schedule notices"


def test_a_failing_seed_is_named_and_fails_again_in_the_same_way() -> None:
    steps = ORDERS["told before it is published"]
    told = caught(steps)
    assert told is not None
    seed = int(told.removeprefix("seed ").partition(":")[0])
    for _ in range(2):
        with pytest.raises(SchedulesError) as again:
            play(seed, steps)
        assert str(again.value) == told
    play(seed)


@pytest.mark.parametrize("order", ORDERS)
def test_a_broken_order_of_the_commit_is_caught(order: str) -> None:
    assert caught(ORDERS[order]), "no schedule notices"

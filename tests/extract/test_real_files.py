"""Fault schedules over the real run directory: workers die at any call of a commit, and no half file is believed."""

import errno
import os
import random
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kgscale.errors import KgscaleError, WorkError
from kgscale.extract.directory import Driven
from kgscale.extract.drive import Drive, Policy
from kgscale.extract.placement import Pool
from kgscale.lock import LOCK_FILE, driver_lock
from kgscale.records import Status
from kgscale.runs import Run
from kgscale.shards import Shard
from kgscale.store import Store
from kgscale.verify import verify
from tests.making import make_run, rows_of

from .schedules import METHODS, UPSTREAM, Killed
from .simulated_world import CALM, Faults, World
from .simulator import SimulatedCluster

SEEDS = 12
CALLS = ("open", "write", "fsync", "replace", "after replace", "fsync folder")


class DeadError(BaseException):
    """The process is gone: nothing that it would have done afterwards happens."""


@contextmanager
def going_wrong(monkeypatch, call, error):
    """The named call of the next commit raises; what a dead process would have cleaned up stays."""
    done = Counter()

    def wrong(name):
        if name == call:
            raise error

    def fsync(number, original=os.fsync):
        done["fsync"] += 1
        wrong("fsync" if done["fsync"] == 1 else "fsync folder")
        original(number)

    def replace(path, target, original=Path.replace):
        wrong("replace")
        original(path, target)
        wrong("after replace")

    def opened(path, *arguments, original=Path.open, **options):
        if not arguments or arguments[0] != "wb":
            return original(path, *arguments, **options)
        wrong("open")
        file = original(path, *arguments, **options)
        if call == "write":
            file.write(b"PAR1 and no more")
            file.flush()
            wrong("write")
        return file

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        patch.setattr(Path, "replace", replace)
        patch.setattr(Path, "open", opened)
        if isinstance(error, DeadError):
            patch.setattr(Path, "unlink", lambda *_a, **_o: None)
        yield


class Watched:
    """A real run, with what the simulated workers want to know of theirs."""

    def __init__(self, run):
        self.run = run
        self.upstream = UPSTREAM
        self.files = {}
        self.harmed = Counter()
        self.node_losses = Counter()
        self.token = None

    def is_committed(self, shard):
        return self.run.is_committed(shard)


class FileCluster(SimulatedCluster):
    """Commits for real, and dies or fails in the middle of it."""

    def __init__(self, watched, faults, world, room, token, monkeypatch, share):
        super().__init__(watched, faults, world, room, token=token)
        self._monkeypatch, self._share = monkeypatch, share

    def _act(self, commit, step):
        if step != "publish":
            super()._act(commit, step)
            return
        run, shard, rng = self._run.run, commit.shard, self.world.rng
        call = rng.choice(CALLS) if rng.random() < self._share else None
        error = DeadError() if rng.random() < 0.7 else OSError(errno.EIO, os.strerror(errno.EIO))
        try:
            with going_wrong(self._monkeypatch, call, error):
                committed = run.commit(shard, rows_of(run, shard), self._token)
        except DeadError:
            self._die(commit.number, "died")
        except WorkError as failed:
            commit.over = True
            self._fail(commit.number, shard, str(failed))
        else:
            if not committed:
                commit.over = True
                self._fail(commit.number, shard, "another driver has taken over this run", fatal=True)


def drive(watched, faults, world, monkeypatch, share):
    """One driver, as `extract_run` begins it; true if it came to its end."""
    rng, store = world.rng, watched.run.store
    left = rng.randint(1, 60) if faults is not CALM and rng.random() < 0.5 else 10**9

    def observe(event, /, **fields):
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    held = b""
    try:
        with driver_lock(store, "test") as token:
            held = store.read(LOCK_FILE)
            watched.token = token
            run = watched.run = Run(store.uri)
            run.clean()
            run.refuse_faults(METHODS)
            cluster = FileCluster(watched, faults, world, {"llm": 2, "gliner": 1}, token, monkeypatch, share)
            policy = Policy(deadline_s=20.0)
            Drive(METHODS, [Pool("llm"), Pool("gliner")], Driven(run, token), cluster, policy, observe).run()
    except Killed:
        # Of a killed driver the lock's content stays, only the lock is gone.
        store.write(LOCK_FILE, held)
        cluster.lose_driver()
        return False
    except WorkError:
        return False
    return True


def play(seed, folder, monkeypatch):
    rng = random.Random(seed)
    world = World(rng)
    run = make_run(folder / str(seed), rng.randint(4, 40), shard=rng.choice((4, 9)))
    watched = Watched(run)
    faults = Faults(death=rng.choice((0, 0.1)), lost_reply=rng.choice((0, 0.1)), error=rng.choice((0, 0.05)))
    for _ in range(4):
        if drive(watched, faults, world, monkeypatch, rng.choice((0.0, 0.1, 0.4))):
            break
    while world.step(float("inf")):
        pass
    assert drive(watched, CALM, world, monkeypatch, 0.0), f"seed {seed}"
    found = verify(Run(run.store.uri))
    assert found.passed, (seed, found.problems)
    assert not list((folder / str(seed)).rglob("*.tmp"))
    for method in METHODS:
        shard = Shard(method, 0, run.rows)
        for row, good in zip(run.read_rows(shard), rows_of(run, shard), strict=True):
            assert row.chunk_id == good.chunk_id
            assert row.status != Status.OK or [it.text for it in row.entities] == ["Ada"]


def test_a_commit_that_is_cut_short_anywhere_is_no_commit(tmp_path, monkeypatch):
    for seed in range(SEEDS):
        play(seed, tmp_path, monkeypatch)


def test_writing_under_the_final_name_is_caught(tmp_path, monkeypatch):
    def careless(self, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            yield file

    monkeypatch.setattr(Store, "_writing_local", careless)
    with pytest.raises((AssertionError, KgscaleError)):
        list(map(partial(play, folder=tmp_path, monkeypatch=monkeypatch), range(SEEDS)))

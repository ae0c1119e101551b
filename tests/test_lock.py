"""One driver per run."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from kgscale.errors import UserError, WorkError
from kgscale.lock import LOCK_FILE, current_driver, driver_lock, holds
from kgscale.store import Store

HOLD = (
    "import sys, time\n"
    "from kgscale.lock import driver_lock\n"
    "from kgscale.store import Store\n"
    "with driver_lock(Store(sys.argv[1]), 'kgscale run demo.yaml') as token:\n"
    "    print(token, flush=True)\n"
    "    time.sleep(600)\n"
)


@pytest.fixture
def other(tmp_path):
    """Another process that holds the run; returns it and its token."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    yield process, process.stdout.readline().strip()
    process.kill()
    process.wait()


def test_the_second_driver_is_refused_and_told_who_holds_the_run(tmp_path, other):
    process, token = other
    store = Store(tmp_path)
    with pytest.raises(UserError) as caught, driver_lock(store, "second"):
        pass
    assert caught.value.exit_code == 2
    assert f"another driver works on this run: process {process.pid} on " in str(caught.value)
    assert "`kgscale run demo.yaml`" in str(caught.value)
    assert f"process {process.pid}" in current_driver(store)
    assert holds(store, token), "being refused takes nothing from the holder"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": 1', "\x00" * 40, "null"])
def test_a_damaged_lock_is_told_as_such_and_lets_no_worker_commit(tmp_path, other, content):
    _, token = other
    store = Store(tmp_path)
    (tmp_path / LOCK_FILE).write_text(content)
    assert current_driver(store) == "unknown (its lock is damaged)"
    assert not holds(store, token)
    with pytest.raises(UserError, match="another driver works on this run: unknown"), driver_lock(store, "second"):
        pass


def test_a_killed_driver_frees_the_run_and_its_workers_may_no_longer_commit(tmp_path, other):
    process, old = other
    store = Store(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert current_driver(store) is None
    with driver_lock(store, "next") as new:
        assert (holds(store, new), holds(store, old)) == (True, False)
        assert f"process {os.getpid()}" in current_driver(store)
    assert current_driver(store) is None


def test_asking_who_holds_the_run_keeps_nobody_out(tmp_path):
    store = Store(tmp_path)
    with driver_lock(store, "first"):
        pass
    asking = (tmp_path / LOCK_FILE).open()
    fcntl.flock(asking, fcntl.LOCK_SH)

    def done():
        time.sleep(0.1)
        asking.close()

    thread = threading.Thread(target=done)
    thread.start()
    with driver_lock(store, "second"):
        pass
    thread.join()


def test_without_a_lock_file_nobody_holds_the_run(tmp_path):
    assert current_driver(Store(tmp_path)) is None
    assert not holds(Store(tmp_path), "token")


def test_a_disk_without_room_for_the_lock_is_told(tmp_path, monkeypatch):
    def full(_file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("kgscale.lock.os.fsync", full)
    with pytest.raises(WorkError, match="the disk is full"), driver_lock(Store(tmp_path), "test"):
        pass

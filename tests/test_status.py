"""Status is told from the files alone, by any process, while a run goes on."""

import json
import os

import pytest

from kgscale.errors import WorkError
from kgscale.events import EventLog
from kgscale.lock import driver_lock
from kgscale.records import Status
from kgscale.runs import EVENTS_FILE, Shard
from kgscale.status import run_status
from tests.making import make_run, rows_of


def test_a_run_that_has_not_begun(tmp_path):
    status = run_status(make_run(tmp_path, 12))
    assert (status.driver, status.last_event) == (None, None)
    for method in status.methods:
        assert (method.done, method.total, method.statuses) == (0, 12, {})
        assert (method.chunks_per_s, method.left_s, method.last_commit_at) == (None, None, None)


def test_an_incomplete_run(tmp_path):
    run = make_run(tmp_path, 20)
    log = EventLog(run.store)
    with driver_lock(run.store, "kgscale run") as token:
        for at, (start, status) in enumerate([(0, Status.OK), (4, Status.FAILED), (8, Status.DEAD)]):
            shard = Shard("llm", start, start + 4)
            run.commit(shard, rows_of(run, shard, status), token)
            os.utime(run.store.path(shard.file), (1_000_000 + 2 * at, 1_000_000 + 2 * at))
        log("shard_committed", method="llm", text="中文\n")
        told = run_status(run)
        assert f"process {os.getpid()} on " in told.driver
    log.close()
    llm = {it.method: it for it in told.methods}["llm"]
    assert (llm.done, llm.total) == (12, 20)
    assert llm.statuses == {"ok": 4, "failed": 4, "dead": 4}
    # The first commit only starts the clock.
    assert (llm.chunks_per_s, llm.left_s) == (2.0, 4.0)
    assert llm.last_commit_at == "1970-01-12T13:46:44+00:00"
    assert told.last_event.endswith(" shard_committed")
    assert run_status(run).driver is None


def test_the_last_whole_event_counts(tmp_path):
    run = make_run(tmp_path, 4)
    for event in ("first", "second"):
        log = EventLog(run.store)
        log(event, number=1, odd={1})
        log.close()
    with (tmp_path / EVENTS_FILE).open("ab") as file:
        file.write(b'{"at": "2026-01-01", "eve\xff')
    assert run_status(run).last_event.endswith(" second")
    lines = run.store.read(EVENTS_FILE).splitlines()
    assert [json.loads(line)["event"] for line in lines[:2]] == ["first", "second"]


def test_rows_that_a_killed_driver_left_there_twice_count_once(tmp_path):
    run = make_run(tmp_path, 8, shard=8)
    with driver_lock(run.store, "kgscale run") as token:
        for shard in (Shard("llm", 0, 8), Shard("llm", 0, 4)):
            run.commit(shard, rows_of(run, shard), token)
    llm = {it.method: it for it in run_status(run).methods}["llm"]
    assert (llm.done, llm.statuses) == (8, {"ok": 8})


def test_a_line_that_is_no_event_is_passed_over(tmp_path):
    run = make_run(tmp_path, 4)
    log = EventLog(run.store)
    log("whole")
    log.close()
    with (tmp_path / EVENTS_FILE).open("ab") as file:
        file.write(b'5\nnull\n{"at": "2026-01-01", "event": "ha')
    assert run_status(run).last_event.endswith(" whole")
    log = EventLog(run.store)
    log("next")
    log.close()
    assert json.loads((tmp_path / EVENTS_FILE).read_text().splitlines()[-1])["event"] == "next", "on a line of its own"


def test_a_log_without_room_is_told_and_hides_nothing(tmp_path):
    run = make_run(tmp_path, 4)
    (tmp_path / EVENTS_FILE).symlink_to("/dev/full")
    log = EventLog(run.store)
    with pytest.raises(WorkError, match="the disk is full"):
        log("drive_started")
    log.give_up("drive_stopped", error="why it stopped")

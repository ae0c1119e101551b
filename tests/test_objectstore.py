"""A run on an object store: a real S3 server over HTTP, so that commits, lists and locks are what S3 makes of them."""

import io
import json
import logging
import os
import re
import socket
import threading
import time

import pytest

from kgscale import lease as leases
from kgscale.errors import UserError, WorkError
from kgscale.events import EventLog
from kgscale.lease import held_by
from kgscale.lock import LOCK_FILE, current_driver, driver_lock, holds
from kgscale.records import Status
from kgscale.repair import set_aside
from kgscale.retries import failed_shards, fold
from kgscale.runs import Run, Shard
from kgscale.status import run_status
from kgscale.store import Store, StoreError
from kgscale.verify import verify
from tests.making import make_run, rows_of

pytest.importorskip("moto")
pytest.importorskip("obstore")
from obstore.exceptions import PermissionDeniedError, PreconditionError


@pytest.fixture(scope="module")
def server():
    """An S3 server with one bucket; whoever is asked for s3:// finds it by the environment, as on a cluster."""
    from moto.server import ThreadedMotoServer

    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        port = it.getsockname()[1]
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    moto.start()
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    import boto3

    boto3.client("s3").create_bucket(Bucket="bucket")
    yield moto
    moto.stop()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture
def place(server, request):
    return "s3://bucket/runs/" + re.sub(r"[^a-z0-9]+", "-", request.node.name)


@pytest.fixture
def run(place):
    return make_run(place, 12, methods={"llm": {"entities": "llm", "relations": "llm"}})


def commit_all(run, token, status=Status.OK):
    for shard in run.remaining("llm"):
        assert run.commit(shard, rows_of(run, shard, status), token)


def test_a_run_is_made_resumed_and_verified(run, place):
    with driver_lock(run.store, "test") as token:
        assert run.commit(Shard("llm", 0, 4), rows_of(run, Shard("llm", 0, 4)), token)
        again = Run(place)
        assert again.remaining("llm") == [Shard("llm", 4, 8), Shard("llm", 8, 12)]
        again.clean()
        again.refuse_faults(["llm"])
        commit_all(again, token)
    found = verify(Run(place))
    assert (found.passed, found.rows, found.files) == (True, {"llm": 12}, 3)
    (status,) = run_status(Run(place)).methods
    assert (status.done, status.statuses, status.faults) == (12, {"ok": 12}, [])
    assert run.files("llm")[0] == f"{place}/extractions/llm/000000000-000000004.parquet"


class Broken(io.BytesIO):
    """A file that cannot be read to its end: the upload breaks off in the middle."""

    def read(self, *arguments):
        if self.tell() > 0:
            raise OSError("the line is down")
        return super().read(100)


@pytest.mark.parametrize("size", [1_000, 20_000_000])
def test_an_upload_that_breaks_off_leaves_nothing(run, size):
    with pytest.raises((OSError, WorkError)):
        run.store._put("extractions/llm/000000000-000000004.parquet", Broken(bytes(size)))
    assert run.committed("llm") == []
    assert not run.store.exists("extractions/llm/000000000-000000004.parquet")


def test_a_store_that_is_gone_is_told_as_such(run, server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("kgscale.store.CLIENT_OPTIONS", {"allow_http": True, "timeout": "1s", "connect_timeout": "1s"})
    monkeypatch.setattr("kgscale.store.RETRIES", {"max_retries": 0})
    gone = Store(run.store.uri)
    with pytest.raises(WorkError, match="cannot write"):
        gone.write("x", b"1")


def test_damage_is_found_named_and_repaired(run, place):
    with driver_lock(run.store, "test") as token:
        commit_all(run, token)
    name = Shard("llm", 4, 8).file
    whole = run.store.read(name)
    run.store.write(name, whole[:400] + bytes([whole[400] ^ 1]) + whole[401:])
    found = verify(Run(place))
    assert [problem.where for problem in found.problems if problem.damaged] == [name]
    assert set_aside(Run(place), found, "test") == [name]
    assert Run(place).remaining("llm") == [Shard("llm", 4, 8)]
    assert run.store.exists("damaged/llm/000000004-000000008.parquet")
    with driver_lock(run.store, "test") as token:
        commit_all(Run(place), token)
    assert verify(Run(place)).passed


def test_failed_rows_are_tried_again(run, place):
    with driver_lock(run.store, "test") as token:
        commit_all(run, token, Status.FAILED)
        assert failed_shards(run, "llm") == [Shard("llm", 0, 4), Shard("llm", 4, 8), Shard("llm", 8, 12)]
        shard = Shard("llm", 4, 8)
        run.commit(shard, rows_of(run, shard), token, retry=True)
        assert fold(run) == 1
    assert [row.status for row in run.read_rows(Shard("llm", 0, 12))] == ["failed"] * 4 + ["ok"] * 4 + ["failed"] * 4
    assert verify(Run(place)).passed


def test_the_second_driver_is_refused_and_told_who_holds_the_run(run):
    with driver_lock(run.store, "kgscale run demo.yaml") as token:
        assert f"process {os.getpid()}" in current_driver(run.store)
        refusal = f"another driver works on this run: process {os.getpid()}"
        with pytest.raises(UserError, match=refusal) as caught, driver_lock(run.store, "second"):
            pass
        assert "`kgscale run demo.yaml`" in str(caught.value)
        assert holds(run.store, token)
    assert current_driver(run.store) is None
    assert not holds(run.store, token), "a worker that outlived its driver commits nothing"
    with driver_lock(run.store, "next") as token:
        assert holds(run.store, token)


def test_a_damaged_lock_object_is_told_as_such(run):
    run.store.write(LOCK_FILE, b"[1]")
    assert current_driver(run.store) == "unknown (its lock is damaged)"
    with pytest.raises(UserError, match="another driver works on this run: unknown"), driver_lock(run.store, "second"):
        pass


def test_the_lock_of_a_killed_driver_ends_and_its_workers_may_no_longer_commit(run, monkeypatch):
    monkeypatch.setattr(leases, "LEASE_S", 2.0)
    run.store.write(
        LOCK_FILE, json.dumps({"token": "old", "host": "h", "pid": 7, "command": "c", "since": "s"}).encode()
    )
    with pytest.raises(UserError, match="process 7 on h"), driver_lock(run.store, "too early"):
        pass
    time.sleep(3.1)
    assert held_by(run.store, LOCK_FILE) is None
    with driver_lock(run.store, "next") as token:
        assert run.commit(Shard("llm", 0, 4), rows_of(run, Shard("llm", 0, 4)), token)
        assert not run.commit(Shard("llm", 4, 8), rows_of(run, Shard("llm", 4, 8)), "old")
    assert run.committed("llm") == [(0, 4)]


def test_a_lease_is_renewed_for_as_long_as_its_driver_lives(run, monkeypatch):
    monkeypatch.setattr(leases, "LEASE_S", 2.5)
    monkeypatch.setattr(leases, "RENEW_S", 0.3)
    with driver_lock(run.store, "first") as token:
        time.sleep(4)
        with pytest.raises(UserError), driver_lock(run.store, "second"):
            pass
        assert holds(run.store, token)


def test_a_lease_outlives_a_store_that_does_not_answer_for_a_while(run, monkeypatch):
    monkeypatch.setattr(leases, "LEASE_S", 3.0)
    monkeypatch.setattr(leases, "RENEW_S", 0.2)
    read, failed = leases._read, []

    def silent(*_arguments, **_options):
        failed.append(1)
        raise StoreError("cannot be reached")

    def lost(*_arguments, **_options):
        raise PreconditionError("written by another, or so it seems: the answer was lost")

    with driver_lock(run.store, "first") as token:
        with monkeypatch.context() as patch:
            patch.setattr(leases, "_read", silent)
            patch.setattr("obstore.put", lost)
            time.sleep(1)
        assert failed
        time.sleep(4)
        assert read(run.store.objects, LOCK_FILE)[0]["token"] == token
        assert held_by(run.store, LOCK_FILE) is not None, "renewed again since"


def test_who_may_only_read_sees_who_holds_the_run(run, monkeypatch):
    def refused(*_arguments, **_options):
        raise PermissionDeniedError("read only")

    with driver_lock(run.store, "kgscale run demo.yaml"), monkeypatch.context() as patch:
        patch.setattr("obstore.put", refused)
        assert "`kgscale run demo.yaml`" in current_driver(run.store)


def test_of_many_drivers_at_once_one_holds_the_run(run):
    held, refused = [], []
    gate, done = threading.Barrier(5), threading.Event()

    def drive(number):
        gate.wait()
        try:
            with driver_lock(run.store, str(number)) as token:
                held.append(token)
                done.wait(30)
        except UserError:
            refused.append(number)

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 30
    while len(held) + len(refused) < 5 and time.monotonic() < until:
        time.sleep(0.05)
    done.set()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 4)


def test_the_event_log_is_written_when_asked_and_at_the_end(run):
    def written():
        return [json.loads(line)["event"] for line in run.store.read("events.jsonl").decode().splitlines()]

    for name in ("first", "second"):
        log = EventLog(run.store)
        log(name)
        log.close()
    assert written() == ["first", "second"]
    log = EventLog(run.store)
    log("predicted")
    log.save()
    log("done")
    assert written() == ["first", "second", "predicted"], "a driver that is killed now has said so much"
    log.close()
    assert written() == ["first", "second", "predicted", "done"]


@pytest.mark.parametrize("address", ["s3://key:secret@bucket/run", "s3://bucket/run?endpoint_override=x"])
def test_an_address_with_secrets_or_settings_is_refused(address):
    with pytest.raises(UserError, match="holds no settings and no keys") as caught:
        Store(address)
    assert "secret" not in str(caught.value)

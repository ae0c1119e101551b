"""Files are written whole or not at all, whatever happens in the middle."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from kgscale.errors import UserError, WorkError
from kgscale.records import CHUNK_SCHEMA
from kgscale.store import Store

TABLE = pa.table({"a": list(range(1000))})


def everything(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_what_is_written_can_be_read(tmp_path):
    store = Store(tmp_path / "run")
    store.write("a/b.txt", b"one")
    store.write("a/b.txt", b"two")
    store.write_table("a/t.parquet", TABLE, {"kgscale.stamp": "s"})
    assert store.read("a/b.txt") == b"two"
    assert store.names("a") == ["b.txt", "t.parquet"]
    assert store.folders("") == ["a"]
    assert store.parquet("a/t.parquet").read().equals(TABLE)
    assert store.parquet("a/t.parquet").schema_arrow.metadata[b"kgscale.stamp"] == b"s"
    assert (store.names("none"), store.folders("none"), store.exists("none")) == ([], [], False)
    store.delete("a/b.txt")
    store.delete("a/b.txt")
    assert everything(tmp_path) == ["t.parquet"]


@pytest.mark.parametrize("place", ["", "file://"])
def test_a_path_and_its_address_are_the_same_place(tmp_path, place):
    store = Store(f"{place}{tmp_path}/run")
    store.write("x", b"1")
    assert (tmp_path / "run" / "x").read_bytes() == b"1"
    assert store.url("x") == str(tmp_path / "run" / "x")


def test_a_place_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot open nowhere://x"):
        Store("nowhere://x")
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "run")
    assert not store.exists("run.json")
    with pytest.raises(WorkError, match="cannot write"):
        store.write("run.json", b"")


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk is full"),
        (errno.EACCES, "not allowed to write here"),
        (errno.EROFS, "not allowed to write here"),
        (errno.EIO, "cannot write"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_a_failed_write_is_told_and_leaves_what_was_there(tmp_path, monkeypatch, number, told, call):
    store = Store(tmp_path)
    store.write("x", b"before")

    def fail(*_arguments, **_options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace"), "open": (Path, "open")}[call], fail)
    with pytest.raises(WorkError, match=told) as caught:
        store.write("x", b"after")
    monkeypatch.undo()
    assert caught.value.where == str(tmp_path / "x")
    assert store.read("x") == b"before"
    assert everything(tmp_path) == ["x"]


def test_an_error_in_the_middle_of_a_table_leaves_nothing(tmp_path):
    store = Store(tmp_path)
    half = TABLE.schema.append(pa.field("b", pa.int64()))
    with store.table_writer("good.parquet", TABLE.schema) as writer:
        writer.write_table(TABLE)
    with pytest.raises(ValueError, match="schema"), store.table_writer("bad.parquet", half) as writer:
        writer.write_table(TABLE)
    assert everything(tmp_path) == ["good.parquet"]


def test_a_table_that_outgrows_the_disk_leaves_nothing(tmp_path):
    code = (
        "import resource, signal, sys, os, pyarrow as pa\n"
        "from kgscale.store import Store\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "Store(sys.argv[1]).write_table('x.parquet', pa.table({'a': [os.urandom(100) for _ in range(1000)]}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"StoreError: {tmp_path}/x.parquet: cannot write: [Errno 27] File too large" in done.stderr
    assert everything(tmp_path) == []


def test_a_file_that_is_being_written_does_not_count(tmp_path):
    store = Store(tmp_path)
    with store.table_writer("a/x.parquet", CHUNK_SCHEMA):
        assert len(everything(tmp_path)) == 1
        assert store.names("a") == []
        assert not store.exists("a/x.parquet")
    assert store.names("a") == ["x.parquet"]


def test_killed_in_the_middle_of_many_writes(tmp_path):
    code = (
        "import sys, itertools, pyarrow as pa\n"
        "from kgscale.store import Store\n"
        "store, table = Store(sys.argv[1]), pa.table({'a': list(range(1000))})\n"
        "for at in itertools.count():\n"
        "    store.write_table(f'a/{at}.parquet', table)\n"
        "    print(at, flush=True)\n"
    )
    store = Store(tmp_path)
    for delay in (0.0, 0.003, 0.011):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        told = [int(process.stdout.readline()) for _ in range(5)][-1]
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        told = max([told, *map(int, process.stdout.read().split())])
        process.wait()
        names = store.names("a")
        assert {f"{at}.parquet" for at in range(told + 1)} <= set(names)
        assert all(store.parquet(f"a/{name}").read().equals(TABLE) for name in names)
    (tmp_path / "a" / ".9.parquet.1-ab.tmp").write_bytes(b"half")
    assert store.clean("a") >= 1
    assert everything(tmp_path) == sorted(store.names("a"))


class Gone:
    def get_file_info(self, _what):
        raise OSError("no route\nto the store")


def test_a_store_that_does_not_answer_is_told_as_such(tmp_path):
    store = Store(tmp_path)
    store._fs = Gone()
    for look in (store.names, store.folders, store.exists, store.size, store.modified_s, store.delete, store.clean):
        with pytest.raises(WorkError, match=r"x: cannot be reached: no route to the store"):
            look("x")

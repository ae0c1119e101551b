"""`verify` finds whatever is missing, doubled, foreign or damaged in a run directory."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgscale.errors import UserError
from kgscale.lock import driver_lock
from kgscale.records import GOLD_SCHEMA, to_table
from kgscale.repair import set_aside
from kgscale.runs import Run, Shard
from kgscale.status import run_status
from kgscale.verify import verify
from tests.making import make_run, rows_of


@pytest.fixture
def run(tmp_path):
    """A whole run of 12 chunks in shards of 4."""
    run = make_run(tmp_path / "run", 12)
    with driver_lock(run.store, "test") as token:
        for method in run.methods:
            for shard in run.remaining(method):
                run.commit(shard, rows_of(run, shard), token)
    return run


def path(run, method="llm", start=4, stop=8):
    return run.store.path(Shard(method, start, stop).file)


def named_as_damaged(folder):
    try:
        return {it.where for it in verify(Run(folder)).problems if it.damaged}
    except UserError as error:
        return {str(error.where).removeprefix(f"{folder}/")}


def told(run):
    return [str(it) for it in verify(run).problems]


def rewrite(run, change=lambda table: table, *, metadata=None, target=(4, 8)):
    """Write one shard file again, changed, with the right stamp unless another is given."""
    table = change(pq.read_table(path(run))).replace_schema_metadata(None)
    metadata = metadata or {"kgscale.method": "llm", "kgscale.stamp": run.method_stamp("llm")}
    run.store.write_table(Shard("llm", *target).file, table, metadata)


def replaced(column, value):
    def change(table):
        at = table.schema.get_field_index(column)
        return table.set_column(at, table.schema.field(at), pa.array(value, table.schema.field(at).type))

    return change


def test_a_whole_run_passes(run):
    found = verify(run)
    assert found.passed
    assert (found.chunks, found.rows, found.files) == (12, dict.fromkeys(run.methods, 12), 9)
    rewrite(run)
    assert verify(run).passed, "the other tests change a file that was good"


def test_missing_rows(run):
    run.store.delete(Shard("llm", 4, 8).file)
    assert told(run) == ["llm: 4 of 12 rows are missing: 4-8"]
    assert verify(run).rows["llm"] == 8


def test_an_unfinished_run_says_how_much(tmp_path):
    assert told(make_run(tmp_path, 40, shard=4))[0] == "gliner: 40 of 40 rows are missing: 0-40"


def test_rows_that_are_there_twice(run):
    with driver_lock(run.store, "test") as token:
        run.commit(Shard("llm", 6, 10), rows_of(run, Shard("llm", 6, 10)), token)
        run.commit(Shard("llm", 0, 12), rows_of(run, Shard("llm", 0, 12)), token)
    assert told(run) == [
        "llm: rows 0-4 are there twice",
        "llm: rows 4-8 are there twice",
        "llm: rows 6-10 are there twice",
        "llm: rows 8-12 are there twice",
    ]


FILE = "extractions/llm/000000004-000000008.parquet"
DAMAGES = {
    "wrong stamp": ({"metadata": {"kgscale.stamp": "s0-llm"}}, f"{FILE}: was made under another fingerprint"),
    "wrong ids": (
        {"change": replaced("chunk_id", ["c4", "c5", "c7", "c6"])},
        f"{FILE}: its chunk ids are not those of the corpus",
    ),
    "rows of another method": (
        {"change": replaced("method", ["llm", "llm", "llm", "gliner"])},
        f"{FILE}: holds rows of another method than llm",
    ),
    "an unknown status": (
        {"change": replaced("status", ["ok", "ok", "fine", "ok"])},
        f"{FILE}: holds an unknown status: fine",
    ),
    "too few rows": ({"change": lambda it: it.slice(0, 3)}, f"{FILE}: holds other rows than 4-8"),
    "a row twice": ({"change": lambda it: pa.concat_tables([it, it])}, f"{FILE}: holds other rows than 4-8"),
    "rows in another order": ({"change": lambda it: it.take([1, 0, 2, 3])}, f"{FILE}: holds other rows than 4-8"),
    "a missing column": ({"change": lambda it: it.drop_columns(["raw"])}, f"{FILE}: its columns are not those"),
    "rows beyond the corpus": (
        {"change": replaced("row", [12, 13, 14, 15]), "target": (12, 16)},
        "extractions/llm/000000012-000000016.parquet: goes beyond the corpus of 12 chunks",
    ),
    "a name that promises other rows": (
        {"target": (8, 12)},
        "extractions/llm/000000008-000000012.parquet: holds other rows than 8-12",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_file_that_is_not_what_it_says(run, name):
    change, problem = DAMAGES[name]
    rewrite(run, **change)
    assert any(line.startswith(problem) for line in told(run)), told(run)
    assert not verify(run).passed


@pytest.mark.parametrize("length", [0, 3, 100, -1])
def test_a_truncated_file(run, length):
    whole = run.store.read(FILE)
    run.store.write(FILE, whole[:length])
    first, second = told(run)
    assert first.startswith(f"{FILE}: cannot be read: ")
    assert second == "llm: 4 of 12 rows are missing: 4-8"


def test_foreign_files_and_folders(run):
    run.store.write("extractions/llm/notes.txt", b"")
    run.store.write("extractions/llm/0-4.parquet", run.store.read(FILE))
    run.store.write("extractions/old/x", b"")
    assert told(run) == [
        "extractions/llm/0-4.parquet: is no shard file (its name is no row range)",
        "extractions/llm/notes.txt: is no shard file (its name is no row range)",
        "extractions/old: belongs to no method of this run",
    ]


def test_what_a_killed_worker_left_is_no_problem(run):
    run.store.write("extractions/llm/.000000004-000000008.parquet.7-ab.tmp", b"half")
    assert verify(run).passed


@pytest.mark.parametrize("damage", [b"", b"PAR1", None])
def test_a_corpus_that_cannot_be_read(run, damage):
    if damage is None:
        run.store.delete("chunks.parquet")
    else:
        run.store.write("chunks.parquet", damage)
    (line,) = told(Run(run.store.uri))
    assert line.startswith("chunks.parquet: cannot be read: ")


def test_a_corpus_with_other_columns(run):
    pq.write_table(pa.table({"a": [1]}), run.store.path("chunks.parquet"))
    assert told(Run(run.store.uri)) == ["chunks.parquet: its columns are not those of a corpus"]


@pytest.mark.parametrize("name", ["extractions/llm/000000000-000000004.parquet", "chunks.parquet", "gold.parquet"])
def test_a_flipped_bit_is_found_wherever_it_is(tmp_path, name):
    methods = {"llm": {"entities": "llm", "relations": "llm"}}
    run = make_run(tmp_path, [f"Text {at}: {'Ada ' * at}" for at in range(4)], methods=methods)
    with driver_lock(run.store, "test") as token:
        run.commit(Shard("llm", 0, 4), rows_of(run, Shard("llm", 0, 4)), token)
    run.store.write_table("gold.parquet", to_table([], GOLD_SCHEMA))
    assert verify(run).passed
    whole = run.store.read(name)
    rng = random.Random(0)
    for at in rng.sample(range(len(whole)), 300):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << rng.randrange(8)
        run.store.write(name, bytes(flipped))
        assert name in named_as_damaged(tmp_path), f"byte {at}"


def test_good_rows_of_another_version_are_named_and_not_set_aside(run):
    rewrite(
        run,
        metadata={"kgscale.method": "llm", "kgscale.stamp": run.method_stamp("llm"), "kgscale.schema": "another"},
    )
    found = verify(run)
    assert "another version of kgscale" in str(found.problems[0])
    assert set_aside(run, found, "test") == []
    assert len(run.committed("llm")) == 3


def test_a_shard_of_another_corpus_with_the_same_ids(run, tmp_path):
    """Two corpora may have the same ids and configs, and other texts."""
    info = json.loads(run.store.read("run.json"))
    other = Run.create(
        run.store.uri, run.config, {**info, "fingerprint": {**run.fingerprint, "corpus": {"sha256": "1"}}}
    )
    shard = Shard("llm", 4, 8)
    other.write(shard, other.table(shard.file))
    found = verify(run)
    assert [str(it) for it in found.problems if it.damaged] == [f"{shard.file}: holds rows of another corpus"]
    assert run.fault(shard, quick=True) == run.fault(shard) == "holds rows of another corpus"


@pytest.mark.parametrize("place", ["stamp", "config", "hash"])
def test_a_flipped_byte_in_run_json_disowns_no_file(run, place):
    info = json.loads(run.store.read("run.json"))
    if place == "stamp":
        info["fingerprint"]["methods"]["llm"]["stamp"] = "s1-llo"
    elif place == "hash":
        info["rha256"] = info.pop("sha256")
    else:
        info["config"]["seed"] = 1
    run.store.write("run.json", json.dumps(info).encode())
    found = verify(Run(run.store.uri))
    assert [it.where for it in found.problems] == ["run.json"]
    with pytest.raises(UserError, match=r"run\.json"):
        set_aside(run, found, "test")
    assert len(run.committed("llm")) == 3


def test_whatever_byte_of_a_footer_flips_nothing_but_a_problem_comes_of_it(run):
    """Names and key-value pairs of a footer are text, until a bit of it flips."""
    shard = Shard("llm", 4, 8)
    whole = run.store.read(shard.file)
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    found = set()
    for at in random.Random(0).sample(range(footer, len(whole)), 600):
        run.store.write(shard.file, whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        problems = verify(run).problems
        assert shard.file in {it.where for it in problems if it.damaged}
        found |= {it.where for it in problems}
        run.fault(shard)
        run_status(run)
    assert found == {shard.file, "llm"}

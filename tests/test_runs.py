"""The run directory: what is committed and what remains always make up the plan."""

import json
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.errors import UserError
from kgscale.lock import driver_lock
from kgscale.records import EXTRACTION_SCHEMA, Entity, Extraction, Relation, Status, extraction_from, to_table
from kgscale.runs import Run, Shard, gaps, range_of
from kgscale.store import Store
from tests.making import make_chunks, make_run, rows_of

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda it: (it[0], it[0] + it[1])), max_size=8)


@given(st.integers(0, 30), st.integers(0, 20), RANGES)
def test_gaps_are_what_a_set_says(start, length, done):
    stop = start + length
    found = gaps(start, stop, done)
    covered = {row for first, last in done for row in range(first, last)}
    assert [row for first, last in found for row in range(first, last)] == [
        row for row in range(start, stop) if row not in covered
    ]
    assert all(before[1] < after[0] for before, after in pairwise(found))
    assert all(first < last for first, last in found)


@given(st.integers(0, 10**9), st.integers(2, 10**6))
def test_halves_and_names(start, rows):
    shard = Shard("m", start, start + rows)
    first, second = shard.halves()
    assert (first.start, first.stop, second.stop) == (shard.start, second.start, shard.stop)
    assert min(first.rows, second.rows) >= 1
    assert range_of(shard.file.rsplit("/", 1)[1]) == (shard.start, shard.stop)


@pytest.mark.parametrize(
    "name",
    [
        "0-5.parquet",
        "0000000000-0000000005.parquet",
        "000000000-000000005.parquet.bak",
        "000000000-000000005.csv",
        "000000005-000000005.parquet",
        "000000009-000000005.parquet",
        "x.parquet",
        "-.parquet",
        "²-³.parquet",
        "\u0660" * 9 + "-" + "\u0660" * 8 + "\u0665.parquet",
    ],
)
def test_other_names_are_no_shards(name):
    assert range_of(name) is None


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 9))
def test_planned_is_committed_and_remaining(tmp_path_factory, seed, rows, shard):
    rng = random.Random(seed)
    run = make_run(tmp_path_factory.mktemp("run"), rows, shard=shard)
    with driver_lock(run.store, "test") as token:
        for _ in range(6):
            remaining = run.remaining("gliner")
            done = run.committed("gliner")
            assert gaps(0, rows, [*done, *((it.start, it.stop) for it in remaining)]) == []
            assert sum(last - first for first, last in done) + sum(it.rows for it in remaining) == rows
            for it in remaining:
                assert any(first <= it.start < it.stop <= last for first, last in run.planned)
                assert not run.is_committed(it)
            if not remaining:
                break
            it = rng.choice(remaining)
            while it.rows > 1 and rng.random() < 0.5:
                it = rng.choice(it.halves())
            assert run.commit(it, rows_of(run, it), token)
            assert run.is_committed(it)
            assert [row.row for row in run.read_rows(it)] == list(range(it.start, it.stop))
    again = Run(run.store.uri)
    assert (again.committed("gliner"), again.remaining("gliner")) == (run.committed("gliner"), run.remaining("gliner"))


def test_a_shard_is_committed_when_its_pieces_are(tmp_path):
    run = make_run(tmp_path, 4)
    whole = Shard("llm", 0, 4)
    with driver_lock(run.store, "test") as token:
        for half in whole.halves():
            assert not run.is_committed(whole)
            run.commit(half, rows_of(run, half), token)
    assert run.is_committed(whole)
    assert run.remaining("llm") == []
    assert [it.rsplit("/", 1)[1] for it in run.files("llm")] == [
        "000000000-000000002.parquet",
        "000000002-000000004.parquet",
    ]
    assert [row.chunk_id for row in run.read_rows(Shard("llm", 1, 3))] == ["c1", "c2"]


@pytest.mark.parametrize(
    "change",
    [lambda it: it[:-1], lambda it: [*it, it[-1]], lambda it: it[::-1], lambda it: [it[0]] * len(it), lambda _: []],
)
def test_a_commit_needs_one_row_per_chunk_in_order(tmp_path, change):
    run = make_run(tmp_path, 8)
    shard = Shard("llm", 4, 8)
    with driver_lock(run.store, "test") as token, pytest.raises(ValueError, match="one row per chunk"):
        run.commit(shard, change(rows_of(run, shard)), token)
    assert run.committed("llm") == []


def test_a_commit_needs_the_token_of_the_driver(tmp_path):
    run = make_run(tmp_path, 4)
    shard = Shard("llm", 0, 4)
    with driver_lock(run.store, "old") as old:
        pass
    with driver_lock(run.store, "new") as new:
        assert not run.commit(shard, rows_of(run, shard), old)
        assert run.committed("llm") == []
        assert run.commit(shard, rows_of(run, shard), new)


def test_a_shard_without_any_relation_keeps_the_types_of_its_columns(tmp_path):
    run = make_run(tmp_path, 4)
    shard = Shard("llm", 0, 4)
    bare = [Extraction(it.chunk_id, it.row, it.doc_id, "llm", Status.OK) for it in run.read_chunks(0, 4)]
    with driver_lock(run.store, "test") as token:
        run.commit(shard, bare, token)
    file = run.store.parquet(shard.file)
    assert file.schema_arrow.equals(EXTRACTION_SCHEMA)
    assert file.schema_arrow.metadata[b"kgscale.stamp"] == b"s1-llm"
    assert run.read_rows(shard) == bare


NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@given(NAMES, st.lists(NAMES), st.sampled_from(Status), st.none() | NAMES, st.none() | st.floats(0, 1, width=32))
def test_a_row_survives_the_trip_through_a_table(text, names, status, error, score):
    row = Extraction(
        "c", 0, "d", "m", status, error=error, raw=text, prompt_tokens=3,
        entities=[Entity(name, "t", 0, 1, score) for name in names],
        relations=[Relation(name, text, "r", score) for name in names],
    )  # fmt: skip
    (back,) = to_table([row], EXTRACTION_SCHEMA).to_pylist()
    assert extraction_from(back) == row


def test_chunks_are_read_by_row_range(tmp_path):
    texts = [f"text {row} 中文 😀\n" for row in range(10)]
    run = make_run(tmp_path, texts, shard=3)
    assert run.planned == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert run.shard_words == [12, 12, 12, 4]
    for start in range(10):
        for stop in range(start, 11):
            assert run.read_chunks(start, stop) == make_chunks(texts)[start:stop]


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="is not a run directory"):
        Run(tmp_path / "none")
    assert not Run.exists(tmp_path / "none")
    run = make_run(tmp_path, 1)
    good = run.store.read("run.json")
    for damaged in (good[:-10], b"", b"[]", b'{"config": {}}', json.dumps({"config": 3}).encode()):
        run.store.write("run.json", damaged)
        with pytest.raises(UserError, match=re.escape("run.json is damaged")):
            Run(tmp_path)


def test_clean_removes_what_killed_writers_left(tmp_path):
    run = make_run(tmp_path, 4)
    shard = Shard("llm", 0, 4)
    with driver_lock(run.store, "test") as token:
        run.commit(shard, rows_of(run, shard), token)
    left = [tmp_path / ".run.json.7-ab.tmp", tmp_path / "extractions" / "llm" / ".000000000-000000004.parquet.7-ab.tmp"]
    for path in left:
        path.write_bytes(b"half")
    assert run.committed("llm") == [(0, 4)]
    run.clean()
    assert not any(path.exists() for path in left)
    assert Store(tmp_path).names("extractions/llm") == ["000000000-000000004.parquet"]

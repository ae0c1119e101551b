"""Failed rows are tried again without touching a good one, whatever is killed in between; damaged files are redone."""

import json
import random
from contextlib import suppress
from dataclasses import replace

import pytest

from kgscale.errors import UserError
from kgscale.extract.directory import Driven, Retried
from kgscale.extract.drive import Drive, Policy
from kgscale.extract.methods import Step
from kgscale.extract.placement import Pool
from kgscale.extract.prompt import Task
from kgscale.extract.workers import WorkerSpec, _commit, _to_do
from kgscale.formats import prepare_gold
from kgscale.lock import driver_lock
from kgscale.records import Entity, Status
from kgscale.repair import set_aside
from kgscale.retries import BAD, current_rows, failed_shards, fold, is_retried
from kgscale.runs import Run
from kgscale.score.scorer import score_run
from kgscale.shards import Shard
from kgscale.store import Store
from kgscale.verify import verify
from tests.extract.simulated_run import SimulatedRun
from tests.extract.simulated_world import CALM, World
from tests.extract.simulator import SimulatedCluster
from tests.making import make_run, rows_of

METHODS = {"llm": {"entities": "llm", "relations": "llm"}}
STEPS = {"llm": Step("llm", "llm", Task.BOTH)}
AGAIN = Entity("Again", "person", 0, 3, 0.5)


def broken_run(folder, seed=0, rows=24, shard=8):
    """A whole run, in pieces here and there, in which some rows are failed or dead."""
    rng = random.Random(seed)
    run = make_run(folder, rows, shard=shard, methods=METHODS)
    with driver_lock(run.store, "test") as token:
        for planned in run.remaining("llm"):
            for piece in planned.halves() if rng.random() < 0.4 else (planned,):
                statuses = [rng.choice([Status.OK, Status.OK, Status.TRUNCATED, *BAD]) for _ in range(piece.rows)]
                rows_ = [replace(row, status=it) for row, it in zip(rows_of(run, piece), statuses, strict=True)]
                assert run.commit(piece, rows_, token)
    return run


def everything(run):
    return run.read_rows(Shard("llm", 0, run.rows))


class Killed(BaseException):
    pass


class RetryingCluster(SimulatedCluster):
    """Workers that try again for real what they are given: every answer is good this time."""

    def __init__(self, run, token, rng, faults=CALM):
        simulated = SimulatedRun(run.rows, 8, rng)
        super().__init__(simulated, faults, World(rng), {"llm": 2}, token=0)
        self._real, self._spec = run, WorkerSpec(run.store.uri, "llm", token, retry=True)

    def _act(self, commit, step):
        if step == "publish":
            chunks, kept = _to_do(self._real, commit.shard, retry=True)
            done = [
                replace(row, entities=[AGAIN])
                for chunk in chunks
                for row in rows_of(self._real, Shard("llm", chunk.row, chunk.row + 1))
            ]
            _commit(self._real, commit.shard, kept, done, 1, self._spec)
        else:
            super()._act(commit, step)


def retry(run, seed, observe=lambda *_a, **_f: None, faults=CALM):
    with driver_lock(run.store, "test") as token:
        run.clean()
        fold(run)
        cluster = RetryingCluster(run, token, random.Random(seed), faults)
        Drive(STEPS, [Pool("llm")], Retried(run, token), cluster, Policy(), observe).run()
        fold(run)


@pytest.mark.parametrize("seed", range(8))
def test_bad_rows_are_done_anew_and_good_ones_stay_as_they_are(tmp_path, seed):
    run = broken_run(tmp_path, seed)
    before, files = everything(run), run.committed("llm")
    assert any(row.status in BAD for row in before)
    retry(run, seed)
    for old, new in zip(before, everything(run), strict=True):
        if old.status in BAD:
            assert (new.status, [it.text for it in new.entities]) == (Status.OK, ["Again"])
        else:
            assert new == old
    assert run.committed("llm") == files
    assert verify(Run(tmp_path)).passed
    assert failed_shards(run, "llm") == []
    assert run.store.names("retries/llm") == []


@pytest.mark.parametrize("seed", range(12))
def test_a_driver_killed_in_between_loses_nothing(tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    run = broken_run(tmp_path, seed)
    good = {row.row: row for row in everything(run) if row.status not in BAD}
    for _ in range(6):
        left = rng.randint(0, 12)

        def may_go_on():
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        def counted(original):
            def write(self, *arguments, **options):
                may_go_on()
                original(self, *arguments, **options)
                may_go_on()

            return write

        with monkeypatch.context() as patch:
            patch.setattr(Store, "write_table", counted(Store.write_table))
            patch.setattr(Store, "delete", counted(Store.delete))
            with suppress(Killed):
                retry(run, seed)
        found = {row.row: row for row in everything(Run(tmp_path))}
        assert all(found[at] == row for at, row in good.items())
        assert verify(Run(tmp_path)).passed
    retry(run, seed)
    assert all(row.status not in BAD for row in everything(run))


def test_a_row_that_fails_again_is_tried_once_and_stays_bad(tmp_path):
    run = make_run(tmp_path, 4, methods=METHODS)
    with driver_lock(run.store, "test") as token:
        rows = [
            replace(row, status=Status.DEAD if row.row == 2 else Status.OK) for row in rows_of(run, Shard("llm", 0, 4))
        ]
        run.commit(Shard("llm", 0, 4), rows, token)
        directory = Retried(run, token)
        (shard,) = directory.remaining("llm")
        assert shard == Shard("llm", 2, 3)
        directory.commit_lost(shard, Status.DEAD, "worker died: again", 2)
        assert directory.remaining("llm") == []
        assert is_retried(run, shard)
        assert Driven(run, token).remaining("llm") == []
        fold(run)
    assert [row.error for row in everything(run)] == [None, None, "worker died: again", None]
    assert failed_shards(run, "llm") == [shard]


def test_a_good_row_among_bad_ones_survives_a_worker_that_dies_of_it(tmp_path):
    run = make_run(tmp_path, 4, methods=METHODS)
    with driver_lock(run.store, "test") as token:
        run.commit(Shard("llm", 0, 4), rows_of(run, Shard("llm", 0, 4)), token)
        Retried(run, token).commit_lost(Shard("llm", 1, 2), Status.DEAD, "worker died: why", 2)
        fold(run)
    assert {row.status for row in everything(run)} == {Status.OK}


def test_what_builds_on_entities_sees_those_that_were_found_at_the_second_try(tmp_path):
    run = broken_run(tmp_path)
    (first, *_) = failed_shards(run, "llm")
    with driver_lock(run.store, "test") as token:
        new = [replace(row, status=Status.OK, entities=[AGAIN]) for row in rows_of(run, first)]
        run.commit(first, new, token, retry=True)
    assert [row.entities for row in current_rows(run, first)] == [[AGAIN]] * first.rows
    assert everything(run) == everything(Run(tmp_path)), "until they are folded in, the committed rows stay"


def damaged(run, name, how):
    if how == "missing":
        run.store.delete(name)
    else:
        data = run.store.read(name)
        other = run.store.read(Shard("llm", 0, 8).file)
        column = run.store.parquet(name).metadata.row_group(0).column(0)
        # The last byte of the first column's page; a flip in what nobody reads would change nothing.
        at = column.dictionary_page_offset + column.total_compressed_size - 1
        flipped = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
        run.store.write(name, {"flipped": flipped, "truncated": data[:at], "foreign": other, "empty": b""}[how])


@pytest.mark.parametrize("how", ["flipped", "truncated", "foreign", "empty", "missing"])
def test_bit_rot_is_found_named_and_repaired_by_its_shard_alone(tmp_path, how):
    run = make_run(tmp_path, 24, shard=8, methods=METHODS)
    with driver_lock(run.store, "test") as token:
        for shard in run.remaining("llm"):
            run.commit(shard, rows_of(run, shard), token)
    whole = everything(run)
    hurt = Shard("llm", 8, 16)
    damaged(run, hurt.file, how)
    found = verify(Run(tmp_path))
    assert not found.passed
    assert [it.where for it in found.problems if it.damaged] == ([] if how == "missing" else [hurt.file])
    assert any("8 of 24 rows are missing: 8-16" in str(it) for it in found.problems)
    if how != "missing":
        if how != "flipped":
            with pytest.raises(UserError, match=r"verify --repair"):
                run.refuse_faults(["llm"])
        set_aside(run, found, "test")
        assert run.store.names("damaged/llm") == [hurt.file.rsplit("/", 1)[1]]
    assert Run(tmp_path).remaining("llm") == [hurt]
    with driver_lock(run.store, "test") as token:
        run.commit(hurt, rows_of(run, hurt), token)
    assert verify(Run(tmp_path)).passed
    assert everything(run) == whole


def test_a_damaged_corpus_is_nothing_to_repair(tmp_path):
    run = broken_run(tmp_path)
    run.store.write("chunks.parquet", b"PAR1")
    with pytest.raises(UserError, match=r"chunks\.parquet"):
        set_aside(run, verify(Run(tmp_path)), "test")
    assert run.committed("llm")


@pytest.mark.parametrize("how", ["flipped", "truncated", "foreign", "empty"])
@pytest.mark.parametrize("name", ["gold.parquet", "scores/per_chunk.parquet"])
def test_gold_and_scores_are_looked_at_and_made_anew(tmp_path, name, how):
    """Of what the config names and of what scoring writes there is always more."""
    gold = tmp_path / "gold.json"
    gold.write_text(json.dumps({"chunks": [{"chunk_id": "c0", "entities": [{"text": "Ada", "type": "person"}]}]}))
    run = make_run(tmp_path / "run", 8, shard=8, methods=METHODS, gold=str(gold))
    with driver_lock(run.store, "test") as token:
        run.commit(Shard("llm", 0, 8), rows_of(run, Shard("llm", 0, 8)), token)

    def make():
        prepare_gold(str(gold), run.store, exhaustive=True)
        score_run(run)

    make()
    assert verify(run).passed
    whole = run.store.parquet(name).read()
    damaged(run, name, how)
    found = verify(Run(run.store.uri))
    # Another whole table in the place of a score is read, and is written over by the next scoring.
    seen = (name, how) != ("scores/per_chunk.parquet", "foreign")
    assert [it.where for it in found.problems] == ([name] if seen else [])
    set_aside(run, found, "test")
    make()
    assert verify(Run(run.store.uri)).passed
    assert run.store.parquet(name).read().equals(whole)


def test_gold_that_no_config_names_is_not_thrown_away(tmp_path):
    run = broken_run(tmp_path)
    run.store.write("gold.parquet", b"PAR1")
    with pytest.raises(UserError, match=r"gold\.parquet"):
        set_aside(run, verify(run), "test")
    assert run.store.exists("gold.parquet")


def test_nothing_is_set_aside_while_a_driver_works(tmp_path):
    run = broken_run(tmp_path)
    run.store.write(Shard("llm", 0, 8).file, b"")
    with driver_lock(run.store, "first"), pytest.raises(UserError, match="another driver"):
        set_aside(run, verify(run), "second")


def test_doubled_rows_go_and_no_row_with_them(tmp_path):
    run = make_run(tmp_path, 16, shard=16, methods=METHODS)
    with driver_lock(run.store, "test") as token:
        for shard in (Shard("llm", 0, 8), Shard("llm", 8, 12), Shard("llm", 12, 16), Shard("llm", 0, 16)):
            run.commit(shard, rows_of(run, shard), token)
        run.drop_doubles("llm")
    assert run.committed("llm") == [(0, 16)]
    assert verify(run).passed


@pytest.mark.parametrize("how", ["truncated", "foreign"])
def test_rot_among_what_was_tried_again_is_named_and_set_aside(tmp_path, how):
    """A driver that was stopped leaves such files, and the next one is to fold them in."""
    run = broken_run(tmp_path)
    before = everything(run)
    (first, *_) = failed_shards(run, "llm")
    with driver_lock(run.store, "test") as token:
        run.commit(first, [replace(row, status=Status.OK) for row in rows_of(run, first)], token, retry=True)
    assert verify(run).passed
    table = run.store.parquet(first.retry_file).read()
    if how == "truncated":
        run.store.write(first.retry_file, run.store.read(first.retry_file)[:-9])
    else:
        run.store.write_table(first.retry_file, table, {"kgscale.stamp": "of another run"})
    with pytest.raises(UserError, match=r"(?s)retries/llm/.*verify --repair"):
        fold(run)
    found = verify(run)
    assert [it.where for it in found.problems] == [first.retry_file]
    assert set_aside(run, found, "test") == [first.retry_file]
    fold(run)
    assert everything(run) == before
    assert verify(run).passed


def test_a_file_that_was_folded_says_of_itself_what_it_is(tmp_path):
    run = broken_run(tmp_path, seed=2)
    retry(run, 2)
    for span in run.committed("llm"):
        assert run.fault(Shard("llm", *span)) is None

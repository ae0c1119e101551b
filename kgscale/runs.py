"""The run directory: its corpus, its shards, what is committed and what remains."""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgscale.config import Config
from kgscale.errors import UserError
from kgscale.footer import content_hash, fault, footer, quick_fault
from kgscale.lock import holds
from kgscale.records import CHUNK_SCHEMA, EXTRACTION_SCHEMA, Chunk, Extraction, extraction_from, to_table
from kgscale.shards import (
    EXTRACTIONS,
    RETRIES,
    Range,
    Shard,
    doubled,
    gaps,
    range_of,
    ranges_of,
    remaining_shards,
)
from kgscale.store import MEND, Store

RUN_FILE = "run.json"
CHUNKS_FILE = "chunks.parquet"
GOLD_FILE = "gold.parquet"
EVENTS_FILE = "events.jsonl"
__all__ = [
    "CHUNKS_FILE",
    "EVENTS_FILE",
    "EXTRACTIONS",
    "GOLD_FILE",
    "MEND",
    "RUN_FILE",
    "Range",
    "Run",
    "Shard",
    "corpus_file",
    "gaps",
    "planned_ranges",
    "range_of",
    "words_per_shard",
    "write_chunks",
]


class Run:
    """A run directory that exists; `Run.create` makes one."""

    def __init__(self, path: str | Path) -> None:
        self.store = Store(path)
        if not self.store.exists(RUN_FILE):
            raise UserError(
                f"{self.store.uri} is not a run directory (it has no {RUN_FILE})",
                hint="name the directory that `kgscale run` printed, or start a run with `kgscale run CONFIG`",
            )
        try:
            self.info: dict[str, Any] = json.loads(self.store.read(RUN_FILE))
            self.config = Config.model_validate(self.info["config"])
            self._stamps = {name: str(it["stamp"]) for name, it in self.info["fingerprint"]["methods"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{RUN_FILE} is damaged: {error}", where=self.store.uri) from None

    @classmethod
    def create(cls, path: str | Path, config: Config, info: dict[str, Any]) -> "Run":
        """Write `run.json` over whatever was there; `info` holds the fingerprint, versions and hardware."""
        store = Store(path)
        record = {
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            **info,
            "config": config.model_dump(mode="json", by_alias=True),
        }
        record["sha256"] = content_hash(record)
        store.write(RUN_FILE, json.dumps(record, indent=2, ensure_ascii=False).encode())
        return cls(path)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Whether there is a run at this path."""
        return Store(path).exists(RUN_FILE)

    @property
    def changed_by_others(self) -> bool:
        """Whether `run.json` is not as kgscale wrote it: a byte of a fingerprint disowns every file."""
        return self.info.get("sha256") != content_hash(self.info)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What the committed rows depend on, by part: `corpus`, and one entry per method."""
        return dict(self.info["fingerprint"])

    @property
    def corpus_sha256(self) -> str | None:
        """The hash of the corpus; null for a run that was made without one."""
        corpus = self.fingerprint.get("corpus")
        return corpus.get("sha256") if isinstance(corpus, dict) else corpus

    def method_stamp(self, method: str) -> str:
        """The short form of a method's fingerprint, as its committed files carry it."""
        return self._stamps[method]

    def footer(self, shard: Shard) -> dict[str, str]:
        """What the file of a shard says of itself."""
        return footer(shard, self.method_stamp(shard.method), self.corpus_sha256)

    @cached_property
    def planned(self) -> list[Range]:
        """The row range of each shard, as the row groups of the corpus file give it."""
        return _group_ranges(self._corpus_metadata)

    @cached_property
    def _corpus_metadata(self) -> Any:
        """Read once: of a corpus of ten million chunks it has dozens of MiB."""
        return corpus_file(self.store).metadata

    @property
    def rows(self) -> int:
        """How many chunks the corpus has."""
        return self.planned[-1][1] if self.planned else 0

    @cached_property
    def shard_words(self) -> list[int]:
        """The number of words in each planned shard, for ordering and estimates."""
        return words_per_shard(self.store)

    @property
    def methods(self) -> list[str]:
        """The methods that this run's fingerprint names."""
        return list(self.fingerprint["methods"])

    def committed(self, method: str) -> list[Range]:
        """The row ranges that have a finished file, sorted; other files in the folder are not counted here."""
        return ranges_of(self.store.names(f"{EXTRACTIONS}/{method}"))

    def remaining(self, method: str) -> list[Shard]:
        """What is left to do: the planned ranges minus the committed ones, cut at the planned borders."""
        return remaining_shards(method, self.planned, self.committed(method))

    def is_committed(self, shard: Shard) -> bool:
        """Whether every row of the shard is in a finished file."""
        return self.store.exists(shard.file) or not gaps(shard.start, shard.stop, self.committed(shard.method))

    def plan_of(self, row: int) -> int:
        """The number of the planned shard that holds a row."""
        return bisect_right(self.planned, (row, self.rows)) - 1

    def read_chunks(self, start: int, stop: int) -> list[Chunk]:
        """The chunks of a row range, in order."""
        with self.store.reading(CHUNKS_FILE):
            return [Chunk(**row) for table in self.chunk_tables(start, stop) for row in table.to_pylist()]

    def chunk_ids(self, start: int, stop: int) -> list[str]:
        """The ids of the chunks of a row range, in order."""
        tables = self.chunk_tables(start, stop, ["chunk_id"])
        return [chunk_id for table in tables for chunk_id in table["chunk_id"].to_pylist()]

    def chunk_tables(self, start: int, stop: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """The chunks of a row range, a table per planned shard, in order; all columns for null."""
        file = self.store.parquet(CHUNKS_FILE, metadata=self._corpus_metadata)
        group = max(0, self.plan_of(start))
        while group < len(self.planned) and self.planned[group][0] < stop:
            first, last = self.planned[group]
            length = min(last, stop) - max(first, start)
            if length > 0:
                yield file.read_row_group(group, columns=columns).slice(max(0, start - first), length)
            group += 1

    def read_rows(self, shard: Shard) -> list[Extraction]:
        """The committed extractions of a shard's rows, in order, from whichever files hold them."""
        rows: dict[int, Extraction] = {}
        for first, last in self._holders(shard):
            if first < shard.stop and last > shard.start:
                table = self.table(Shard(shard.method, first, last).file)
                rows.update({row["row"]: extraction_from(row) for row in table.to_pylist()})
        return [rows[row] for row in range(shard.start, shard.stop)]

    def table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        """A file's rows (all columns for null); raises `StoreError` that names the file."""
        with self.store.reading(name):
            table = self.store.parquet(name).read(columns=columns)
            if set(columns or ()) <= set(table.column_names):
                return table
            raise pa.ArrowInvalid(f"a name in its footer is damaged: it has the columns {table.column_names}")

    def _holders(self, shard: Shard) -> list[Range]:
        """Ranges of files that hold a shard's rows; only where they are in pieces is the whole folder listed."""
        for span in ((shard.start, shard.stop), self.planned[self.plan_of(shard.start)]):
            whole = Shard(shard.method, *span)
            if whole.start <= shard.start and shard.stop <= whole.stop and self.store.exists(whole.file):
                return [span]
        return self.committed(shard.method)

    def files(self, method: str) -> list[str]:
        """The addresses of a method's committed files, in row order."""
        return [self.store.url(Shard(method, first, last).file) for first, last in self.committed(method)]

    def commit(self, shard: Shard, rows: list[Extraction], token: str, *, retry: bool = False) -> bool:
        """Make a shard's rows final; false, and nothing written, if `token` no longer holds the run.

        With `retry` they are put beside the committed ones, until the driver folds them in. Raises `ValueError` unless
        there is exactly one row per chunk of the shard, in order.
        """
        if [row.row for row in rows] != list(range(shard.start, shard.stop)):
            raise ValueError(f"shard {shard} needs one row per chunk, got {len(rows)} rows")
        if not holds(self.store, token):
            return False
        self.write(shard, to_table(rows, EXTRACTION_SCHEMA), shard.retry_file if retry else shard.file)
        return True

    def write(self, shard: Shard, table: pa.Table, name: str | None = None) -> None:
        """Write a shard's table, signed, whole or not at all; under the name of its committed file by default."""
        self.store.write_table(name or shard.file, table, self.footer(shard))

    def fault(self, shard: Shard, name: str | None = None, *, quick: bool = False) -> str | None:
        """What is wrong with a shard's file (by default the committed one), as its footer tells; `quick` for many."""
        look = quick_fault if quick else fault
        return look(self.store, name or shard.file, shard, self.footer(shard))

    def refuse_faults(self, methods: Iterable[str]) -> None:
        """Raise `UserError` if a committed file of these methods is not what its name says."""
        for method in methods:
            look = partial(self.fault, quick=True)
            shards = [Shard(method, start, stop) for start, stop in self.committed(method)]
            for shard, wrong in zip(shards, self.store.each(look, shards), strict=True):
                if wrong is not None:
                    raise UserError(wrong, where=self.store.url(shard.file), hint=MEND)

    def drop_doubles(self, method: str) -> None:
        """Remove files whose rows are in others too, as a worker that was given up and lived on may leave them.

        Only the driver that holds the run may, when none of its workers is at work.
        """
        for start, stop in doubled(self.committed(method)):
            self.store.delete(Shard(method, start, stop).file)

    def clean(self) -> None:
        """Remove what killed workers left half-written; only the driver that holds the run may."""
        for room in (EXTRACTIONS, RETRIES):
            for method in self.store.folders(room):
                self.store.clean(f"{room}/{method}")
        self.store.clean("")


def corpus_file(store: Store) -> pq.ParquetFile:
    """Open a run's corpus; raises `UserError` if it is missing or damaged."""
    try:
        return store.parquet(CHUNKS_FILE)
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"the run's corpus is missing or damaged: {error}",
            where=store.url(CHUNKS_FILE),
            hint="without it the rows cannot be told apart: start a fresh run with --new-run",
        ) from None


def planned_ranges(store: Store) -> list[Range]:
    """The row range of each shard of a corpus file."""
    return _group_ranges(corpus_file(store).metadata)


def _group_ranges(metadata: Any) -> list[Range]:
    ranges, at = [], 0
    for group in range(metadata.num_row_groups):
        ranges.append((at, at + metadata.row_group(group).num_rows))
        at = ranges[-1][1]
    return ranges


def words_per_shard(store: Store) -> list[int]:
    """The number of words in each shard of a corpus file."""
    file = corpus_file(store)
    starts = [start for start, _ in _group_ranges(file.metadata)]
    words = file.read(columns=["words"])["words"].to_numpy()
    return [int(it) for it in np.add.reduceat(words, starts, dtype=np.int64)] if starts else []


def write_chunks(store: Store, chunks: Iterable[Chunk], shard_chunks: int) -> int:
    """Write the corpus with one row group per shard; returns the number of chunks."""
    rest, count = iter(chunks), 0
    with store.table_writer(CHUNKS_FILE, CHUNK_SCHEMA) as writer:
        while batch := list(islice(rest, shard_chunks)):
            table: pa.Table = to_table(batch, CHUNK_SCHEMA)
            writer.write_table(table, row_group_size=len(batch))
            count += len(batch)
    return count

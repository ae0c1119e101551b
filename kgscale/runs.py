"""The run directory: its corpus, its shards, what is committed and what remains."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgscale.config import Config
from kgscale.errors import UserError
from kgscale.lock import holds
from kgscale.records import CHUNK_SCHEMA, EXTRACTION_SCHEMA, Chunk, Extraction, extraction_from, to_table
from kgscale.store import Store

RUN_FILE = "run.json"
CHUNKS_FILE = "chunks.parquet"
GOLD_FILE = "gold.parquet"
EVENTS_FILE = "events.jsonl"
EXTRACTIONS = "extractions"

_SHARD_NAME = re.compile(r"([0-9]{9,18})-([0-9]{9,18})\.parquet")

MEND = "delete the file and run the same command again: only its rows are done anew (`kgscale verify` checks all files)"

Range = tuple[int, int]


@dataclass(frozen=True, order=True, slots=True)
class Shard:
    """A row range of the corpus for one method, `stop` exclusive: the unit of work, of commit and of resume."""

    method: str
    start: int
    stop: int

    @property
    def file(self) -> str:
        """The name of its committed file in the run directory."""
        return f"{EXTRACTIONS}/{self.method}/{self.start:09d}-{self.stop:09d}.parquet"

    @property
    def rows(self) -> int:
        """How many chunks it holds."""
        return self.stop - self.start

    def halves(self) -> tuple["Shard", "Shard"]:
        """Two shards that share its rows; it must hold at least two."""
        middle = (self.start + self.stop) // 2
        return Shard(self.method, self.start, middle), Shard(self.method, middle, self.stop)

    def __str__(self) -> str:
        return f"{self.method} {self.start}-{self.stop}"


def gaps(start: int, stop: int, done: Iterable[Range]) -> list[Range]:
    """What of `[start, stop)` the ranges in `done` leave open; they may overlap and come in any order."""
    left, at = [], start
    for first, last in sorted(done):
        if last <= at or first >= stop:
            continue
        if first > at:
            left.append((at, first))
        at = max(at, last)
    if at < stop:
        left.append((at, stop))
    return left


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
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{RUN_FILE} is damaged: {error}", where=self.store.uri) from None

    @classmethod
    def create(cls, path: str | Path, config: Config, info: dict[str, Any]) -> "Run":
        """Write `run.json` over whatever was there; `info` holds the fingerprint, versions and hardware."""
        store = Store(path)
        record = {
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "config": config.model_dump(mode="json", by_alias=True),
            **info,
        }
        store.write(RUN_FILE, json.dumps(record, indent=2, ensure_ascii=False).encode())
        return cls(path)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Whether there is a run at this path."""
        return Store(path).exists(RUN_FILE)

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
        return str(self.fingerprint["methods"][method]["stamp"])

    @cached_property
    def planned(self) -> list[Range]:
        """The row range of each shard, as the row groups of the corpus file give it."""
        return planned_ranges(self.store)

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
        ranges = (range_of(name) for name in self.store.names(f"{EXTRACTIONS}/{method}"))
        return sorted(it for it in ranges if it is not None)

    def remaining(self, method: str) -> list[Shard]:
        """What is left to do: the planned ranges minus the committed ones, cut at the planned borders."""
        done = self.committed(method)
        open_ranges = gaps(0, self.rows, done)
        starts = [first for first, _ in self.planned]
        shards = []
        for first, last in open_ranges:
            at = first
            while at < last:
                border = self.planned[bisect_right(starts, at) - 1][1]
                shards.append(Shard(method, at, min(last, border)))
                at = border
        return shards

    def is_committed(self, shard: Shard) -> bool:
        """Whether every row of the shard is in a finished file."""
        return self.store.exists(shard.file) or not gaps(shard.start, shard.stop, self.committed(shard.method))

    def read_chunks(self, start: int, stop: int) -> list[Chunk]:
        """The chunks of a row range, in order."""
        file = self.store.parquet(CHUNKS_FILE)
        wanted: list[Chunk] = []
        for group, (first, last) in enumerate(self.planned):
            if first < stop and last > start:
                table = file.read_row_group(group).slice(max(0, start - first), min(last, stop) - max(first, start))
                wanted.extend(Chunk(**row) for row in table.to_pylist())
        return wanted

    def read_rows(self, shard: Shard) -> list[Extraction]:
        """The committed extractions of a shard's rows, in order, from whichever files hold them."""
        rows: dict[int, Extraction] = {}
        for first, last in self.committed(shard.method):
            if first < shard.stop and last > shard.start:
                table = self.store.parquet(Shard(shard.method, first, last).file).read()
                rows.update({row["row"]: extraction_from(row) for row in table.to_pylist()})
        return [rows[row] for row in range(shard.start, shard.stop)]

    def files(self, method: str) -> list[str]:
        """The addresses of a method's committed files, in row order."""
        return [self.store.url(Shard(method, first, last).file) for first, last in self.committed(method)]

    def commit(self, shard: Shard, rows: list[Extraction], token: str) -> bool:
        """Make a shard's rows final; false, and nothing written, if `token` no longer holds the run.

        Raises `ValueError` unless there is exactly one row per chunk of the shard, in order.
        """
        if [row.row for row in rows] != list(range(shard.start, shard.stop)):
            raise ValueError(f"shard {shard} needs one row per chunk, got {len(rows)} rows")
        if not holds(self.store, token):
            return False
        self.store.write_table(shard.file, to_table(rows, EXTRACTION_SCHEMA), self.footer(shard))
        return True

    def footer(self, shard: Shard) -> dict[str, str]:
        """What a committed file says of itself in its footer."""
        return {
            "kgscale.method": shard.method,
            "kgscale.rows": f"{shard.start}-{shard.stop}",
            "kgscale.stamp": self.method_stamp(shard.method),
        }

    def fault(self, shard: Shard) -> str | None:
        """What is wrong with a committed file as far as its footer tells, which is cheap; null if nothing."""
        try:
            file = self.store.parquet(shard.file)
        except (OSError, pa.ArrowException) as error:
            return f"cannot be read: {error}"
        said = {key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()}
        if not file.schema_arrow.equals(EXTRACTION_SCHEMA):
            return "its columns are not those of an extraction"
        if said.get("kgscale.method") != shard.method:
            return f"holds rows of another method than {shard.method}"
        if said.get("kgscale.stamp") != self.method_stamp(shard.method):
            return "was made under another fingerprint"
        rows = f"{shard.start}-{shard.stop}"
        if file.metadata.num_rows != shard.rows or said.get("kgscale.rows", rows) != rows:
            return f"holds other rows than {rows}"
        return None

    def refuse_faults(self, methods: Iterable[str]) -> None:
        """Raise `UserError` if a committed file of these methods is not what its name says."""
        for method in methods:
            for start, stop in self.committed(method):
                shard = Shard(method, start, stop)
                fault = self.fault(shard)
                if fault is not None:
                    raise UserError(fault, where=self.store.url(shard.file), hint=MEND)

    def clean(self) -> None:
        """Remove what killed workers left half-written; only the driver that holds the run may."""
        for method in self.store.folders(EXTRACTIONS):
            self.store.clean(f"{EXTRACTIONS}/{method}")
        self.store.clean("")


def range_of(name: str) -> Range | None:
    """The row range in a committed file's name, or null if it is no such name."""
    match = _SHARD_NAME.fullmatch(name)
    if match is None:
        return None
    shard = Shard("", int(match[1]), int(match[2]))
    # Only the spelling that `Shard.file` gives: any other file would count as committed and never be found.
    return (shard.start, shard.stop) if shard.rows > 0 and shard.file.endswith(f"/{name}") else None


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
    metadata = corpus_file(store).metadata
    ranges, at = [], 0
    for group in range(metadata.num_row_groups):
        ranges.append((at, at + metadata.row_group(group).num_rows))
        at = ranges[-1][1]
    return ranges


def words_per_shard(store: Store) -> list[int]:
    """The number of words in each shard of a corpus file."""
    file = corpus_file(store)
    groups = range(file.metadata.num_row_groups)
    return [pc.sum(file.read_row_group(group, columns=["words"])["words"]).as_py() for group in groups]


def write_chunks(store: Store, chunks: Iterable[Chunk], shard_chunks: int) -> int:
    """Write the corpus with one row group per shard; returns the number of chunks."""
    count = 0
    with store.table_writer(CHUNKS_FILE, CHUNK_SCHEMA) as writer:
        for batch in _batches(chunks, shard_chunks):
            table: pa.Table = to_table(batch, CHUNK_SCHEMA)
            writer.write_table(table, row_group_size=len(batch))
            count += len(batch)
    return count


def _batches(chunks: Iterable[Chunk], size: int) -> Iterator[list[Chunk]]:
    batch: list[Chunk] = []
    for chunk in chunks:
        batch.append(chunk)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch

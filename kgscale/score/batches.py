"""Reading a run a few shards at a time: memory is bounded by a batch, never by the corpus."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import polars as pl
import pyarrow as pa

from kgscale.errors import UserError
from kgscale.records import CHUNK_SCHEMA, EXTRACTION_SCHEMA
from kgscale.runs import CHUNKS_FILE, MEND, Range, Run, Shard, corpus_file

BATCH_CHUNKS = 4_096
"""Chunks that are scored at once: enough to make the work per query large, about 100 MB at 100 items per chunk."""
GROUPS = 2_048
"""Shards whose chunk ids are looked through at once: half a million chunks, about 50 MB."""
THREADS = 3
"""Batches that are scored side by side: one reads while others count. Polars has threads of its own."""
COLUMNS = [
    *("row", "status", "error", "entities", "relations", "relations_left_out", "entities_by"),
    *("service_ms", "queue_ms", "batch_ms", "batch_size", "prompt_tokens", "cached_tokens", "output_tokens"),
]
"""What scoring reads of an extraction."""
T = TypeVar("T")


def batches(run: Run, size: int = BATCH_CHUNKS) -> Iterator[Range]:
    """Row ranges that tile the corpus, cut at shard borders, of at most `size` chunks where shards allow."""
    start = 0
    for first, last in run.planned:
        if last - start > size and first > start:
            yield start, first
            start = first
    if start < run.rows:
        yield start, run.rows


def find_chunks(run: Run, ids: pl.Series) -> pl.DataFrame:
    """The chunks of the corpus that have one of these ids, without their text: row, chunk_id, doc_id, source."""
    wanted, found = ids.to_frame("chunk_id"), []
    try:
        file = corpus_file(run.store)
        for first in range(0, file.num_row_groups, GROUPS):
            groups = list(range(first, min(first + GROUPS, file.num_row_groups)))
            frame = to_frame(file.read_row_groups(groups, ["row", "chunk_id", "doc_id", "source"]))
            found.append(frame.join(wanted, on="chunk_id", how="semi", maintain_order="left"))
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"damaged: {error}", where=run.store.url(CHUNKS_FILE)) from None
    empty = to_frame(CHUNK_SCHEMA.empty_table()).select("row", "chunk_id", "doc_id", "source")
    return pl.concat([empty, *found])


def in_threads(work: Callable[[Range], T], ranges: Iterable[Range]) -> Iterator[T]:
    """Do the work of `THREADS` ranges at a time, and give what it finds in the order of the ranges."""
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            yield from pool.map(work, ranges)
        finally:
            pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class Extractions:
    """The committed rows of one method, as they stood when scoring began."""

    run: Run
    method: str
    pieces: tuple[tuple[Shard, Range], ...]
    """Which rows to take from which file, in order: where files overlap, each row is taken once."""

    @classmethod
    def of(cls, run: Run, method: str) -> "Extractions":
        """List a method's finished files."""
        pieces: list[tuple[Shard, Range]] = []
        reach = 0
        for first, last in run.committed(method):
            # Files are in the order of their first rows, so what is taken before is taken up to one row.
            if last > reach:
                pieces.append((Shard(method, first, last), (max(first, reach), last)))
                reach = last
        return cls(run, method, tuple(pieces))

    @property
    def rows(self) -> int:
        """How many chunks have a row."""
        return sum(stop - start for _, (start, stop) in self.pieces)

    def read(self, start: int, stop: int) -> pl.DataFrame:
        """The rows of a row range, with `COLUMNS`; raises `UserError` where a file is not what its name says."""
        tables = [EXTRACTION_SCHEMA.empty_table().select(COLUMNS)]
        for shard, (first, last) in self.between(start, stop):
            tables.append(self._file(shard).slice(first - shard.start, last - first))
        return to_frame(pa.concat_tables(tables))

    def between(self, start: int, stop: int) -> Iterator[tuple[Shard, Range]]:
        """The pieces of a row range."""
        at = bisect_right(self.pieces, start, key=lambda piece: piece[1][1])
        while at < len(self.pieces) and self.pieces[at][1][0] < stop:
            shard, (first, last) = self.pieces[at]
            yield shard, (max(first, start), min(last, stop))
            at += 1

    def _file(self, shard: Shard) -> pa.Table:
        where = self.run.store.url(shard.file)
        fault = self.run.fault(shard)
        if fault is not None:
            raise UserError(fault, where=where, hint=MEND)
        try:
            return self.run.store.parquet(shard.file).read(COLUMNS).select(COLUMNS)
        except (OSError, pa.ArrowException, KeyError) as error:
            raise UserError(f"damaged: {error}", where=where, hint=MEND) from None


def to_frame(table: pa.Table) -> pl.DataFrame:
    """An Arrow table as a Polars frame, without a copy where possible."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame

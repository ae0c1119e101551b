"""Trying failed rows again: what there is to try, and how the new rows take the place of the old ones.

A worker writes the rows of a retried shard (the good ones copied, the bad ones done anew) to a file of its own beside
the committed ones. The driver, who alone may, folds such files into the committed ones, each of which is rewritten
whole. A driver that dies in between leaves both, and the next one folds what it finds.
"""

import pyarrow as pa
import pyarrow.compute as pc

from kgscale.errors import UserError
from kgscale.records import Extraction, Status, extraction_from
from kgscale.runs import MEND, Run
from kgscale.shards import RETRIES, Range, Shard, doubled, gaps, ranges_of

BAD = (Status.FAILED, Status.DEAD)


def failed_shards(run: Run, method: str) -> list[Shard]:
    """For each planned shard with failed or dead rows, the shortest range that holds them all."""
    found: dict[int, Range] = {}
    for span in run.committed(method):
        for row in _bad_rows(run, Shard(method, *span)):
            plan = run.plan_of(row)
            first, last = found.get(plan, (row, row + 1))
            found[plan] = (min(first, row), max(last, row + 1))
    return [Shard(method, *found[plan]) for plan in sorted(found)]


def retried(run: Run, method: str) -> list[Range]:
    """The row ranges that have been tried again and are not folded in yet."""
    return ranges_of(run.store.names(f"{RETRIES}/{method}"))


def is_retried(run: Run, shard: Shard) -> bool:
    """Whether every row of the shard has been tried again and is not folded in yet."""
    return run.store.exists(shard.retry_file) or not gaps(shard.start, shard.stop, retried(run, shard.method))


def current_rows(run: Run, shard: Shard) -> list[Extraction]:
    """The extractions of a shard's rows, in order: those that were tried again in place of the committed ones."""
    rows = {row.row: row for row in run.read_rows(shard)}
    for first, last in retried(run, shard.method):
        if first < shard.stop and last > shard.start:
            table = run.table(Shard(shard.method, first, last).retry_file)
            rows |= {row["row"]: extraction_from(row) for row in table.to_pylist()}
    return [rows[row] for row in range(shard.start, shard.stop)]


def fold(run: Run) -> int:
    """Put the rows that were tried again in the place of the old ones; returns the number of files rewritten.

    The caller holds the run's lock, and no worker is at work. Raises `UserError` for a file that is not what it should
    be.
    """
    rewritten = 0
    for method in run.store.folders(RETRIES):
        ranges = retried(run, method)
        twice = doubled(ranges)
        news = [span for span in ranges if span not in twice] if method in run.methods else []
        for span in news:
            file = Shard(method, *span).retry_file
            if (wrong := run.fault(Shard(method, *span), file)) is not None:
                raise UserError(wrong, where=run.store.url(file), hint=MEND)
        for span in run.committed(method) if news else ():
            shard = Shard(method, *span)
            inside = [it for it in news if it[0] < shard.stop and it[1] > shard.start]
            if inside:
                run.write(shard, _folded(run, shard, inside))
                rewritten += 1
        # Only now that every row is in its place.
        for span in ranges:
            run.store.delete(Shard(method, *span).retry_file)
    return rewritten


def _folded(run: Run, shard: Shard, news: list[Range]) -> pa.Table:
    """A committed table with the rows of some retried ranges in the place of its own."""
    old = run.table(shard.file)
    parts = [old.slice(start - shard.start, stop - start) for start, stop in gaps(shard.start, shard.stop, news)]
    for first, last in news:
        start, stop = max(first, shard.start), min(last, shard.stop)
        parts.append(run.table(Shard(shard.method, first, last).retry_file).slice(start - first, stop - start))
    return pa.concat_tables(parts).sort_by("row")


def _bad_rows(run: Run, shard: Shard) -> list[int]:
    table = run.table(shard.file, ["row", "status"])
    bad = pc.is_in(table["status"], pa.array([str(it) for it in BAD]))
    return [int(row) for row in table.filter(bad)["row"].to_pylist()]

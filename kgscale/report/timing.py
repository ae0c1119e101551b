"""One pass over the committed rows without their entities: how times are spread, and which chunks had trouble."""

from collections import Counter
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from kgscale.records import Status
from kgscale.runs import Run
from kgscale.score.batches import Extractions, to_frame
from kgscale.score.latency import AMORTISED
from kgscale.score.results import Latency, Timing

BINS_PER_DECADE = 16
LOWEST_MS = 0.1
"""What is shorter is counted here: it is no wait that anybody would feel, and a logarithm needs an end."""
_COLUMNS = ["row", "status", "service_ms", "queue_ms", "batch_ms", "batch_size", "device"]
_KINDS = ("service", "queue", "amortised")


@dataclass(frozen=True, slots=True)
class Histogram:
    """How one of the three times is spread; bins are equal on a logarithmic scale."""

    method: str
    kind: str
    """`service`, `queue` or `amortised`."""
    rows: int
    edges: tuple[float, ...]
    """In milliseconds; one more than counts."""
    counts: tuple[int, ...]
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class MethodScan:
    """What the pass over one method's rows found."""

    method: str
    histograms: tuple[Histogram, ...]
    troubled: tuple[int, ...]
    """Rows of chunks whose status is not `ok`, the worst status first, at most as many as asked for."""
    devices: tuple[str, ...]


def scan_method(run: Run, method: str, latency: Latency, most_troubled: int) -> MethodScan:
    """Read a method's times and statuses, file by file."""
    counts: dict[str, Counter[int]] = {kind: Counter() for kind in _KINDS}
    troubled: dict[str, list[int]] = {it: [] for it in (Status.DEAD, Status.FAILED, Status.TRUNCATED)}
    devices = set[str]()
    for shard, (first, last) in Extractions.of(run, method).pieces:
        table: pa.Table = run.store.parquet(shard.file).read(_COLUMNS)
        frame = to_frame(table.slice(first - shard.start, last - first))
        times = frame.select(service="service_ms", queue="queue_ms", amortised=AMORTISED)
        for kind in _KINDS:
            counts[kind].update(dict(_binned(times[kind]).iter_rows()))
        devices.update(frame["device"].drop_nulls().unique())
        for status, rows in troubled.items():
            if len(rows) < most_troubled:
                rows.extend(frame.filter(pl.col("status") == status)["row"].to_list())
    summaries = (latency.service, latency.queue, latency.amortised)
    histograms = (_histogram(method, kind, counts[kind], it) for kind, it in zip(_KINDS, summaries, strict=True))
    in_order = [row for rows in troubled.values() for row in rows]
    known = tuple(it for it in histograms if it is not None)
    return MethodScan(method, known, tuple(in_order[:most_troubled]), tuple(sorted(devices)))


def _binned(ms: pl.Series) -> pl.DataFrame:
    known = ms.drop_nulls().drop_nans().to_frame("ms")
    number = (pl.col("ms").clip(LOWEST_MS).log10() * BINS_PER_DECADE).floor().cast(pl.Int64)
    return known.group_by(number.alias("bin")).len()


def _histogram(method: str, kind: str, counts: Counter[int], of: Timing) -> Histogram | None:
    if not counts:
        return None
    bins = range(min(counts), max(counts) + 1)
    edges = [10.0 ** (it / BINS_PER_DECADE) for it in (*bins, bins.stop)]
    total = sum(counts.values())
    return Histogram(method, kind, total, tuple(edges), tuple(counts[it] for it in bins), of.p50, of.p95, of.p99)

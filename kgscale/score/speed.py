"""How many times faster the candidate is, and how sure that is."""

from math import exp, sqrt

import numpy as np
import polars as pl

from kgscale.runs import Run
from kgscale.score.batches import Extractions, batches, to_frame
from kgscale.score.bootstrap import Numbers
from kgscale.score.latency import AMORTISED
from kgscale.score.results import Interval, MethodScores
from kgscale.score.verdict import SpeedUp

FEWEST_SHARDS = 5
"""With fewer, their spread says too little for an interval."""


def speed_up(baseline: MethodScores, candidate: MethodScores) -> SpeedUp | None:
    """The ratio of the mean amortised times of all rows, without an interval; null where one is unknown."""
    before, after = baseline.latency.amortised.mean, candidate.latency.amortised.mean
    return SpeedUp(before / after) if before and after else None


def shard_times(run: Run, baseline: str, candidate: str) -> Numbers:
    """The summed amortised milliseconds of both methods in each planned shard, over the chunks that both have timed."""
    starts = [start for start, _ in run.planned]
    methods = [Extractions.of(run, it) for it in (baseline, candidate)]
    parts = [pl.DataFrame(schema={"ms": pl.Float64, "ms_after": pl.Float64})]
    # No shard lies in two batches.
    for rows in batches(run):
        before, after = (_times(it, *rows) for it in methods)
        both = before.join(after, on="row", suffix="_after").drop_nulls().sort("row")
        shard = pl.Series("shard", np.searchsorted(starts, both["row"].to_numpy(), side="right"))
        summed = both.with_columns(shard).group_by("shard").agg(pl.col("ms", "ms_after").sum()).sort("shard")
        parts.append(summed.select("ms", "ms_after"))
    return pl.concat(parts).to_numpy()


def ratio_interval(times: Numbers) -> Interval | None:
    """95 % interval of the ratio of two totals, whose parts in each of n shards are the columns of `times`.

    The chunks of a shard share batches and the state of the machine, so the shard is the unit: with parts b and c of a
    shard and R = sum(b) / sum(c), the standard error of R is sqrt(n / (n - 1) * sum((b - R c)^2)) / sum(c) (the ratio
    estimator: Cochran, Sampling Techniques, 3rd edition, section 6.3). The interval is R * exp(± t * error / R) with
    Student's t of n - 1 degrees of freedom: on a logarithmic scale twice as fast is as far from 1 as twice as slow.
    Null with fewer than `FEWEST_SHARDS`, or without time.
    """
    n = len(times)
    before, after = times.sum(axis=0)
    if n < FEWEST_SHARDS or not before or not after:
        return None
    ratio = before / after
    residuals = times[:, 0] - ratio * times[:, 1]
    error = sqrt(n / (n - 1) * float(residuals @ residuals)) / after
    apart = exp(student(n - 1) * error / ratio)
    return Interval(float(ratio / apart), float(ratio * apart))


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t with at least 4 degrees of freedom, to 3 digits.

    The expansion around the normal quantile: Abramowitz and Stegun, 26.7.5.
    """
    z, v = 1.959964, freedom
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(v) ** power for power, term in enumerate(terms, start=1))


def _times(of: Extractions, start: int, stop: int) -> pl.DataFrame:
    """Row and amortised ms of a method's finished rows in a row range."""
    parts = [pl.DataFrame(schema={"row": pl.Int64, "ms": pl.Float64})]
    for shard, (first, last) in of.between(start, stop):
        table = of.run.store.parquet(shard.file).read(["row", "batch_ms", "batch_size"])
        rows = to_frame(table.slice(first - shard.start, last - first))
        parts.append(rows.select("row", ms=AMORTISED.fill_nan(None)))
    return pl.concat(parts)

"""How sure a score is: intervals by resampling units with replacement, and the p-value of a difference.

Up to `MOST_UNITS` units are drawn one by one. Of more units only those with rare counts are; the sums of the others
come from the normal distribution that the central limit theorem gives them, which costs the same for any corpus.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kgscale.score.results import Interval, Resampling

REPLICATES = 10_000
TAIL = 0.025
"""Share of replicates outside a 95 % interval, on each side."""
MOST_UNITS = 2_000
"""Beyond, sums are drawn from the normal distribution: with so many units the ends of an interval move by about 1 % of
its width."""
RARE = 200
"""A count with a smaller total is not normal enough and is drawn exactly (a Poisson count of 200 has skewness 0.07)."""
BLOCK = 1_000_000
"""Drawn units that are in memory at once."""
FEWEST_DOCUMENTS = 20
"""With fewer documents their spread says too little, and chunks are resampled."""

COUNTS = ("tp", "fp", "fn")
AFTER = ("tp_after", "fp_after", "fn_after")
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Intervals:
    """95 % intervals of the micro averages; null where undefined."""

    precision: Interval | None
    recall: Interval | None
    f1: Interval | None


@dataclass(frozen=True, slots=True)
class Paired:
    """What can be said of the F1 that a candidate loses against a baseline on the same units."""

    drop: float | None
    """F1 of the baseline minus F1 of the candidate, from -1 to 1."""
    interval: Interval | None
    """95 % interval of `drop`."""
    p_value: float | None
    """Of a difference at least as large by chance, two-sided."""


def resampled(units: pl.DataFrame, seed: int) -> Numbers:
    """The sums of `REPLICATES` resamples of units, one row per resample, in the columns of `units`.

    All columns of a resample are sums over the same units. The order of the units does not matter.
    """
    return _resampled(_sorted(units), np.random.default_rng(seed))


def intervals(tp: Numbers, fp: Numbers, fn: Numbers) -> Intervals:
    """Intervals of the micro averages, by the percentiles of their replicates."""
    return Intervals(interval(ratio(tp, tp + fp)), interval(ratio(tp, tp + fn)), interval(f1(tp, fp, fn)))


def paired(units: pl.DataFrame, seed: int) -> Paired:
    """The F1 drop from baseline to candidate, whose counts of a unit are tp, fp, fn and tp_after, fp_after, fn_after.

    The interval is of the difference on the same resamples. The p-value is by approximate randomisation: under the null
    hypothesis, each unit's two answers may be swapped.
    """
    counts = _sorted(units.select(*COUNTS, *AFTER))
    rng = np.random.default_rng(seed)
    replicates = _resampled(counts, rng)
    drops = f1(*replicates[:, :3].T) - f1(*replicates[:, 3:].T)
    before, after = np.split(counts.sum(axis=0), 2)
    drop = float(f1(*before) - f1(*after))
    if np.isnan(drop):
        return Paired(None, None, None)
    both, swapped = before + after, _swapped(counts[:, :3] - counts[:, 3:], rng)
    null = f1(*((both + swapped) / 2).T) - f1(*((both - swapped) / 2).T)
    # Equal differences count as extreme, whatever the last bits of their division say.
    extreme = np.count_nonzero(np.abs(null) >= abs(drop) - 1e-12)
    return Paired(drop, interval(drops), (extreme + 1) / (REPLICATES + 1))


def units_of(chunks: pl.DataFrame) -> pl.DataFrame:
    """What to resample: row, unit, of_document.

    `chunks` has `row` and `doc_id`. The chunks of a document are not independent of each other, so the document is the
    unit where there are enough of them; a chunk without a document is a unit of its own.
    """
    enough = chunks["doc_id"].drop_nulls().n_unique() >= FEWEST_DOCUMENTS
    document = pl.col("doc_id").is_not_null() & enough
    first = pl.when(document).then(pl.col("row").min().over("doc_id")).otherwise("row")
    return chunks.select("row", unit=first, of_document=document)


def resampling(units: pl.DataFrame) -> Resampling:
    """Say what `units_of` chose."""
    documents = units["of_document"].any()
    return Resampling("document" if documents else "chunk", units["unit"].n_unique(), REPLICATES)


def by_unit(counts: pl.DataFrame, units: pl.DataFrame) -> pl.DataFrame:
    """Sum the counts of chunks (row, and any counts) within their units."""
    joined = counts.join(units.select("row", "unit"), on="row", how="inner").drop("row")
    return joined.group_by("unit").agg(pl.all().cast(pl.Int64).sum()).drop("unit")


def _sorted(units: pl.DataFrame) -> Numbers:
    return units.sort(units.columns).to_numpy().astype(np.float64)


def _resampled(units: Numbers, rng: np.random.Generator) -> Numbers:
    """The summed counts of `REPLICATES` resamples of all units."""
    if not len(units):
        return np.zeros((REPLICATES, units.shape[1]))
    if len(units) <= MOST_UNITS:
        return _drawn(units, rng)
    has_rare = units[:, units.sum(axis=0) < RARE].any(axis=1)
    rare, common = units[has_rare], units[~has_rare]
    number = rng.binomial(len(units), len(rare) / len(units), REPLICATES)
    mean = common.mean(axis=0)
    spread = rng.multivariate_normal(np.zeros_like(mean), np.cov(common.T, bias=True), REPLICATES, method="svd")
    left = (len(units) - number)[:, None]
    sums = (left * mean + np.sqrt(left) * spread).clip(min=0)
    if len(rare):
        sums += rng.multinomial(number, np.full(len(rare), 1 / len(rare))) @ rare
    return np.asarray(sums, dtype=np.float64)


def _drawn(units: Numbers, rng: np.random.Generator) -> Numbers:
    """Every resample unit by unit: how often each was drawn, times its counts."""
    number = len(units)
    sums = []
    for size in _blocks(number):
        drawn = rng.integers(0, number, (size, number)) + number * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * number).reshape(size, number)
        sums.append(times @ units)
    return np.concatenate(sums)


def _swapped(differences: Numbers, rng: np.random.Generator) -> Numbers:
    """Baseline minus candidate counts in `REPLICATES` worlds where each unit's two answers are swapped or not."""
    differences = differences[differences.any(axis=1)]
    number = len(differences)
    if number > MOST_UNITS:
        return rng.multivariate_normal(np.zeros(3), differences.T @ differences, REPLICATES, method="svd")
    kept = (rng.integers(0, 2, (size, number)) for size in _blocks(number))
    return np.concatenate([(2 * it - 1) @ differences for it in kept])


def _blocks(number: int) -> Iterator[int]:
    """How many replicates of `number` units to draw at a time."""
    size = max(BLOCK // max(number, 1), 1)
    yield from (min(size, REPLICATES - start) for start in range(0, REPLICATES, size))


def f1(tp: Numbers, fp: Numbers, fn: Numbers) -> Numbers:
    """Micro F1 of summed counts, undefined (NaN) where all are 0."""
    return ratio(2 * tp, 2 * tp + fp + fn)


def defined(figure: Numbers) -> float | None:
    """A single figure as a number, or null where it is undefined."""
    return None if np.isnan(figure[0]) else float(figure[0])


def ratio(part: Numbers, whole: Numbers) -> Numbers:
    """`part / whole`, undefined (NaN) where `whole` is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def interval(replicates: Numbers) -> Interval | None:
    """The middle 95 % of the replicates where the figure is defined."""
    if np.isnan(replicates).all():
        return None
    low, high = np.nanquantile(replicates, [TAIL, 1 - TAIL])
    return Interval(float(low), float(high))

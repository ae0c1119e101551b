"""How sure a score is: intervals by resampling, and the p-value of a difference, in the space of distinct counts.

Resampling n units with replacement is one draw from a multinomial over their distinct counts (cells), so 10,000
replicates of a million chunks cost no more than 10,000 draws of a few hundred numbers.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kgscale.score.results import Interval, Resampling

REPLICATES = 10_000
TAIL = 0.025
"""Share of replicates outside a 95 % interval, on each side."""
MOST_UNITS, MOST_CELLS = 2_000, 100
"""Beyond both, the sums are drawn from the normal distribution that the central limit theorem gives them: the same mean
and covariance at a fraction of the cost. With so many units the ends of an interval move by about 1 % of its width."""
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


@dataclass(frozen=True, slots=True)
class Cells:
    """Units grouped by their counts."""

    counts: Numbers
    """One row per distinct vector of counts."""
    units: npt.NDArray[np.int64]
    """How many units have it."""

    @classmethod
    def of(cls, units: pl.DataFrame) -> "Cells":
        """Group units by all their columns; the most frequent first, which makes a multinomial draw end early."""
        grouped = (
            units.group_by(units.columns).agg(pl.len().alias("units")).sort("units", *units.columns, descending=True)
        )
        return cls(
            grouped.select(units.columns).to_numpy().astype(np.float64), grouped["units"].to_numpy().astype(np.int64)
        )


def resampled(units: pl.DataFrame, seed: int) -> Numbers:
    """The sums of `REPLICATES` resamples of units, one row per resample, in the columns of `units`."""
    return _resampled(Cells.of(units), np.random.default_rng(seed))


def intervals(units: pl.DataFrame, seed: int) -> Intervals:
    """Intervals of the micro averages of units (tp, fp, fn), by the percentiles of `REPLICATES` resamples."""
    tp, fp, fn = resampled(units.select(COUNTS), seed).T
    return Intervals(interval(ratio(tp, tp + fp)), interval(ratio(tp, tp + fn)), interval(f1(tp, fp, fn)))


def paired(units: pl.DataFrame, seed: int) -> Paired:
    """The F1 drop from baseline to candidate, whose counts of a unit are tp, fp, fn and tp_after, fp_after, fn_after.

    The interval is of the difference on the same resamples. The p-value is by approximate randomisation: under the null
    hypothesis, each unit's two answers may be swapped.
    """
    cells = Cells.of(units.select(*COUNTS, *AFTER))
    rng = np.random.default_rng(seed)
    replicates = _resampled(cells, rng)
    drops = f1(*replicates[:, :3].T) - f1(*replicates[:, 3:].T)
    total = cells.units @ cells.counts
    drop = float(f1(*total[:3]) - f1(*total[3:]))
    if np.isnan(drop):
        return Paired(None, None, None)
    swapped = _swapped(cells, rng)
    both = total[:3] + total[3:]
    null = f1(*((both + swapped) / 2).T) - f1(*((both - swapped) / 2).T)
    # Equal differences count as extreme, whatever the last bits of their division say.
    extreme = np.count_nonzero(np.abs(null) >= abs(drop) - 1e-12)
    return Paired(drop, interval(drops), (extreme + 1) / (REPLICATES + 1))


def units_of(chunks: pl.DataFrame) -> pl.DataFrame:
    """What to resample: row, unit.

    `chunks` has `row` and `doc_id`. The chunks of a document are not independent of each other, so the document is the
    unit where there are enough of them; a chunk without a document is a unit of its own.
    """
    chunk = pl.format("chunk {}", "row")
    enough = chunks["doc_id"].drop_nulls().n_unique() >= FEWEST_DOCUMENTS
    return chunks.select("row", unit=pl.coalesce(pl.format("document {}", "doc_id"), chunk) if enough else chunk)


def resampling(units: pl.DataFrame) -> Resampling:
    """Say what `units_of` chose."""
    documents = units["unit"].str.starts_with("document").any()
    return Resampling("document" if documents else "chunk", units["unit"].n_unique(), REPLICATES)


def by_unit(counts: pl.DataFrame, units: pl.DataFrame) -> pl.DataFrame:
    """Sum the counts of chunks (row, and any counts) within their units."""
    joined = counts.join(units, on="row", how="inner").drop("row")
    return joined.group_by("unit").agg(pl.all().cast(pl.Int64).sum()).drop("unit")


def _resampled(cells: Cells, rng: np.random.Generator) -> Numbers:
    """The summed counts of `REPLICATES` resamples of all units."""
    number = int(cells.units.sum())
    if number <= MOST_UNITS or len(cells.units) <= MOST_CELLS:
        drawn = rng.multinomial(number, cells.units / number, size=REPLICATES)
        return np.asarray(drawn @ cells.counts, dtype=np.float64)
    mean = cells.units @ cells.counts / number
    centred = cells.counts - mean
    covariance = (centred * cells.units[:, None]).T @ centred
    return rng.multivariate_normal(number * mean, covariance, size=REPLICATES, method="svd").clip(min=0)


def _swapped(cells: Cells, rng: np.random.Generator) -> Numbers:
    """Baseline minus candidate counts in `REPLICATES` worlds where each unit's two answers are swapped or not."""
    differences = cells.counts[:, :3] - cells.counts[:, 3:]
    frame = pl.DataFrame(differences, schema=list(COUNTS)).with_columns(units=pl.Series(cells.units))
    grouped = (
        frame.filter(pl.any_horizontal(pl.col(COUNTS) != 0)).group_by(COUNTS).agg(pl.col("units").sum()).sort(COUNTS)
    )
    steps, units = grouped.select(COUNTS).to_numpy(), grouped["units"].to_numpy()
    if units.sum() <= MOST_UNITS or len(units) <= MOST_CELLS:
        kept = rng.binomial(units, 0.5, size=(REPLICATES, len(units)))
        return np.asarray((2 * kept - units) @ steps, dtype=np.float64)
    covariance = (steps * units[:, None]).T @ steps
    return rng.multivariate_normal(np.zeros(3), covariance, size=REPLICATES, method="svd")


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

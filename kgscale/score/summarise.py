"""From what was counted of a method to its scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from kgscale.extract.methods import finds_relations
from kgscale.runs import Run
from kgscale.score.attribution import MISSED, SPURIOUS
from kgscale.score.bootstrap import COUNTS, Numbers, by_unit, intervals, resampled
from kgscale.score.health import checks, statuses
from kgscale.score.items import USABLE
from kgscale.score.latency import latency
from kgscale.score.match import Mode, modes_for
from kgscale.score.metrics import macro, micro
from kgscale.score.reduce import Reduced
from kgscale.score.results import Count, GoldSummary, MethodScores, Metric, UnmappedLabel
from kgscale.score.spans import span_scores


@dataclass(frozen=True, slots=True)
class Basis:
    """What every method of a run is measured against."""

    wanted: int
    """How many chunks need an answer: those with gold, or the whole corpus where there is none."""
    gold: GoldSummary | None
    units: pl.DataFrame | None
    """What to resample, where there is gold: row, unit."""


def method_scores(run: Run, method: str, of: Reduced, basis: Basis) -> MethodScores:
    """Everything about one method."""
    found = checks(of.tallies, relations=finds_relations(run.config, method))
    modes = modes_for(found.carries, basis.gold.carries) if basis.gold else []
    fates = statuses(of.tallies)
    answered, usable = fates.rows, sum(getattr(fates, it) for it in USABLE)
    if basis.gold:
        answered, usable = of.tallies.select("with_gold", "usable_with_gold").row(0)
    has_causes = Mode.PAIR_TYPE in modes
    resamples = Resamples.of(of, modes, basis.units, run.config.seed) if basis.units is not None else NO_RESAMPLES
    with_spans = basis.gold is not None and basis.gold.carries.offsets and found.carries.offsets
    return MethodScores(
        method=method,
        planned=run.rows,
        statuses=fates,
        failures=tuple(Count(*it) for it in of.failures.iter_rows()),
        coverage=usable / basis.wanted if basis.wanted else None,
        without_extraction=basis.wanted - answered,
        without_gold=fates.rows - answered,
        metrics=tuple(_metric(of, mode, resamples) for mode in modes),
        spans=span_scores(resamples.totals, resamples.sums) if with_spans else (),
        missed=_causes(of, MISSED) if has_causes else (),
        spurious=_causes(of, SPURIOUS) if has_causes else (),
        checks=found,
        unmapped=tuple(UnmappedLabel(*it) for it in of.unmapped.iter_rows()),
        latency=latency(of.timings, of.tokens),
    )


@dataclass(frozen=True, slots=True)
class Resamples:
    """Every count of a method, and its sums over resamples: the same units in one resample, whatever is counted."""

    totals: Mapping[str, int]
    sums: Mapping[str, Numbers]

    @classmethod
    def of(cls, of: Reduced, modes: Sequence[Mode], units: pl.DataFrame, seed: int) -> "Resamples":
        """Resample what is counted per gold chunk: `<mode> tp` and so on, and the outcomes of mentions."""
        # Every mode, and the outcomes, have the same chunks in the same order.
        by_mode = [
            of.per_chunk.filter(pl.col("mode") == mode.value).select(pl.col(COUNTS).name.prefix(f"{mode} "))
            for mode in modes
        ]
        per_unit = by_unit(pl.concat([of.spans, *by_mode], how="horizontal"), units)
        totals = per_unit.sum().row(0, named=True)
        return cls(totals, dict(zip(per_unit.columns, resampled(per_unit, seed).T, strict=True)))


NO_RESAMPLES = Resamples({}, {})


def _metric(of: Reduced, mode: Mode, resamples: Resamples) -> Metric:
    counts = of.per_chunk.filter(pl.col("mode") == mode.value)
    sure = intervals(*(resamples.sums[f"{mode} {it}"] for it in COUNTS))
    averages = micro(counts, "mode").drop("chunks").join(macro(counts, "mode"), on="mode").row(0, named=True)
    return Metric(**averages, precision_interval=sure.precision, recall_interval=sure.recall, f1_interval=sure.f1)


def _causes(of: Reduced, kind: str) -> tuple[Count, ...]:
    by_cause = of.causes.filter(pl.col("kind") == kind).group_by("cause").agg(pl.col("count").sum())
    return tuple(Count(*it) for it in by_cause.sort("count", "cause", descending=[True, False]).iter_rows())

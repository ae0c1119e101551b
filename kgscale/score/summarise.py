"""From what was counted of a method to its scores."""

from dataclasses import dataclass

import polars as pl

from kgscale.runs import Run
from kgscale.score.attribution import MISSED, SPURIOUS
from kgscale.score.bootstrap import by_unit, intervals
from kgscale.score.health import checks, statuses
from kgscale.score.items import USABLE
from kgscale.score.latency import latency
from kgscale.score.match import Mode, modes_for
from kgscale.score.metrics import macro, micro
from kgscale.score.reduce import Reduced
from kgscale.score.results import Carries, Count, GoldSummary, MethodScores, Metric, SpanScore, UnmappedLabel
from kgscale.score.spans import span_scores


@dataclass(frozen=True, slots=True)
class Basis:
    """What every method of a run is measured against."""

    wanted: pl.DataFrame
    """The chunks that need an answer (row): those with gold, or the whole corpus where there is none."""
    gold: GoldSummary | None
    units: pl.DataFrame | None
    """What to resample, where there is gold: row, unit."""


def method_scores(run: Run, method: str, of: Reduced, basis: Basis) -> MethodScores:
    """Everything about one method."""
    declared = run.config.methods.get(method)
    found = checks(of.tallies, relations=declared is None or declared.relations is not None)
    modes = modes_for(found.carries, basis.gold.carries) if basis.gold else []
    answered = of.fates.join(basis.wanted, on="row", how="semi")
    usable = answered.filter(pl.col("status").is_in(USABLE)).height
    has_causes = Mode.PAIR_TYPE in modes
    return MethodScores(
        method=method,
        planned=run.rows,
        statuses=statuses(of.tallies),
        failures=tuple(Count(*it) for it in of.failures.iter_rows()),
        coverage=usable / basis.wanted.height if basis.wanted.height else None,
        without_extraction=basis.wanted.height - answered.height,
        without_gold=of.fates.height - answered.height,
        metrics=tuple(_metric(of.per_chunk, mode, basis.units, run.config.seed) for mode in modes),
        spans=_spans(of, found.carries, basis, run.config.seed),
        missed=_causes(of, MISSED) if has_causes else (),
        spurious=_causes(of, SPURIOUS) if has_causes else (),
        checks=found,
        unmapped=tuple(UnmappedLabel(*it) for it in of.unmapped.iter_rows()),
        latency=latency(of.timings),
    )


def _metric(per_chunk: pl.DataFrame, mode: Mode, units: pl.DataFrame | None, seed: int) -> Metric:
    assert units is not None
    counts = per_chunk.filter(pl.col("mode") == mode.value)
    sure = intervals(by_unit(counts.drop("mode"), units), seed)
    averages = micro(counts, "mode").drop("chunks").join(macro(counts, "mode"), on="mode").row(0, named=True)
    return Metric(**averages, precision_interval=sure.precision, recall_interval=sure.recall, f1_interval=sure.f1)


def _spans(of: Reduced, carries: Carries, basis: Basis, seed: int) -> tuple[SpanScore, ...]:
    if basis.gold is None or basis.units is None or not (basis.gold.carries.offsets and carries.offsets):
        return ()
    every_chunk = basis.wanted.join(of.spans, on="row", how="left").fill_null(0)
    return span_scores(every_chunk, basis.units, seed)


def _causes(of: Reduced, kind: str) -> tuple[Count, ...]:
    by_cause = of.causes.filter(pl.col("kind") == kind).group_by("cause").agg(pl.col("count").sum())
    return tuple(Count(*it) for it in by_cause.sort("count", "cause", descending=[True, False]).iter_rows())

"""Entities with offsets: mentions aligned one to one, and the error kinds known from MUC and SemEval 2013 task 9."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import polars as pl

from kgscale.score.bootstrap import Numbers, by_unit, defined, interval, ratio, resampled
from kgscale.score.items import Items
from kgscale.score.results import SpanScore


class Outcome(StrEnum):
    """What became of a gold mention, or of an extracted one that is aligned with none."""

    SAME = "same span, same type"
    OTHER_TYPE = "same span, other type"
    OVERLAP = "overlap, same type"
    OVERLAP_OTHER_TYPE = "overlap, other type"
    MISSED = "missed"
    SPURIOUS = "spurious"


class Scheme(StrEnum):
    """SemEval's four ways to judge a pair of aligned mentions."""

    STRICT = "strict"
    """Correct if span and type are the same, else incorrect."""
    EXACT = "exact"
    """Correct if the span is the same, else incorrect."""
    PARTIAL = "partial"
    """Correct if the span is the same, else partial, which counts half."""
    TYPE = "type"
    """Correct if the type is the same, else incorrect; any overlap will do."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which outcomes of aligned mentions are correct and which partial in a scheme; the others are incorrect."""

    correct: tuple[Outcome, ...]
    partial: tuple[Outcome, ...] = ()


JUDGEMENTS = {
    Scheme.STRICT: Judgement((Outcome.SAME,)),
    Scheme.EXACT: Judgement((Outcome.SAME, Outcome.OTHER_TYPE)),
    Scheme.PARTIAL: Judgement((Outcome.SAME, Outcome.OTHER_TYPE), (Outcome.OVERLAP, Outcome.OVERLAP_OTHER_TYPE)),
    Scheme.TYPE: Judgement((Outcome.SAME, Outcome.OVERLAP)),
}
ALIGNED = (Outcome.SAME, Outcome.OTHER_TYPE, Outcome.OVERLAP, Outcome.OVERLAP_OTHER_TYPE)


def outcomes(gold: Items, predicted: Items) -> pl.DataFrame:
    """What became of every distinct mention of either side: row, type, predicted_type, outcome.

    `type` is the gold's, or the extracted one of a spurious mention; `predicted_type` is null for a missed one.
    Mentions are aligned one to one: first those with the same span and type, then by priority of same span, same type
    and larger overlap. This does not depend on their order. A mention without offsets overlaps nothing.
    """
    truth, said = _mentions(gold, "g"), _mentions(predicted, "p")
    exact = truth.join(
        said, left_on=["row", "g_start", "g_end", "g_type"], right_on=["row", "p_start", "p_end", "p_type"]
    )
    pairs = [exact.select("g", "p")]
    candidates = _overlapping(
        truth.join(exact, on="g", how="anti"),
        said.join(exact, on="p", how="anti"),
    )
    while candidates.height:
        best = candidates.filter(
            pl.col("rank") == pl.col("rank").min().over("g"), pl.col("rank") == pl.col("rank").min().over("p")
        )
        pairs.append(best.select("g", "p"))
        candidates = candidates.join(best, on="g", how="anti").join(best, on="p", how="anti")
    aligned = pl.concat(pairs)
    same_span = (pl.col("g_start") == pl.col("p_start")) & (pl.col("g_end") == pl.col("p_end"))
    same_type = pl.col("g_type") == pl.col("p_type")
    judged = truth.join(aligned, on="g", how="left").join(said.drop("row"), on="p", how="left")
    return pl.concat(
        [
            judged.select(
                "row",
                type="g_type",
                predicted_type="p_type",
                outcome=pl.when(pl.col("p").is_null())
                .then(pl.lit(Outcome.MISSED.value))
                .when(same_span & same_type)
                .then(pl.lit(Outcome.SAME.value))
                .when(same_span)
                .then(pl.lit(Outcome.OTHER_TYPE.value))
                .when(same_type)
                .then(pl.lit(Outcome.OVERLAP.value))
                .otherwise(pl.lit(Outcome.OVERLAP_OTHER_TYPE.value)),
            ),
            said.join(aligned, on="p", how="anti").select(
                "row", type="p_type", predicted_type="p_type", outcome=pl.lit(Outcome.SPURIOUS.value)
            ),
        ]
    )


def outcome_counts(of: pl.DataFrame, by: str) -> pl.DataFrame:
    """How often each outcome occurred within `by` (`row` or `type`): by, and one column per outcome."""
    return of.group_by(by).agg((pl.col("outcome") == it.value).sum().alias(it.value) for it in Outcome)


def span_scores(by_chunk: pl.DataFrame, units: pl.DataFrame, seed: int) -> tuple[SpanScore, ...]:
    """The scores of every scheme, with intervals, from the `outcome_counts` of chunks."""
    per_unit = by_unit(by_chunk, units)
    replicates = resampled(per_unit, seed)
    total = per_unit.sum().to_numpy().astype(np.float64)
    return tuple(_score(scheme, total, replicates, per_unit.columns) for scheme in Scheme)


def _score(scheme: Scheme, total: Numbers, replicates: Numbers, columns: list[str]) -> SpanScore:
    judged = JUDGEMENTS[scheme]
    incorrect = [it for it in ALIGNED if it not in (*judged.correct, *judged.partial)]
    kinds = (judged.correct, incorrect, judged.partial, (Outcome.MISSED,), (Outcome.SPURIOUS,))
    sums = [total[:, [columns.index(it) for it in kind]].sum(axis=1) for kind in kinds]
    drawn = [replicates[:, [columns.index(it) for it in kind]].sum(axis=1) for kind in kinds]
    precision, recall, f1 = (defined(it) for it in _prf(*sums))
    correct, wrong, partial, missed, spurious = (int(it[0]) for it in sums)
    sure = interval(_prf(*drawn)[2])
    return SpanScore(scheme.value, correct, wrong, partial, missed, spurious, precision, recall, f1, sure)


def _prf(
    correct: Numbers, incorrect: Numbers, partial: Numbers, missed: Numbers, spurious: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Precision, recall and F1, where a partial match counts half (SemEval 2013 task 9)."""
    aligned = correct + incorrect + partial
    credit = correct + partial / 2
    actual, possible = aligned + spurious, aligned + missed
    return ratio(credit, actual), ratio(credit, possible), ratio(2 * credit, actual + possible)


def _mentions(side: Items, name: str) -> pl.DataFrame:
    """The distinct mentions of a side, numbered: row, and the rest with `name` in front."""
    mentions = side.named().entities.select("row", "start", "end", "type").unique().collect()
    renamed = mentions.rename({it: f"{name}_{it}" for it in ("start", "end", "type")})
    return renamed.with_row_index(name)


def _overlapping(truth: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """The pairs of mentions that share a character, the best first: g, p, rank."""
    overlap = pl.min_horizontal("g_end", "p_end") - pl.max_horizontal("g_start", "p_start")
    same_span = (pl.col("g_start") == pl.col("p_start")) & (pl.col("g_end") == pl.col("p_end"))
    priority = [same_span, pl.col("g_type") == pl.col("p_type"), overlap]
    # What follows only makes the order total, so that it depends on nothing but the mentions.
    ties = ["g_start", "p_start", "g_end", "p_end", "g_type", "p_type"]
    return (
        truth.lazy()
        .join(said.lazy(), on="row")
        .filter(overlap > 0)
        .sort(*priority, *ties, descending=[True] * len(priority) + [False] * len(ties))
        .with_row_index("rank")
        .select("g", "p", "rank")
        .collect()
    )

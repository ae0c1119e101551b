"""Entities with offsets: mentions aligned one to one, and the error kinds known from MUC and SemEval 2013 task 9."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import polars as pl

from kgscale.score.bootstrap import Numbers, defined, interval, ratio
from kgscale.score.items import Items
from kgscale.score.match import BOTH, GOLD, PREDICTED, tally
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
OUTCOME = pl.Enum(Outcome)
ALIGNED = (Outcome.SAME, Outcome.OTHER_TYPE, Outcome.OVERLAP, Outcome.OVERLAP_OTHER_TYPE)


def outcomes(gold: Items, predicted: Items) -> pl.DataFrame:
    """What became of every distinct mention of either side: row, type, predicted_type, outcome.

    `type` is the gold's, or the extracted one of a spurious mention; `predicted_type` is null for a missed one.
    Mentions are aligned one to one: first those with the same span and type, then by priority of same span, same type
    and larger overlap. This does not depend on their order. A mention without offsets overlaps nothing.
    """
    mentions = _distinct(gold, predicted)
    same = (pl.col("side") == BOTH) & pl.col("start").is_not_null()
    truth, said = (
        mentions.filter(~same, pl.col("side") & bit > 0)
        .select("row", pl.col("start", "end", "type").name.prefix(f"{name}_"))
        .with_row_index(name)
        for name, bit in (("g", GOLD), ("p", PREDICTED))
    )
    aligned = _aligned(truth, said)
    judgement = (
        pl.when(_SAME_SPAN)
        .then(_is(Outcome.OTHER_TYPE))
        .when(_SAME_TYPE)
        .then(_is(Outcome.OVERLAP))
        .otherwise(_is(Outcome.OVERLAP_OTHER_TYPE))
    )
    missed, spurious = truth.join(aligned, on="g", how="anti"), said.join(aligned, on="p", how="anti")
    nothing = pl.lit(None, missed.schema["g_type"])
    return pl.concat(
        [
            mentions.filter(same).select("row", "type", predicted_type="type", outcome=_is(Outcome.SAME)),
            aligned.select("row", type="g_type", predicted_type="p_type", outcome=judgement),
            missed.select("row", type="g_type", predicted_type=nothing, outcome=_is(Outcome.MISSED)),
            spurious.select("row", type="p_type", predicted_type="p_type", outcome=_is(Outcome.SPURIOUS)),
        ]
    )


def outcomes_by_chunk(of: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """How often each outcome occurred in each of `rows`: row, and one column per outcome."""
    counted = tally(of.select("row", pl.col("outcome").to_physical()), rows, len(Outcome))
    return pl.DataFrame(counted, schema=[it.value for it in Outcome]).select(rows.alias("row"), pl.all())


def outcomes_by_type(of: pl.DataFrame) -> pl.DataFrame:
    """How often each outcome occurred with each type: type, and one column per outcome."""
    return of.group_by("type").agg((pl.col("outcome") == it.value).sum().alias(it.value) for it in Outcome)


def span_scores(totals: Mapping[str, int], replicates: Mapping[str, Numbers]) -> tuple[SpanScore, ...]:
    """The scores of every scheme, with intervals, from the sum of each outcome and its replicates."""
    return tuple(_score(scheme, totals, replicates) for scheme in Scheme)


def _score(scheme: Scheme, totals: Mapping[str, int], replicates: Mapping[str, Numbers]) -> SpanScore:
    judged = JUDGEMENTS[scheme]
    incorrect = [it for it in ALIGNED if it not in (*judged.correct, *judged.partial)]
    kinds = (judged.correct, incorrect, judged.partial, (Outcome.MISSED,), (Outcome.SPURIOUS,))
    counts = [sum(totals[it] for it in kind) for kind in kinds]
    correct, wrong, partial, missed, spurious = counts
    precision, recall, f1 = (defined(it) for it in _prf(*(np.array([float(it)]) for it in counts)))
    drawn = [np.sum([replicates[it] for it in kind], axis=0) if kind else np.zeros(1) for kind in kinds]
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


_SAME_SPAN = (pl.col("g_start") == pl.col("p_start")) & (pl.col("g_end") == pl.col("p_end"))
_SAME_TYPE = pl.col("g_type") == pl.col("p_type")


def _is(outcome: Outcome) -> pl.Expr:
    return pl.lit(outcome.value, OUTCOME)


def _distinct(gold: Items, predicted: Items) -> pl.DataFrame:
    """The distinct mentions: row, start, end, type, and the sides that have it."""
    sides = ((gold.named(), GOLD), (predicted.named(), PREDICTED))
    mentions = [it.entities.select("row", "start", "end", "type", side=pl.lit(bit, pl.UInt8)) for it, bit in sides]
    return pl.concat(mentions).group_by("row", "start", "end", "type").agg(pl.col("side").bitwise_or()).collect()


def _aligned(truth: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """The pairs of mentions that are aligned, with the columns of both."""
    candidates = _overlapping(truth, said)
    alone = (pl.len().over("g") == 1) & (pl.len().over("p") == 1)
    pairs = [candidates.filter(alone)]
    candidates = candidates.filter(~alone).sort(*_BEST_FIRST, descending=_DESCENDING).with_row_index("rank")
    rank = pl.col("rank")
    while candidates.height:
        best = candidates.filter(rank == rank.min().over("g"), rank == rank.min().over("p"))
        pairs.append(best.drop("rank"))
        candidates = candidates.join(best, on="g", how="anti").join(best, on="p", how="anti")
    return pl.concat(pairs)


def _overlapping(truth: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """The pairs of mentions that share a character, with the columns of both; one without offsets shares none."""
    shared = (pl.col("g_start") < pl.col("p_end")) & (pl.col("p_start") < pl.col("g_end"))
    return truth.lazy().join(said.lazy(), on="row").filter(shared).collect()


_OVERLAP = pl.min_horizontal("g_end", "p_end") - pl.max_horizontal("g_start", "p_start")
_PRIORITY = (_SAME_SPAN, _SAME_TYPE, _OVERLAP)
_TIES = ("g_start", "p_start", "g_end", "p_end", "g_type", "p_type")
"""What makes the order of pairs total, so that it depends on nothing but the mentions."""
_BEST_FIRST = (*_PRIORITY, *_TIES)
_DESCENDING = [True] * len(_PRIORITY) + [False] * len(_TIES)

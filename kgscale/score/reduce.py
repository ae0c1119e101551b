"""One batch of chunks of one method, reduced to counts; batches are then put together."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import polars as pl

from kgscale.score import health
from kgscale.score.attribution import cause_counts, explained
from kgscale.score.confusion import confusion
from kgscale.score.items import USABLE, Items, items, usable
from kgscale.score.keys import Keys
from kgscale.score.latency import timings, tokens
from kgscale.score.match import TYPED_MODES, Matches, matches
from kgscale.score.reference import GoldBatch
from kgscale.score.spans import outcomes, outcomes_by_chunk, outcomes_by_type


@dataclass(frozen=True, slots=True)
class Found:
    """A method's answers beside the gold, in one batch."""

    gold: GoldBatch
    matches: Matches
    causes: pl.DataFrame
    """What is `explained` of the relations that only one side has."""
    spans: pl.DataFrame
    """The `outcomes` of mentions."""

    @classmethod
    def of(cls, gold: GoldBatch, rows: pl.DataFrame, said: Items, keys: Keys) -> "Found":
        """Compare what `rows` say with the gold, in the chunks that have gold."""
        annotated = said.within(gold.rows.lazy().select("row"))
        compared = matches(gold.items, annotated.through(gold.aliases) if gold.aliases is not None else annotated, keys)
        return cls(gold, compared, explained(compared, usable(rows)), outcomes(gold.items, annotated))


@dataclass(frozen=True, slots=True)
class Reduced:
    """What is kept of a batch: counts, and a few numbers per chunk."""

    per_chunk: pl.DataFrame
    """For the gold chunks: mode, row, tp, fp, fn."""
    per_type: pl.DataFrame
    """mode, type, tp, fp, fn."""
    causes: pl.DataFrame
    """Why relations are missed or spurious: kind, type, cause, count."""
    confusion: pl.DataFrame
    """Types taken for each other: gold_type, predicted_type, count."""
    spans: pl.DataFrame
    """What became of mentions: row, one column per outcome."""
    span_types: pl.DataFrame
    """The same by type."""
    fates: pl.DataFrame
    """row, status, of the gold chunks that have a row."""
    timings: pl.DataFrame
    tokens: pl.DataFrame
    """One row of sums."""
    tallies: pl.DataFrame
    """One row of `health` counts."""
    failures: pl.DataFrame
    unmapped: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Answered:
    """One method's rows of a batch, taken apart, and beside the gold."""

    rows: pl.DataFrame
    said: Items
    """What the usable rows say."""
    found: Found

    @classmethod
    def of(cls, rows: pl.DataFrame, gold: GoldBatch, keys: Keys) -> "Answered":
        """Take rows apart."""
        said = items(usable(rows), keys).collected()
        return cls(rows, said, Found.of(gold, rows, said, keys))


def reduce_batch(of: Answered, keys: Keys, usual_engine: str | None) -> Reduced:
    """Count what one method has right, and how its answers look; `usual_engine` is the one for its entities."""
    rows, said, found = of.rows, of.said, of.found
    has_gold = pl.col("row").is_in(found.gold.rows["row"].implode())
    frames = pl.collect_all(
        [
            rows.lazy().filter(has_gold).select("row", pl.col("status").cast(pl.Categorical)),
            timings(rows.lazy()),
            tokens(rows.lazy()),
            pl.concat(
                [
                    health.row_counts(rows.lazy(), usual_engine),
                    health.entity_counts(said, keys),
                    health.relation_counts(said, keys),
                    health.dangling_ends(said),
                    rows.lazy()
                    .filter(has_gold)
                    .select(with_gold=pl.len(), usable_with_gold=pl.col("status").is_in(USABLE).sum()),
                ],
                how="horizontal",
            ),
            health.failures(rows.lazy()),
            health.unmapped(said, keys),
        ]
    )
    return Reduced(
        found.matches.by_chunk(found.gold.rows["row"]).with_columns(_SMALL),
        found.matches.counts("type", modes=TYPED_MODES).with_columns(_AS_TEXT),
        cause_counts(found.causes),
        confusion(found.matches),
        outcomes_by_chunk(found.spans, found.gold.rows["row"]).with_columns(pl.exclude("row").cast(pl.UInt32)),
        outcomes_by_type(found.spans).with_columns(_AS_TEXT),
        *frames,
    )


def merge(parts: Sequence[Reduced]) -> Reduced:
    """All batches together; there must be at least one."""
    joined = {it.name: pl.concat([getattr(part, it.name) for part in parts]) for it in fields(Reduced)}
    joined["per_type"] = joined["per_type"].group_by("mode", "type").agg(pl.col("tp", "fp", "fn").cast(pl.Int64).sum())
    joined["causes"] = _most_frequent(joined["causes"], "count", "kind", "type", "cause")
    joined["confusion"] = _most_frequent(joined["confusion"], "count", "gold_type", "predicted_type")
    joined["span_types"] = joined["span_types"].group_by("type").agg(pl.all().cast(pl.Int64).sum()).sort("type")
    joined["tallies"] = joined["tallies"].sum()
    joined["tokens"] = joined["tokens"].sum()
    joined["failures"] = _most_frequent(joined["failures"], "rows", "reason")
    joined["unmapped"] = _most_frequent(joined["unmapped"], "count", "kind", "label")
    return Reduced(**joined)


def _most_frequent(frame: pl.DataFrame, count: str, *by: str) -> pl.DataFrame:
    summed = frame.group_by(by).agg(pl.col(count).sum())
    return summed.sort(count, *by, descending=[True] + [False] * len(by))


_SMALL = pl.col("tp", "fp", "fn").cast(pl.UInt32)
"""Of every gold chunk, so half the memory counts."""
_AS_TEXT = pl.col("type").cast(pl.String)

"""Why relations are missed or made up: one cause each, in the mode `pair+type`."""

from enum import StrEnum

import polars as pl

from kgscale.score.match import BOTH, GOLD, PREDICTED, Matches, Mode, sorted_ends


class Missed(StrEnum):
    """Why a gold relation was not found; the first that holds."""

    NO_ANSWER = "chunk not answered"
    """There is no usable row of the chunk."""
    WRONG_DIRECTION = "wrong direction"
    """The same relation was found from target to source."""
    WRONG_TYPE = "wrong type"
    """The two ends were connected, by relations of other types only."""
    NO_EDGE = "both found but no edge"
    SOURCE_MISSING = "source missing"
    """The target is among the extracted entities, the source is not."""
    TARGET_MISSING = "target missing"
    BOTH_MISSING = "both missing"


class Spurious(StrEnum):
    """Why an extracted relation is not in the gold; the first that holds."""

    WRONG_DIRECTION = "wrong direction"
    WRONG_TYPE = "wrong type"
    UNRELATED = "pair unrelated"
    """Both ends are gold entities, which no gold relation connects."""
    INVENTED = "entity invented"
    """An end is no gold entity."""


ENTITY_MISSING = (Missed.SOURCE_MISSING, Missed.TARGET_MISSING, Missed.BOTH_MISSING)
"""What an entity finder is to blame for, not the one that finds the relations."""
MISSED, SPURIOUS = "missed", "spurious"
_RELATION = ("row", "source", "target", "type")


def explained(found: Matches, answered: pl.DataFrame) -> pl.DataFrame:
    """Every relation that only one side has, with its cause: row, source, target, type, kind, cause.

    `answered` (row) lists the chunks with a usable answer; `kind` is `missed` (gold only) or `spurious`.
    """
    source, target = pl.col("source_known"), pl.col("target_known")
    unanswered = ~pl.col("row").is_in(answered["row"].implode())
    missed = _compared(found, GOLD, PREDICTED).with_columns(
        kind=pl.lit(MISSED),
        cause=_first_that_holds(
            (unanswered, Missed.NO_ANSWER),
            (pl.col("reversed"), Missed.WRONG_DIRECTION),
            (pl.col("connected"), Missed.WRONG_TYPE),
            (source & target, Missed.NO_EDGE),
            (target, Missed.SOURCE_MISSING),
            (source, Missed.TARGET_MISSING),
            (pl.lit(True), Missed.BOTH_MISSING),
        ),
    )
    spurious = _compared(found, PREDICTED, GOLD).with_columns(
        kind=pl.lit(SPURIOUS),
        cause=_first_that_holds(
            (pl.col("reversed"), Spurious.WRONG_DIRECTION),
            (pl.col("connected"), Spurious.WRONG_TYPE),
            (source & target, Spurious.UNRELATED),
            (pl.lit(True), Spurious.INVENTED),
        ),
    )
    return pl.concat([it.select(*_RELATION, "kind", "cause") for it in (missed, spurious)]).collect()


def cause_counts(of: pl.DataFrame) -> pl.DataFrame:
    """How often each cause occurred: kind, type, cause, count."""
    counted = of.group_by("kind", "type", "cause").agg(pl.len().cast(pl.Int64).alias("count"))
    return counted.with_columns(pl.col("type").cast(pl.String))


def lost(before: Matches, after: pl.DataFrame) -> pl.DataFrame:
    """The gold relations that one method found and another missed, by the other's cause: type, cause, count.

    `before` compares the first method with the gold; `after` is what is `explained` of the second.
    """
    had = before.of(Mode.PAIR_TYPE).filter(pl.col("side") == BOTH)
    gone = after.filter(pl.col("kind") == MISSED).join(had, on=_RELATION, how="semi")
    return cause_counts(gone).drop("kind")


def _compared(found: Matches, side: pl.Expr, other: pl.Expr) -> pl.LazyFrame:
    """The relations that only `side` has, and what the `other` side has of each.

    Adds, true or null: reversed (the same relation from target to source), connected (any relation between the two),
    source_known and target_known (whether they are among its entities).
    """
    alone = found.of(Mode.PAIR_TYPE).lazy().filter(pl.col("side") == side).drop("side")
    typed, pairs, names = (
        found.of(mode).lazy().filter(pl.col("side") & other > 0).drop("side")
        for mode in (Mode.PAIR_TYPE, Mode.PAIR_UNDIRECTED, Mode.NAME)
    )
    backwards = typed.rename({"source": "target", "target": "source"}).with_columns(reversed=True)
    first, second = (it.alias(name) for it, name in zip(sorted_ends(pl.lit(True)), ("first", "second"), strict=True))
    connected = pairs.rename({"source": "first", "target": "second"}).with_columns(connected=True)
    return (
        alone.with_columns(first, second)
        .join(backwards, on=_RELATION, how="left")
        .join(connected, on=["row", "first", "second"], how="left")
        .join(names.rename({"name": "source"}).with_columns(source_known=True), on=["row", "source"], how="left")
        .join(names.rename({"name": "target"}).with_columns(target_known=True), on=["row", "target"], how="left")
    )


def _first_that_holds(*causes: tuple[pl.Expr, str]) -> pl.Expr:
    return pl.coalesce(pl.when(holds).then(pl.lit(str(cause))) for holds, cause in causes)

"""Why relations are missed or made up: one cause each, in the mode `pair+type`."""

from enum import StrEnum

import polars as pl

from kgscale.score.match import BOTH, GOLD, Matches, Mode, row_of, sorted_nodes


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
KIND = pl.Enum([MISSED, SPURIOUS])
CAUSE = pl.Enum(list(dict.fromkeys(str(it) for it in (*Missed, *Spurious))))
_RELATION = ("source", "target", "type")


def explained(found: Matches, answered: pl.DataFrame) -> pl.DataFrame:
    """Every relation that only one side has, with its cause: source, target, type, kind, cause.

    `answered` (row) lists the chunks with a usable answer; `kind` is `missed` (gold only) or `spurious`.
    """
    typed = found.of(Mode.PAIR_TYPE).lazy()
    first, second = sorted_nodes("source", "target")
    backwards = typed.select(source="target", target="source", type="type", backwards="side")
    connected = found.of(Mode.PAIR_UNDIRECTED).lazy().rename({"side": "connected"})
    compared = (
        typed.filter(pl.col("side") != BOTH)
        .join(backwards, on=_RELATION, how="left")
        .with_columns(first.alias("first"), second.alias("second"))
        .join(connected, left_on=["first", "second"], right_on=["source", "target"], how="left")
        .with_columns(row_of("source"), missed=pl.col("side") == GOLD, other=BOTH - pl.col("side"))
    )
    backwards_too, connected_too, source, target = (
        pl.col(it) & pl.col("other") > 0 for it in ("backwards", "connected", "source_side", "target_side")
    )
    why_missed = _first_that_holds(
        (~pl.col("row").is_in(answered["row"].implode()), Missed.NO_ANSWER),
        (backwards_too, Missed.WRONG_DIRECTION),
        (connected_too, Missed.WRONG_TYPE),
        (source & target, Missed.NO_EDGE),
        (target, Missed.SOURCE_MISSING),
        (source, Missed.TARGET_MISSING),
        (pl.lit(True), Missed.BOTH_MISSING),
    )
    why_spurious = _first_that_holds(
        (backwards_too, Spurious.WRONG_DIRECTION),
        (connected_too, Spurious.WRONG_TYPE),
        (source & target, Spurious.UNRELATED),
        (pl.lit(True), Spurious.INVENTED),
    )
    return compared.select(
        *_RELATION,
        kind=pl.when("missed").then(pl.lit(MISSED, KIND)).otherwise(pl.lit(SPURIOUS, KIND)),
        cause=pl.when("missed").then(why_missed).otherwise(why_spurious),
    ).collect()


def cause_counts(of: pl.DataFrame) -> pl.DataFrame:
    """How often each cause occurred: kind, type, cause, count."""
    counted = of.group_by("kind", "type", "cause").agg(pl.len().cast(pl.Int64).alias("count"))
    return counted.with_columns(pl.col("kind", "type", "cause").cast(pl.String))


def lost(before: Matches, after: pl.DataFrame) -> pl.DataFrame:
    """The gold relations that one method found and another missed, by the other's cause: type, cause, count.

    `before` compares the first method with the gold; `after` is what is `explained` of the second.
    """
    had = before.of(Mode.PAIR_TYPE).filter(pl.col("side") == BOTH)
    gone = after.filter(pl.col("kind") == MISSED).join(had, on=_RELATION, how="semi")
    return cause_counts(gone).drop("kind")


def _first_that_holds(*causes: tuple[pl.Expr, str]) -> pl.Expr:
    return pl.coalesce(pl.when(holds).then(pl.lit(str(cause), CAUSE)) for holds, cause in causes)

"""Which entity types are taken for which."""

import polars as pl

from kgscale.score.match import GOLD, PREDICTED, Matches, Mode


def confusion(found: Matches) -> pl.DataFrame:
    """Names that both sides have in a chunk, with different types: gold_type, predicted_type, count.

    A type that both sides give to the name is not confused with another that one of them gives as well.
    """
    typed = found.of(Mode.NAME_TYPE)
    gold, predicted = (typed.filter(pl.col("side") == side).drop("side") for side in (GOLD, PREDICTED))
    pairs = gold.rename({"type": "gold_type"}).join(predicted.rename({"type": "predicted_type"}), on="node")
    counted = pairs.group_by("gold_type", "predicted_type").agg(pl.len().cast(pl.Int64).alias("count"))
    return counted.with_columns(pl.col("gold_type", "predicted_type").cast(pl.String))

"""Precision, recall and F1 from counts: micro, macro, and over any grouping."""

import polars as pl

TP, FP, FN = pl.col("tp"), pl.col("fp"), pl.col("fn")

PRECISION = pl.when(TP + FP > 0).then(TP / (TP + FP)).alias("precision")
RECALL = pl.when(TP + FN > 0).then(TP / (TP + FN)).alias("recall")
F1 = pl.when(TP + FP + FN > 0).then(2 * TP / (2 * TP + FP + FN)).alias("f1")
"""Undefined is null, not 0: no precision without a prediction, no recall without gold, no F1 without either."""


def micro(per_chunk: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Micro averages: counts summed within each group of `by`, then precision, recall and F1.

    The result is sorted by `by` and has its columns, chunks, tp, fp, fn, precision, recall, f1.
    """
    summed = per_chunk.group_by(by).agg(pl.len().alias("chunks"), pl.col("tp", "fp", "fn").cast(pl.Int64).sum())
    return summed.with_columns(PRECISION, RECALL, F1).sort(by)


def macro(per_chunk: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Macro averages: the mean of each chunk's precision, recall and F1, where it is defined.

    The result has `by`, macro_precision, macro_recall, macro_f1 (null if defined in no chunk).
    """
    each = per_chunk.select(*by, PRECISION, RECALL, F1)
    return each.group_by(by).agg(pl.col("precision", "recall", "f1").mean().name.prefix("macro_")).sort(by)

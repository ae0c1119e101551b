"""Quality per entity and relation type."""

import polars as pl

from kgscale.report.figures import NOT_APPLICABLE, between, brief, number, whole
from kgscale.report.tables import MOST_ROWS
from kgscale.report.texts import Texts
from kgscale.report.view import Cell, Focus, Table, named
from kgscale.score.results import Scores
from kgscale.score.typed import design_effect, type_interval

MOST_DETAILS = 300
"""Rows of the table of details."""


def type_tables(per_type: pl.DataFrame, scores: Scores, focus: Focus, t: Texts) -> list[Table]:
    """One table for the entity types and one for the relation types, most frequent in the gold first."""
    found = []
    for what, mode in (("entity_types", focus.entity_mode), ("relation_types", focus.relation_mode)):
        if mode is None:
            continue
        effects = {it.method: design_effect(metric) for it in scores.methods if (metric := it.metric(mode))}
        of = per_type.filter(pl.col("mode") == mode, pl.col("type").is_not_null(), pl.col("method").is_in(effects))
        if not of.is_empty():
            methods = focus.ordered(it.method for it in scores.methods)
            found.append(_table(of, t(what), methods, effects, t))
    return found


def type_details(per_type: pl.DataFrame, scores: Scores, focus: Focus, t: Texts) -> Table | None:
    """Precision, recall and counts of each type; null where there are none."""
    modes = [it for it in (focus.entity_mode, focus.relation_mode) if it]
    effects = {
        (mode, it.method): design_effect(metric)
        for mode in modes
        for it in scores.methods
        if (metric := it.metric(mode))
    }
    applies = pl.DataFrame(list(effects), schema={"mode": pl.String, "method": pl.String}, orient="row")
    of = per_type.join(applies, on=["mode", "method"], how="semi").filter(
        pl.col("type").is_not_null(), pl.col("tp") + pl.col("fp") + pl.col("fn") > 0
    )
    if of.is_empty():
        return None
    rank = {name: at for at, name in enumerate(focus.ordered(of["method"].unique(maintain_order=True)))}
    ordered = of.sort(
        pl.col("mode").replace_strict(modes, range(len(modes))), "type", pl.col("method").replace_strict(rank)
    )
    columns = ("type", "mode", "method", "f1", "precision", "recall", "tp", "fp", "fn")
    rows = [
        (
            *(named(brief(it)) for it in (kind, mode, method)),
            Cell(number(f1), between(sure if tp + fn else None), strong=True),
            *(Cell(number(it)) for it in (precision, recall)),
            *(Cell(whole(it)) for it in (tp, fp, fn)),
        )
        for kind, mode, method, f1, precision, recall, tp, fp, fn in ordered.select(columns)
        .head(MOST_DETAILS)
        .iter_rows()
        for sure in [type_interval(tp, fp, fn, effects[mode, method])]
    ]
    head = (t("type"), t("mode"), t("method"), "F1", "P", "R", "TP", "FP", "FN")
    note = t("types_details_note") + _left(of.height - MOST_DETAILS, t)
    return Table(t("types_details"), head, tuple(rows), note=note)


def confusion_table(confusion: pl.DataFrame, focus: Focus, t: Texts) -> Table | None:
    """Which entity type each method takes for which, most frequent first; null where none is."""
    if confusion.is_empty():
        return None
    methods = focus.ordered(confusion["method"].unique(maintain_order=True))
    pairs = confusion.pivot("method", index=["gold_type", "predicted_type"], values="count").fill_null(0)
    order = pairs.sort(pl.max_horizontal(methods), "gold_type", "predicted_type", descending=[True, False, False])
    rows = [
        (named(brief(gold)), named(brief(said)), *(Cell(whole(it)) for it in counts))
        for gold, said, *counts in order.select("gold_type", "predicted_type", *methods).head(MOST_ROWS).iter_rows()
    ]
    head = (t("confusion_gold"), t("confusion_said"), *methods)
    return Table(t("confusion"), head, tuple(rows), note=t("confusion_note") + _left(pairs.height - MOST_ROWS, t))


def _table(of: pl.DataFrame, caption: str, methods: list[str], effects: dict[str, float], t: Texts) -> Table:
    # A type that a method never said has no row of that method: the gold count is the largest.
    order = (
        of.group_by("type")
        .agg(gold=(pl.col("tp") + pl.col("fn")).max(), said=(pl.col("tp") + pl.col("fp")).max())
        .sort("gold", "said", "type", descending=[True, True, False])
    )
    columns = ("method", "type", "f1", "tp", "fp", "fn")
    found = {(method, kind): figures for method, kind, *figures in of.select(columns).iter_rows()}

    def cell(method: str, kind: str) -> Cell:
        if method not in effects:
            return Cell(NOT_APPLICABLE)
        f1, tp, fp, fn = found.get((method, kind), (None, 0, 0, 0))
        # Of a type that the gold does not have, F1 is 0 whatever the chunks.
        sure = type_interval(tp, fp, fn, effects[method]) if tp + fn else None
        return Cell(number(f1), bar=f1, sure=sure)

    rows = [
        (named(brief(kind)), Cell(whole(gold)), *(cell(it, kind) for it in methods))
        for kind, gold, _ in order.head(MOST_ROWS).iter_rows()
    ]
    note = t("types_note") + _left(order.height - MOST_ROWS, t)
    return Table(caption, (t("type"), t("in_gold"), *methods), tuple(rows), note=note)


def _left(rows: int, t: Texts) -> str:
    """What a long table leaves out is counted."""
    return t("space") + t("others_left", count=whole(rows)) if rows > 0 else ""

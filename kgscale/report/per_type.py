"""Quality per entity and relation type."""

import polars as pl

from kgscale.report.figures import NOT_APPLICABLE, brief, number, whole
from kgscale.report.tables import MOST_ROWS
from kgscale.report.texts import Texts
from kgscale.report.view import Cell, Focus, Table, named
from kgscale.score.results import Scores

MOST_DETAILS = 300
"""Rows of the table of details."""


def type_tables(per_type: pl.DataFrame, scores: Scores, focus: Focus, t: Texts) -> list[Table]:
    """One table for the entity types and one for the relation types, most frequent in the gold first."""
    found = []
    for what, mode in (("entity_types", focus.entity_mode), ("relation_types", focus.relation_mode)):
        if mode is None:
            continue
        applies = {it.method for it in scores.methods if it.metric(mode)}
        of = per_type.filter(pl.col("mode") == mode, pl.col("type").is_not_null(), pl.col("method").is_in(applies))
        if not of.is_empty():
            methods = focus.ordered(it.method for it in scores.methods)
            found.append(_table(of, t(what), methods, applies, t))
    return found


def type_details(per_type: pl.DataFrame, focus: Focus, t: Texts) -> Table | None:
    """Precision, recall and counts of each type; null where there are none."""
    modes = [it for it in (focus.entity_mode, focus.relation_mode) if it]
    of = per_type.filter(pl.col("mode").is_in(modes), pl.col("type").is_not_null())
    of = of.filter(pl.col("tp") + pl.col("fp") + pl.col("fn") > 0)
    if of.is_empty():
        return None
    rank = {name: at for at, name in enumerate(focus.ordered(of["method"].unique(maintain_order=True)))}
    ordered = of.sort(
        pl.col("mode").replace_strict(modes, range(len(modes))), "type", pl.col("method").replace_strict(rank)
    )
    columns = ("type", "mode", "method", "f1", "precision", "recall", "tp", "fp", "fn")
    rows = [
        (
            *(named(brief(it)) for it in names),
            *(Cell(number(it)) for it in averages),
            *(Cell(whole(it)) for it in counts),
        )
        for *names, f1, precision, recall, tp, fp, fn in ordered.select(columns).head(MOST_DETAILS).iter_rows()
        for averages, counts in [((f1, precision, recall), (tp, fp, fn))]
    ]
    left = of.height - MOST_DETAILS
    head = (t("type"), t("mode"), t("method"), "F1", "P", "R", "TP", "FP", "FN")
    return Table(t("types_details"), head, tuple(rows), note=t("others_left", count=whole(left)) if left > 0 else "")


def _table(of: pl.DataFrame, caption: str, methods: list[str], applies: set[str], t: Texts) -> Table:
    # A type that a method never said has no row of that method: the gold count is the largest.
    order = (
        of.group_by("type")
        .agg(gold=(pl.col("tp") + pl.col("fn")).max(), said=(pl.col("tp") + pl.col("fp")).max())
        .sort("gold", "said", "type", descending=[True, True, False])
    )
    f1 = {(method, kind): value for method, kind, value in of.select("method", "type", "f1").iter_rows()}

    def cell(method: str, kind: str) -> Cell:
        value = f1.get((method, kind))
        return Cell(number(value), bar=value) if method in applies else Cell(NOT_APPLICABLE)

    rows = [
        (named(brief(kind)), Cell(whole(gold)), *(cell(it, kind) for it in methods))
        for kind, gold, _ in order.head(MOST_ROWS).iter_rows()
    ]
    left = order.height - MOST_ROWS
    note = t("space") + t("others_left", count=whole(left)) if left > 0 else ""
    return Table(caption, (t("type"), t("in_gold"), *methods), tuple(rows), note=t("types_note") + note)

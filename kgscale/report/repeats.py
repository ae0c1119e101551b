"""How far repeats of the same methods scatter."""

from collections.abc import Sequence

from kgscale.report.figures import number, whole
from kgscale.report.texts import Texts
from kgscale.report.view import Cell, Focus, Table, named
from kgscale.score.history import Spread


def repeats_table(spreads: Sequence[Spread], focus: Focus, t: Texts) -> Table | None:
    """A row for each method and mode that was repeated; null where none was."""
    methods = focus.ordered(dict.fromkeys(it.method for it in spreads))
    rows = [
        (
            named(it.method),
            named(it.mode),
            Cell(whole(it.repeats)),
            Cell(number(it.mean), strong=True),
            Cell(number(it.deviation)),
            Cell(number(it.low)),
            Cell(number(it.high)),
        )
        for it in sorted(spreads, key=lambda it: methods.index(it.method))
    ]
    head = ("method", "mode", "repeats", "mean_f1", "deviation", "lowest", "highest")
    return Table(t("repeated"), tuple(t(it) for it in head), tuple(rows), note=t("repeated_note")) if rows else None

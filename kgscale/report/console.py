"""Tables and notes of a terminal, and how figures are written there."""

from rich import box
from rich.table import Table
from rich.text import Text

from kgscale.report import view
from kgscale.score.results import Interval, Metric

NOT_APPLICABLE = "n/a"
UNDEFINED = "-"
"""A figure that does not exist, which is something else than 0."""


def new_table(first: str, *others: str) -> Table:
    """An empty table; names to the left, figures to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right")
    return table


def as_rich(of: view.Table) -> Table:
    """A table of the report, with the smaller notes below their cells."""
    table = new_table(*of.head)
    for row in of.rows:
        table.add_row(*(Text(f"{it.text}\n{it.note}" if it.note else it.text) for it in row))
    return table


def bullet(text: str) -> Table:
    """A note whose further lines are indented."""
    line = Table.grid(padding=(0, 1))
    line.add_row("•", Text(text))
    return line


def figure(value: float | None, form: str = ".3f") -> str:
    """A figure, or a dash where there is none."""
    return UNDEFINED if value is None else format(value, form)


def between(interval: Interval | None, form: str = ".3f") -> str:
    """An interval, on a line of its own so that tables stay narrow."""
    return f"\n{interval.low:{form}} to {interval.high:{form}}" if interval else ""


def prf(metric: Metric | None) -> tuple[str, str, str]:
    """F1 with its interval, precision and recall."""
    if metric is None:
        return NOT_APPLICABLE, "", ""
    f1 = f"{figure(metric.f1)}{between(metric.f1_interval)}"
    return f1, figure(metric.precision), figure(metric.recall)

"""The table of thresholds: what a candidate is held to, and whether it keeps it."""

from typing import Literal

from kgscale.report.figures import NOT_APPLICABLE, UNDEFINED, between, brief, number, signed
from kgscale.report.telling import score_name
from kgscale.report.texts import Texts
from kgscale.report.view import Cell, Table
from kgscale.score.results import Interval
from kgscale.score.verdict import Difference, Standing, Verdict

Broken = Literal["warn", "bad"]
"""The colour of a limit that is not kept."""
KEPT, BROKEN = "✓", "✕"


def thresholds_table(verdict: Verdict, t: Texts) -> Table:
    """Every score with a threshold, measured or not."""
    head = (
        t("threshold_score"),
        brief(verdict.baseline),
        brief(verdict.candidate),
        t("threshold_change"),
        t("threshold_needed"),
        t("threshold_recommended"),
        t("threshold_floor"),
    )
    rows = tuple(_row(it, t) for it in (*verdict.differences, *verdict.rag))
    return Table(t("thresholds"), head, rows, note=t("thresholds_note"))


def change(interval: Interval | None) -> Interval | None:
    """The interval of a change from that of a drop: people read a loss as a minus, `drop` counts it upwards."""
    return Interval(-interval.high, -interval.low) if interval else None


def _row(it: Difference, t: Texts) -> tuple[Cell, ...]:
    known = it.standing is Standing.COMPARED
    changed = signed(None if it.drop is None else -it.drop) if known else t(f"standing_{it.standing.value}")
    return (
        Cell(score_name(it, t), it.mode, figure=False),
        *(Cell(_score(score, it)) for score in (it.baseline, it.candidate)),
        Cell(changed, between(change(it.interval), "+.1f"), strong=known, tone="" if known else "soft"),
        _limit(it.drop, it.minimum, "bad"),
        _limit(it.drop, it.recommended, "warn"),
        _floor(it),
    )


def _score(score: float | None, it: Difference) -> str:
    if score is None and it.standing is Standing.NOT_APPLICABLE:
        return NOT_APPLICABLE
    return number(score)


def _limit(drop: float | None, limit: float | None, broken: Broken) -> Cell:
    if limit is None:
        return Cell(UNDEFINED, tone="soft")
    return _marked(f"< {limit:g}", None if drop is None else drop < limit, broken)


def _floor(it: Difference) -> Cell:
    if it.floor is None:
        return Cell(UNDEFINED, tone="soft")
    return _marked(f"≥ {it.floor:.2f}", None if it.candidate is None else it.candidate >= it.floor, "bad")


def _marked(text: str, kept: bool | None, broken: Broken) -> Cell:
    if kept is None:
        return Cell(text, tone="soft")
    return Cell(f"{text} {KEPT if kept else BROKEN}", tone="good" if kept else broken)

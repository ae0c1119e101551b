# ruff: noqa: RUF001 (a dash between figures)
"""The top of a report: the verdict as a manager reads it, and what led to it."""

from bisect import bisect_right
from dataclasses import dataclass

from kgscale.config import CompareConfig
from kgscale.report.figures import NOT_APPLICABLE, UNDEFINED, between, number, signed, whole
from kgscale.report.telling import headline, lead, reasons, score_name
from kgscale.report.texts import Texts
from kgscale.report.thresholds import change
from kgscale.score.results import Scores
from kgscale.score.verdict import Difference, Outcome, Standing, Verdict


@dataclass(frozen=True, slots=True)
class Tile:
    """One large figure."""

    label: str
    value: str
    before: str
    """The baseline's figure; empty where there is none."""
    note: str


@dataclass(frozen=True, slots=True)
class Square:
    """One cell of the decision matrix; `hits` are ● and ○ where the candidate falls into it."""

    action: str
    text: str
    hits: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A row of the decision matrix."""

    label: str
    squares: tuple[Square, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """The decision matrix, with where the candidate stands."""

    head: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Hero:
    """The top of the page."""

    tone: str
    """`good`, `warn`, `bad` or `open`: a colour, which the symbol and the badge say in words too."""
    symbol: str
    badge: str
    headline: str
    lead: str
    tiles: tuple[Tile, ...]
    reasons: tuple[str, ...]
    matrix: Matrix | None


_TONES = {
    Outcome.RECOMMENDED: ("good", "✓"),
    Outcome.LOOK: ("warn", "?"),
    Outcome.NOT_RECOMMENDED: ("bad", "✕"),
    Outcome.UNDECIDED: ("open", "…"),
}


def hero(scores: Scores, verdict: Verdict | None, rules: CompareConfig | None, t: Texts) -> Hero:
    """What stands at the top; `rules` give the decision matrix."""
    if verdict is None:
        return _without(scores, t)
    tone, symbol = _TONES[verdict.outcome]
    return Hero(
        tone=tone,
        symbol=symbol,
        badge=t(verdict.outcome.value),
        headline=headline(verdict, t),
        lead=lead(verdict, t),
        tiles=(*(_quality(it, t) for it in verdict.differences), _speed(verdict, t)),
        reasons=reasons(verdict, t),
        matrix=_matrix(verdict, rules, t) if rules and verdict.cells else None,
    )


def _without(scores: Scores, t: Texts) -> Hero:
    chunks = whole(max((it.planned for it in scores.methods), default=0))
    if len(scores.methods) == 1:
        head = t("head_one", method=scores.methods[0].method, chunks=chunks)
    else:
        head = t("head_none", count=whole(len(scores.methods)), chunks=chunks)
    about = t("lead_gold", gold=whole(scores.gold.chunks)) if scores.gold else t("lead_no_gold")
    return Hero("open", "…", t("no_verdict"), head, about, (), (), None)


def _quality(it: Difference, t: Texts) -> Tile:
    label = f"{score_name(it, t)} · {it.mode}"
    if it.standing is not Standing.COMPARED:
        missing = UNDEFINED if it.standing is Standing.UNDEFINED else NOT_APPLICABLE
        before, after = (missing if score is None else number(score) for score in (it.baseline, it.candidate))
        return Tile(label, after, before, t("not_compared"))
    note = t("tile_change", change=signed(None if it.drop is None else -it.drop))
    if changed := change(it.interval):
        note += t("comma") + t("interval_95", between=between(changed, "+.1f"))
    return Tile(label, number(it.candidate), number(it.baseline), note)


def _speed(verdict: Verdict, t: Texts) -> Tile:
    note, speed = t("tile_speed_note", baseline=verdict.baseline), verdict.speed_up
    if speed is None:
        return Tile(t("tile_speed"), UNDEFINED, "", note)
    if speed.interval:
        note += t("comma") + t("interval_95", between=between(speed.interval, _form(speed.interval.high)))
    return Tile(t("tile_speed"), t("times_fast", value=number(speed.times, _form(speed.times))), "", note)


def _form(times: float) -> str:
    return ".2f" if times < 10 else ".0f"


def _matrix(verdict: Verdict, rules: CompareConfig, t: Texts) -> Matrix:
    hits: dict[tuple[int, int], str] = {}
    for cell in verdict.cells:
        if cell.speed_up >= 1:
            row = bisect_right(rules.drop_steps, round(cell.drop, 9))
            column = bisect_right(rules.speed_steps, round(cell.speed_up, 9))
            hits[row, column] = hits.get((row, column), "") + ("●" if cell.at == "estimate" else "○")
    rows = tuple(
        MatrixRow(
            label,
            tuple(Square(it, t(it), hits.get((row, column), "")) for column, it in enumerate(rules.matrix[row])),
        )
        for row, label in enumerate(_steps(0, rules.drop_steps))
    )
    note = t("matrix_note") if hits else t("matrix_note") + t("space") + t("matrix_slower")
    return Matrix((t("matrix_drop_speed"), *_steps(1, rules.speed_steps)), rows, note)


def _steps(first: float, borders: tuple[float, ...]) -> list[str]:
    lows = (first, *borders)
    return [*(f"{low:g}–{high:g}" for low, high in zip(lows, borders, strict=False)), f"> {borders[-1]:g}"]

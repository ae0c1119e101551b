# ruff: noqa: RUF001 (a dash between figures)
"""The top of a report: the verdict as a manager reads it, and what led to it."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from kgscale.config import CompareConfig
from kgscale.report.figures import UNDEFINED, number, share, signed, whole
from kgscale.report.texts import Texts
from kgscale.score.results import Interval, Scores
from kgscale.score.verdict import Difference, Outcome, Verdict


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
    names = {"baseline": verdict.baseline, "candidate": verdict.candidate}
    return Hero(
        tone=tone,
        symbol=symbol,
        badge=t(verdict.outcome.value),
        headline=t(f"head_{verdict.outcome.value}", **names),
        lead=lead(scores, verdict, t),
        tiles=(*(_quality(it, t) for it in verdict.differences), _speed(verdict, t)),
        reasons=reasons(scores, verdict, t),
        matrix=_matrix(verdict, rules, t) if rules and verdict.cells else None,
    )


def lead(scores: Scores, verdict: Verdict, t: Texts) -> str:
    """What a manager should know, in one sentence: what changes, or what stands in the way."""
    names = {"baseline": verdict.baseline, "candidate": verdict.candidate}
    facts = list(_facts(verdict, t))
    if facts and not _stopped(scores, verdict):
        return t("lead_facts", facts=_listed(facts, t), **names)
    if t.lang == "en":
        return verdict.sentence
    return t("lead_obstacles", facts=_listed(list(_obstacles(scores, verdict, t)), t))


def reasons(scores: Scores, verdict: Verdict, t: Texts) -> tuple[str, ...]:
    """What led to the verdict: its own words in English, the same facts told anew in any other language."""
    if t.lang == "en":
        return tuple(f"{it[0].upper()}{it[1:]}." for it in verdict.reasons if it)
    return tuple(f"{it}。" for it in _retold(scores, verdict, t))


def _without(scores: Scores, t: Texts) -> Hero:
    chunks = whole(max((it.planned for it in scores.methods), default=0))
    if len(scores.methods) == 1:
        headline = t("head_one", method=scores.methods[0].method, chunks=chunks)
    else:
        headline = t("head_none", count=whole(len(scores.methods)), chunks=chunks)
    told = t("lead_gold", gold=whole(scores.gold.chunks)) if scores.gold else t("lead_no_gold")
    return Hero("open", "…", t("no_verdict"), headline, told, (), (), None)


def _quality(it: Difference, t: Texts) -> Tile:
    label = f"{t('tile_f1', what=t(it.what.capitalize()))} · {it.mode}"
    if it.drop is None:
        return Tile(label, number(it.candidate), number(it.baseline), t("not_compared"))
    # People read a loss as a minus; `drop` counts it upwards.
    change = Interval(-it.interval.high, -it.interval.low) if it.interval else None
    note = t("tile_change", change=signed(-it.drop))
    if change:
        ends = f"{signed(change.low)} … {signed(change.high)}"
        note = note + t("comma") + t("interval_95", between=ends)
    return Tile(label, number(it.candidate), number(it.baseline), note)


def _speed(verdict: Verdict, t: Texts) -> Tile:
    note = t("tile_speed_note", baseline=verdict.baseline)
    if verdict.speed_up is None:
        return Tile(t("tile_speed"), UNDEFINED, "", note)
    value = t("times_fast", value=number(verdict.speed_up, ".2f" if verdict.speed_up < 10 else ".0f"))
    return Tile(t("tile_speed"), value, "", note)


def _facts(verdict: Verdict, t: Texts) -> Iterator[str]:
    for it in verdict.differences:
        if it.drop is not None:
            way = "stays" if abs(it.drop) < 0.05 else "falls" if it.drop > 0 else "rises"
            points = number(abs(it.drop), ".1f")
            yield t(f"fact_{way}", what=t(it.what), points=points, f1=number(it.candidate))
    if verdict.speed_up:
        faster = verdict.speed_up >= 1
        times = verdict.speed_up if faster else 1 / verdict.speed_up
        way = "fact_faster" if faster else "fact_slower"
        yield t(way, candidate=verdict.candidate, times=number(times, ".1f"))


def _listed(facts: list[str], t: Texts) -> str:
    if len(facts) < 3:
        return t("and").join(facts)
    return t("comma").join((*facts[:-1], t("and_last", last=facts[-1])))


def _stopped(scores: Scores, verdict: Verdict) -> bool:
    """Whether the verdict is open for another reason than figures that disagree."""
    actions = {it.action for it in verdict.cells}
    return verdict.outcome is Outcome.UNDECIDED and (scores.gold is None or len(actions) < 2)


def _obstacles(scores: Scores, verdict: Verdict, t: Texts) -> Iterator[str]:
    if scores.gold is None:
        yield t("reason_no_gold")
        return
    for name in (verdict.baseline, verdict.candidate):
        method = scores.method(name)
        if method and method.coverage is not None and method.coverage < 1:
            yield t("reason_coverage", method=name, coverage=share(method.coverage))
    for it in verdict.differences:
        if it.drop is None:
            yield t("reason_undefined", what=t(it.what))


def _retold(scores: Scores, verdict: Verdict, t: Texts) -> Iterator[str]:
    if _stopped(scores, verdict):
        yield from _obstacles(scores, verdict, t)
    if verdict.speed_up is None:
        yield t("reason_speed")
    elif verdict.speed_up < 1:
        names = {"baseline": verdict.baseline, "candidate": verdict.candidate}
        yield t("reason_slower", speed=number(verdict.speed_up, ".2g"), **names)
    # Where both ends of the interval lead to the same answer, the estimate tells it.
    told = verdict.cells if len({it.action for it in verdict.cells}) > 1 else verdict.cells[:1]
    for cell in told:
        speed, drop = number(cell.speed_up, ".3g"), number(cell.drop, ".1f")
        yield t("reason_cell", action=t(cell.action), drop=drop, speed=speed, at=t(cell.at))
    for it in verdict.differences:
        yield from _about(it, verdict, t)
    if verdict.chunks_needed is not None:
        yield t("reason_needed", chunks=whole(verdict.chunks_needed))
    for name in (verdict.baseline, verdict.candidate):
        method = scores.method(name)
        if method and method.statuses.rows < method.planned:
            rows, planned = whole(method.statuses.rows), whole(method.planned)
            yield t("reason_unfinished", method=name, rows=rows, planned=planned)


def _about(it: Difference, verdict: Verdict, t: Texts) -> Iterator[str]:
    if it.drop is None or it.candidate is None:
        return
    drop = number(it.drop, ".1f")
    if it.interval:
        low, high = number(it.interval.low, ".1f"), number(it.interval.high, ".1f")
        yield t("reason_interval", what=t(it.what), low=low, high=high)
    if it.drop >= it.minimum:
        yield t("reason_minimum", what=t(it.what), drop=drop, limit=f"{it.minimum:g}")
    elif it.drop >= it.recommended:
        yield t("reason_wish", what=t(it.what), drop=drop, limit=f"{it.recommended:g}")
    if it.candidate < it.floor:
        f1, floor = number(it.candidate), f"{it.floor:.2f}"
        yield t("reason_floor", what=t(it.what), candidate=verdict.candidate, f1=f1, floor=floor)
    if it.p_value is not None:
        yield t("reason_p", what=t(it.what), p=number(it.p_value, ".3g"))


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
    note = t("matrix_note") if hits else f"{t('matrix_note')} {t('matrix_slower')}"
    return Matrix((t("matrix_drop_speed"), *_steps(1, rules.speed_steps)), rows, note)


def _steps(first: float, borders: tuple[float, ...]) -> list[str]:
    lows = (first, *borders)
    return [*(f"{low:g}–{high:g}" for low, high in zip(lows, borders, strict=False)), f"> {borders[-1]:g}"]

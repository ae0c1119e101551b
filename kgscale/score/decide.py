"""The rules that turn differences and a speed-up into a verdict."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from kgscale.config import Action, CompareConfig
from kgscale.score.verdict import Cell, Difference, Outcome, Verdict

_OUTCOMES: dict[Action, Outcome] = {
    "use": Outcome.RECOMMENDED,
    "look": Outcome.LOOK,
    "keep": Outcome.NOT_RECOMMENDED,
}
MOST_CHUNKS = 1_000_000
"""More chunks than this are nobody's plan."""
_SEVERITY = list(_OUTCOMES.values())


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be decided on."""

    baseline: str
    candidate: str
    differences: tuple[Difference, ...]
    speed_up: float | None
    chunks: int
    """The number of gold chunks."""
    obstacles: tuple[str, ...] = ()
    """What forbids any verdict, such as missing gold."""
    notes: tuple[str, ...] = ()
    """What the reader should keep in mind."""


@dataclass(frozen=True, slots=True)
class _Cap:
    """A reason why the outcome cannot be better than `outcome`."""

    outcome: Outcome
    reason: str


def decide(case: Case, rules: CompareConfig) -> Verdict:
    """The verdict on a case.

    The larger of the entity and the relation drop and the speed-up choose a cell of the matrix. A drop at or above its
    minimum threshold, or an F1 below its floor, makes the outcome worse; an F1 below the floor that is no worse than
    the baseline's still only asks for a closer look, because an improvement never fails. The drop is also taken at both
    ends of its interval: where the outcomes differ, the verdict is undecided.
    """
    cells = _cells(case, rules)
    caps = [cap for difference in case.differences for cap in _caps(difference, case)]
    at_ends = {max((_OUTCOMES[it.action], *(cap.outcome for cap in caps)), key=_SEVERITY.index) for it in cells}
    outcome = at_ends.pop() if len(at_ends) == 1 and not case.obstacles else Outcome.UNDECIDED
    open_question = outcome is Outcome.UNDECIDED and not case.obstacles
    needed = chunks_needed(cells, case.chunks, rules) if open_question else None
    lost = any(it.drop is not None and it.drop > 0 for it in case.differences)
    return Verdict(
        baseline=case.baseline,
        candidate=case.candidate,
        outcome=outcome,
        sentence=_sentence(case, outcome, needed),
        reasons=(
            *_significance(case),
            *_cell_reasons(case, cells),
            *(it.reason for it in caps),
            *_recommended(case),
            *case.notes,
        ),
        differences=case.differences,
        speed_up=case.speed_up,
        cells=cells,
        chunks_needed=needed,
        passed=outcome is Outcome.RECOMMENDED or (outcome is Outcome.LOOK and not lost),
    )


def action_at(drop: float, speed_up: float, rules: CompareConfig) -> Action:
    """The matrix's answer to a drop in points at a speed-up.

    A border belongs to the row or column above it. The matrix begins at equal speed: of a slower candidate, one whose
    drop is in the first row is worth a look, because it may be better, and any other is not.
    """
    # 0.80 - 0.78 is a little more than 2 points in binary.
    row = bisect_right(rules.drop_steps, round(drop, 9))
    if speed_up < 1:
        return "look" if row == 0 else "keep"
    return rules.matrix[row][bisect_right(rules.speed_steps, round(speed_up, 9))]


def chunks_needed(cells: Sequence[Cell], chunks: int, rules: CompareConfig) -> int | None:
    """About how many chunks would make the interval so narrow that all of it leads to the estimate's cell.

    An interval shrinks with the square root of the number of chunks; the nearest border where the action changes must
    fall outside it. Null where that would take more than `MOST_CHUNKS`, because the estimate is next to the border.
    """
    by_end = {it.at: it.drop for it in cells}
    if "low" not in by_end:
        return None
    estimate, speed = by_end["estimate"], cells[0].speed_up
    action = action_at(estimate, speed, rules)
    # Just below a border is still the row above it.
    below = [
        border for border in rules.drop_steps if border <= estimate and action_at(border - 1e-6, speed, rules) != action
    ]
    above = [border for border in rules.drop_steps if border > estimate and action_at(border, speed, rules) != action]
    ratios = [(estimate - by_end["low"]) / max(estimate - max(below), 1e-9)] if below else []
    ratios += [(by_end["high"] - estimate) / (min(above) - estimate)] if above else []
    needed = math.ceil(round(chunks * max(ratios, default=0) ** 2, 6))
    return needed if 0 < needed <= MOST_CHUNKS else None


def _cells(case: Case, rules: CompareConfig) -> tuple[Cell, ...]:
    known = [it for it in case.differences if it.drop is not None]
    if not known:
        return ()
    speed = 1.0 if case.speed_up is None else case.speed_up
    ends = [("estimate", max(it.drop for it in known if it.drop is not None))]
    intervals = [it.interval for it in known if it.interval is not None]
    if intervals:
        ends += [("low", max(it.low for it in intervals)), ("high", max(it.high for it in intervals))]
    return tuple(Cell(at, drop, speed, action_at(drop, speed, rules)) for at, drop in ends)


def _caps(it: Difference, case: Case) -> list[_Cap]:
    if it.drop is None or it.candidate is None:
        return []
    caps = []
    if it.drop >= it.minimum:
        caps.append(_Cap(Outcome.LOOK, f"{it.what} F1 drops by {it.drop:.1f} points; below {it.minimum:g} is needed"))
    if it.candidate < it.floor:
        text = f"the {it.what} F1 of {case.candidate}, {it.candidate:.3f}, is below the floor of {it.floor:.2f}"
        if it.drop > 0:
            caps.append(_Cap(Outcome.NOT_RECOMMENDED, text))
        else:
            caps.append(_Cap(Outcome.LOOK, f"{text}, but that of {case.baseline} is no better"))
    return caps


def _significance(case: Case) -> list[str]:
    return [
        f"the {it.what} drop lies between {it.interval.low:.1f} and {it.interval.high:.1f} points with 95 % confidence "
        f"(p = {it.p_value:.2g} for no difference)"
        for it in case.differences
        if it.interval is not None and it.p_value is not None
    ]


def _recommended(case: Case) -> list[str]:
    return [
        f"{it.what} F1 drops by {it.drop:.1f} points; below {it.recommended:g} is recommended"
        for it in case.differences
        if it.drop is not None and it.recommended <= it.drop < it.minimum
    ]


def _cell_reasons(case: Case, cells: Sequence[Cell]) -> list[str]:
    reasons = []
    if case.speed_up is None:
        reasons.append("the speed-up is unknown, because not every method has timings: equal speed is assumed")
    elif case.speed_up < 1:
        reasons.append(f"at {case.speed_up:.2g} times the speed, {case.candidate} is slower than {case.baseline}")
    for it in cells[:1]:
        where = "the matrix" if it.speed_up >= 1 else "the rule for slower candidates"
        speed = "equal speed" if it.speed_up == 1 else f"{it.speed_up:.3g} times the speed"
        others = [
            f"`{end.action}` to the {end.at} end of its interval ({end.drop:.1f})"
            for end in cells
            if end.action != it.action
        ]
        but = f", but {' and '.join(others)}" if others else ""
        reasons.append(f"{where} says `{it.action}` to {_points(it.drop)} at {speed}{but}")
    return reasons


def _sentence(case: Case, outcome: Outcome, needed: int | None) -> str:
    facts = [_change(it) for it in case.differences if it.drop is not None]
    if case.speed_up is not None:
        facts.append(_speed(case.speed_up))
    told = ", ".join(facts)
    match outcome:
        case Outcome.RECOMMENDED:
            return f"{case.candidate} may replace {case.baseline}: {told}."
        case Outcome.LOOK:
            return f"{case.candidate} needs a closer look before it replaces {case.baseline}: {told}."
        case Outcome.NOT_RECOMMENDED:
            return f"Keep {case.baseline}; {case.candidate} is not recommended: {told}."
        case Outcome.UNDECIDED if case.obstacles:
            return f"No verdict on {case.candidate} against {case.baseline}: {'; '.join(case.obstacles)}."
        case _:
            much = f"about {needed:,} gold chunks would decide" if needed else "even many more chunks may not decide"
            question = f"Undecided between {case.baseline} and {case.candidate} on {case.chunks:,} gold chunks"
            return f"{question}; {much}: {told}."


def _change(it: Difference) -> str:
    assert it.drop is not None
    if abs(it.drop) < 0.05:
        return f"{it.what} F1 stays at {it.candidate:.3f}"
    way = "falls" if it.drop > 0 else "rises"
    return f"{it.what} F1 {way} by {abs(it.drop):.1f} points to {it.candidate:.3f}"


def _speed(speed_up: float) -> str:
    return f"{speed_up:.1f} times faster" if speed_up >= 1 else f"{1 / speed_up:.1f} times slower"


def _points(drop: float) -> str:
    return f"a drop of {drop:.1f} points" if drop >= 0 else f"a gain of {-drop:.1f} points"

"""The rules that turn differences and a speed-up into a verdict."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgscale.config import Action, CompareConfig
from kgscale.score.verdict import Cell, Difference, Fact, Kind, Outcome, SampleSize, SpeedUp, Value, Verdict

_OUTCOMES: dict[Action, Outcome] = {
    "use": Outcome.RECOMMENDED,
    "look": Outcome.LOOK,
    "keep": Outcome.NOT_RECOMMENDED,
}
FEWEST_CHUNKS = 30
"""With fewer chunks an interval is too rough for the rule of the square root."""
MOST_CHUNKS = 1_000_000
"""More chunks than this are nobody's plan."""
_SEVERITY = list(_OUTCOMES.values())


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be decided on."""

    baseline: str
    candidate: str
    differences: tuple[Difference, ...]
    speed_up: SpeedUp | None
    chunks: int
    """The number of gold chunks."""
    rag: tuple[Difference, ...] = ()
    obstacles: tuple[Fact, ...] = ()
    """What forbids any verdict, such as missing gold."""
    notes: tuple[Fact, ...] = ()
    """What the reader should keep in mind."""
    samples: tuple[SampleSize, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cap:
    """A reason why the outcome cannot be better than `outcome`."""

    outcome: Outcome
    fact: Fact


def decide(case: Case, rules: CompareConfig) -> Verdict:
    """The verdict on a case.

    The larger of the entity and the relation drop and the speed-up choose a cell of the matrix. A drop at or above its
    minimum threshold, or a score below its floor, makes the outcome worse; a score below the floor that is no worse
    than the baseline's still only asks for a closer look, because an improvement never fails. The drop is also taken at
    both ends of its interval: where the outcomes differ, the verdict is undecided. The speed-up's interval is told, but
    decides nothing: more gold would not narrow it.
    """
    cells = _cells(case, rules)
    thresholds = (*case.differences, *case.rag)
    caps = [cap for difference in thresholds for cap in _caps(difference, case)]
    at_ends = {max((_OUTCOMES[it.action], *(cap.outcome for cap in caps)), key=_SEVERITY.index) for it in cells}
    outcome = at_ends.pop() if len(at_ends) == 1 and not case.obstacles else Outcome.UNDECIDED
    needed = chunks_needed(cells, case.chunks, rules)
    lost = any(it.drop is not None and it.drop > 0 for it in thresholds)
    return Verdict(
        baseline=case.baseline,
        candidate=case.candidate,
        outcome=outcome,
        passed=outcome is Outcome.RECOMMENDED or (outcome is Outcome.LOOK and not lost),
        chunks=case.chunks,
        obstacles=case.obstacles,
        reasons=(
            *_intervals(case),
            *_speed(case),
            *_matrix(cells),
            *_speed_borders(case, cells, rules),
            *(it.fact for it in caps),
            *_recommended(thresholds),
            *_chunks(case, cells, outcome, needed),
            *case.notes,
        ),
        differences=case.differences,
        rag=case.rag,
        speed_up=case.speed_up,
        cells=cells,
        chunks_needed=needed,
        samples=case.samples,
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
    """About how many chunks make the 95 % interval so narrow that all of it leads to the estimate's cell.

    An interval shrinks with the square root of the number of chunks; the nearest border where the action changes must
    fall outside it. At least `FEWEST_CHUNKS`; null without an interval, without such a border, and where it would take
    more than `MOST_CHUNKS`, because the estimate is next to the border.
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
    return max(needed, FEWEST_CHUNKS) if 0 < needed <= MOST_CHUNKS else None


def _cells(case: Case, rules: CompareConfig) -> tuple[Cell, ...]:
    known = [it for it in case.differences if it.drop is not None]
    if not known:
        return ()
    speed = case.speed_up.times if case.speed_up else 1.0
    ends = [("estimate", max(it.drop for it in known if it.drop is not None))]
    intervals = [it.interval for it in known if it.interval is not None]
    if intervals:
        ends += [("low", max(it.low for it in intervals)), ("high", max(it.high for it in intervals))]
    return tuple(Cell(at, drop, speed, action_at(drop, speed, rules)) for at, drop in ends)


def _caps(it: Difference, case: Case) -> Iterator[_Cap]:
    if it.drop is None or it.candidate is None:
        return
    if it.minimum is not None and it.drop >= it.minimum:
        yield _Cap(Outcome.LOOK, Fact.of(Kind.ABOVE_MINIMUM, what=it.what, drop=it.drop, limit=it.minimum))
    if it.floor is not None and it.candidate < it.floor:
        low: dict[str, Value] = {"what": it.what, "score": it.candidate, "floor": it.floor, "candidate": case.candidate}
        if it.drop > 0:
            yield _Cap(Outcome.NOT_RECOMMENDED, Fact.of(Kind.BELOW_FLOOR, **low))
        else:
            yield _Cap(Outcome.LOOK, Fact.of(Kind.FLOOR_NO_WORSE, **low, baseline=case.baseline))


def _intervals(case: Case) -> Iterator[Fact]:
    for it in case.differences:
        if it.interval is not None and it.p_value is not None:
            worst, best = -it.interval.high, -it.interval.low
            yield Fact.of(Kind.INTERVAL, what=it.what, worst=worst, best=best, p=it.p_value)


def _speed(case: Case) -> Iterator[Fact]:
    it = case.speed_up
    if it is None:
        yield Fact.of(Kind.SPEED_UNKNOWN)
        return
    if it.times < 1:
        yield Fact.of(Kind.SLOWER, candidate=case.candidate, baseline=case.baseline, times=1 / it.times)
    if it.interval:
        yield Fact.of(Kind.SPEED_INTERVAL, slow=it.interval.low, fast=it.interval.high, shards=it.shards)


def _matrix(cells: Sequence[Cell]) -> Iterator[Fact]:
    for it in cells[:1]:
        kind = Kind.CELL if it.speed_up >= 1 else Kind.CELL_SLOWER
        speed: dict[str, Value] = {"speed": it.speed_up} if it.speed_up >= 1 else {}
        yield Fact.of(kind, action=it.action, change=-it.drop, **speed)
        for end in cells[1:]:
            if end.action != it.action:
                yield Fact.of(Kind.CELL_END, action=end.action, change=-end.drop)


def _speed_borders(case: Case, cells: Sequence[Cell], rules: CompareConfig) -> Iterator[Fact]:
    sure = case.speed_up.interval if case.speed_up else None
    for it in cells[:1] if sure else ():
        assert sure
        for end in (sure.low, sure.high):
            action = action_at(it.drop, end, rules)
            if action != it.action:
                yield Fact.of(Kind.SPEED_BORDER, speed=end, action=action)


def _recommended(differences: Sequence[Difference]) -> Iterator[Fact]:
    for it in differences:
        if it.drop is None or it.recommended is None:
            continue
        if it.recommended <= it.drop and (it.minimum is None or it.drop < it.minimum):
            yield Fact.of(Kind.ABOVE_RECOMMENDED, what=it.what, drop=it.drop, limit=it.recommended)


def _chunks(case: Case, cells: Sequence[Cell], outcome: Outcome, needed: int | None) -> Iterator[Fact]:
    """How many gold chunks the question needs; nothing where something else forbids an answer."""
    if case.obstacles or not cells:
        return
    if outcome is Outcome.UNDECIDED:
        yield Fact.of(Kind.TOO_CLOSE) if needed is None else Fact.of(Kind.NEEDED, chunks=needed)
    elif needed is not None and needed < case.chunks:
        yield Fact.of(Kind.ENOUGH, chunks=needed)

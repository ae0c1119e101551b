"""What a verdict consists of."""

from dataclasses import dataclass
from enum import StrEnum

from kgscale.config import Action
from kgscale.score.results import Interval


class Outcome(StrEnum):
    """Whether the candidate may replace the baseline."""

    RECOMMENDED = "recommended"
    LOOK = "needs a closer look"
    NOT_RECOMMENDED = "not recommended"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Difference:
    """F1 of both methods in one mode; null where undefined."""

    what: str
    """`entity` or `relation`."""
    mode: str
    baseline: float | None
    candidate: float | None
    drop: float | None
    """F1 lost against the baseline, in points: negative where the candidate is better."""
    floor: float
    """The F1 that a candidate needs."""
    minimum: float
    """The drop in points from which on it is at best worth a closer look."""
    recommended: float
    """The drop in points that is recommended to stay below."""
    interval: Interval | None = None
    """95 % interval of `drop`, in points, paired."""
    p_value: float | None = None
    """Of no difference, by approximate randomisation."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the decision matrix."""

    at: str
    """Which drop led there: `estimate`, or the `low` or `high` end of its interval."""
    drop: float
    """In points."""
    speed_up: float
    action: Action


@dataclass(frozen=True, slots=True)
class Verdict:
    """May the candidate replace the baseline, and the numbers that led to the answer."""

    baseline: str
    candidate: str
    outcome: Outcome
    sentence: str
    """The answer in one sentence."""
    reasons: tuple[str, ...]
    """What led to it, and what to keep in mind."""
    differences: tuple[Difference, ...]
    """Of entities, and of relations where both methods find them."""
    speed_up: float | None
    """Baseline's amortised time per chunk over the candidate's: below 1 the candidate is slower."""
    cells: tuple[Cell, ...]
    chunks_needed: int | None
    """Where undecided: about how many gold chunks would decide; null where the drop is too close to a border."""
    passed: bool
    """Whether an automatic job may go on: recommended, or a closer look at a candidate that lost nothing."""

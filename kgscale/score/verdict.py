"""What a verdict consists of: figures and facts; the words for them are the report's."""

from collections.abc import Mapping
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


class Kind(StrEnum):
    """What a fact is about; behind each, the names of its values (points are hundredths of F1 or of a score)."""

    NO_GOLD = "no_gold"
    COVERAGE = "coverage"
    """method, coverage, needed: shares of the gold chunks."""
    UNDEFINED = "undefined"
    """what, mode."""
    INTERVAL = "interval"
    """what, worst, best (95 % interval of the change, in points, negative where lost), p."""
    SPEED_UNKNOWN = "speed_unknown"
    SLOWER = "slower"
    """candidate, baseline, times: how many times the candidate's time per chunk is the baseline's."""
    SPEED_INTERVAL = "speed_interval"
    """slow, fast (95 % interval of the speed-up), shards."""
    SPEED_BORDER = "speed_border"
    """speed, action: what an end of the speed-up's interval would lead to, where that differs."""
    CELL = "cell"
    """action, change (points), speed: what the matrix says to the estimate."""
    CELL_SLOWER = "cell_slower"
    """action, change: what the rule for slower candidates says."""
    CELL_END = "cell_end"
    """action, change: what an end of the interval would lead to, where that differs."""
    ABOVE_MINIMUM = "above_minimum"
    """what, drop, limit: the drop that must stay below `limit` does not."""
    ABOVE_RECOMMENDED = "above_recommended"
    """what, drop, limit: the drop that should stay below `limit` does not."""
    BELOW_FLOOR = "below_floor"
    """what, score, floor, candidate: it is too low, and lower than the baseline's."""
    FLOOR_NO_WORSE = "floor_no_worse"
    """what, score, floor, candidate, baseline: it is too low, but no lower than the baseline's."""
    NEEDED = "needed"
    """chunks: gold chunks that would decide at 95 %."""
    TOO_CLOSE = "too_close"
    """Nothing short of a very large gold would decide: the estimate is next to a border."""
    ENOUGH = "enough"
    """chunks: gold chunks that would have been enough to decide at 95 %."""
    NO_RELATIONS = "no_relations"
    """methods: they look for none, so relations were not compared."""
    UNFINISHED = "unfinished"
    """method, rows, planned."""
    SAME_FAMILY = "same_family"
    """annotator, model, method: the gold's maker is of the family of the method's model."""
    UNKNOWN_ANNOTATOR = "unknown_annotator"
    """pseudo: gold chunks annotated by a model that the file does not name."""
    PARTIAL_GOLD = "partial_gold"
    """partial, chunks: so many of the gold chunks are not annotated exhaustively."""
    MODE_NAME = "mode_name"
    """name, mode: the LightRAG guide's name of a mode, and ours."""
    LOST = "lost"
    """relations, baseline, candidate, entity_missing (share), cause (the most frequent)."""


Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that led to a verdict, stands in its way, or should be kept in mind."""

    kind: Kind
    values: Mapping[str, Value]

    @classmethod
    def of(cls, kind: Kind, **values: Value) -> "Fact":
        """A fact with its values by name."""
        return cls(kind, values)


class Standing(StrEnum):
    """Whether a threshold could be looked at."""

    COMPARED = "compared"
    NOT_APPLICABLE = "not applicable"
    """A method or the gold does not give what it takes."""
    UNDEFINED = "undefined"
    """There is nothing to divide by."""
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Difference:
    """A score of both methods beside its thresholds: scores from 0 to 1, drops in points, null where there is none."""

    what: str
    """`entity` or `relation` (F1), or the name of a RAG score."""
    mode: str
    """When an item counts as found; empty for a RAG score."""
    baseline: float | None
    candidate: float | None
    drop: float | None
    """What is lost against the baseline: negative where the candidate is better."""
    floor: float | None
    """The score that a candidate needs."""
    minimum: float | None
    """The drop from which on it is at best worth a closer look."""
    recommended: float | None
    """The drop that is recommended to stay below."""
    interval: Interval | None = None
    """95 % interval of `drop`, paired."""
    p_value: float | None = None
    """Of no difference, by approximate randomisation."""
    standing: Standing = Standing.COMPARED


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
class SpeedUp:
    """How many times faster the candidate is: below 1 it is slower."""

    times: float
    """The baseline's mean amortised time per chunk over the candidate's."""
    interval: Interval | None = None
    """95 % interval; null with too few shards to tell."""
    shards: int = 0
    """Shards that both methods have finished, on which the interval stands."""


@dataclass(frozen=True, slots=True)
class SampleSize:
    """What samples of one size would have shown."""

    chunks: int
    drop: Interval
    """The middle 95 % of the drops that such samples show, in points; the larger of entities and relations."""
    deviation: float
    """Standard deviation of that drop, in points."""
    other_action: float
    """Share of the samples that lead to another action than the whole corpus does."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """May the candidate replace the baseline, and the numbers that led to the answer."""

    baseline: str
    candidate: str
    outcome: Outcome
    passed: bool
    """Whether an automatic job may go on: recommended, or a closer look at a candidate that lost nothing."""
    chunks: int
    """Gold chunks."""
    obstacles: tuple[Fact, ...]
    """What forbids a verdict."""
    reasons: tuple[Fact, ...]
    """What led to it, and what to keep in mind."""
    differences: tuple[Difference, ...]
    """Of entities and of relations."""
    rag: tuple[Difference, ...]
    """Of answers by retrieval, where `rag.json` gives the scores."""
    speed_up: SpeedUp | None
    """Null where a method has no timings."""
    cells: tuple[Cell, ...]
    chunks_needed: int | None
    """About how many gold chunks decide at 95 %; null without an interval or a border, and with a border too near."""
    samples: tuple[SampleSize, ...] = ()
    """How wrong smaller samples of the gold chunks would have been."""

    @property
    def compared_relations(self) -> bool:
        """Whether the verdict is about relations too."""
        return any(it.what == "relation" and it.drop is not None for it in self.differences)

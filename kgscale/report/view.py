"""What is shown, before it is put into HTML or Markdown: tables of cells, and which figures are in focus."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from kgscale.score.match import Mode
from kgscale.score.results import Interval, Scores
from kgscale.score.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; a figure stands to the right, and may have a bar of 0 to 1 below it."""

    text: str
    note: str = ""
    """Something smaller below, such as an interval."""
    bar: float | None = None
    sure: Interval | None = None
    """Of the bar, drawn as a shade around its end."""
    figure: bool = True
    strong: bool = False
    tone: Literal["", "good", "warn", "bad", "soft"] = ""
    """A colour, beside a sign that says the same."""


@dataclass(frozen=True, slots=True)
class Group:
    """A heading over several columns."""

    title: str
    columns: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first cell of each row names the row."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    groups: tuple[Group, ...] = ()
    note: str = ""
    """A sentence below it."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart, drawn for a wide screen and for a phone."""

    title: str
    wide: Markup
    narrow: Markup
    note: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; what is empty is not shown."""

    id: str
    title: str
    nav: str = ""
    """A shorter title."""
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    folded: tuple[Table, ...] = ()
    """Tables that are opened by a click."""

    def __bool__(self) -> bool:
        return bool(self.tables or self.charts or self.folded)


@dataclass(frozen=True, slots=True)
class Focus:
    """The methods and the modes that the verdict, and so the report, is about."""

    baseline: str | None
    candidate: str | None
    entity_mode: str | None
    """Null where no method has a figure of an entity mode."""
    relation_mode: str | None

    @classmethod
    def of(cls, scores: Scores, verdict: Verdict | None) -> "Focus":
        """What the verdict compares; without one, the strictest modes below `pair+type+entity_types`."""
        wanted = {it.what: it.mode for it in verdict.differences} if verdict else {}
        known = {it.mode for method in scores.methods for it in method.metrics}
        entity = (wanted.get("entity"), Mode.NAME_TYPE, Mode.NAME)
        relation = (wanted.get("relation"), Mode.PAIR_TYPE, Mode.PAIR, Mode.PAIR_UNDIRECTED)
        return cls(
            baseline=verdict.baseline if verdict else None,
            candidate=verdict.candidate if verdict else None,
            entity_mode=_first(entity, known),
            relation_mode=_first(relation, known),
        )

    def ordered(self, methods: Iterable[str]) -> list[str]:
        """Baseline and candidate first, the others as they come."""
        first = [self.baseline, self.candidate]
        return sorted(methods, key=lambda it: first.index(it) if it in first else len(first))


def named(text: str) -> Cell:
    """A cell of words."""
    return Cell(text, figure=False)


def _first(wanted: Iterable[str | None], known: set[str]) -> str | None:
    return next((str(it) for it in wanted if it in known), None)

"""What each source's types are called in training: many wordings for one type, so that a model reads the label.

A scheme is the list of types that a source annotates completely. A view is one way to ask for them: it covers one or
more of the source's types, and has several wordings, one of which is drawn for each example. A view none of whose types
occurs in an example is a true negative there, unless a type occurs that may or may not be meant (`unsure`). The schemes
lie in `grammar/labels.txt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "grammar" / "labels.txt"


@dataclass(frozen=True)
class View:
    """A label that may be asked: the source types it covers, those that rule it out, and how it may be worded."""

    covers: frozenset[str]
    unsure: frozenset[str]
    wordings: tuple[str, ...]


@dataclass(frozen=True)
class Scheme:
    """A source's views, and labels of other schemes that its texts hardly ever hold (`aliens`)."""

    views: tuple[View, ...]
    aliens: tuple[str, ...]


def _read_schemes() -> dict[str, Scheme]:
    schemes: dict[str, Scheme] = {}
    for section in FILE.read_text(encoding="utf-8").split("\n[")[1:]:
        name, *lines = (line for line in section.splitlines() if line)
        views = tuple(_view(line) for line in lines if not line.startswith("!"))
        aliens = tuple(word for line in lines if line.startswith("!") for word in _words(line[1:]))
        schemes[name.rstrip("]")] = Scheme(views, aliens)
    return schemes


def _view(line: str) -> View:
    types, wordings = line.split("=", 1)
    covers, _, unsure = types.partition("~")
    return View(frozenset(covers.split()), frozenset(unsure.split()), _words(wordings))


def _words(cell: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in cell.split("|"))


SCHEMES = _read_schemes()

"""Finding a name that an LLM gave in the text it came from."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cached_property

_JOINING = frozenset(map(chr, (*range(0x1160, 0x1200), 0xFF9E, 0xFF9F)))
"""Letters that normalisation melts into the one before them: vowels and finals of Hangul, half-width voiced marks."""


class Grounding:
    """Looks names up in one text: exactly as they stand first, then by normalised form.

    The normalised form is NFKC, lower case, runs of white space as one space: the key by which names are scored.
    There is no fuzzy search, which is slow on long texts and finds names that are not there.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def find(self, name: str) -> tuple[int, int] | None:
        """The offsets of the first occurrence, end exclusive; one that is no part of a longer word goes first."""
        return next(_occurrences(self._text, name), None) or self._normalised_find(name)

    def _normalised_find(self, name: str) -> tuple[int, int] | None:
        text, starts, stops = self._normalised
        for first, last in _occurrences(text, " ".join(unicodedata.normalize("NFKC", name).lower().split())):
            if first in starts and last in stops:
                return starts[first], stops[last]
        return None

    @cached_property
    def _normalised(self) -> tuple[str, dict[int, int], dict[int, int]]:
        """The normalised text, and the offsets in the text of the places in it where a character begins or ends."""
        letters: list[str] = []
        starts: dict[int, int] = {}
        stops: dict[int, int] = {}
        for begin, end in _characters(self._text):
            at = len(letters)
            for letter in unicodedata.normalize("NFKC", self._text[begin:end]).lower():
                if not letter.isspace():
                    letters.append(letter)
                elif not letters or letters[-1] != " ":
                    letters.append(" ")
            if len(letters) > at:
                starts[at] = begin
                stops[len(letters)] = end
        return "".join(letters), starts, stops


def _characters(text: str) -> Iterator[tuple[int, int]]:
    """The offsets of each character together with the marks that normalisation may melt into it."""
    begin = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or not (unicodedata.category(text[at]).startswith("M") or text[at] in _JOINING):
            yield begin, at
            begin = at


def _occurrences(text: str, name: str) -> Iterator[tuple[int, int]]:
    if name and name in text:
        literal = re.escape(name)
        yield from (match.span() for match in re.finditer(rf"(?<!\w){literal}(?!\w)", text))
        yield from (match.span() for match in re.finditer(literal, text))

"""Where a document is better cut, and where not: its headings, sentences and lines, as slices of the text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MARKED_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_RULE_CHARACTERS = "=-~^\"'*+#:._"
_LONGEST_HEADING = 200
# A list item, a table row, a quotation, a directive or a field never stands in the middle of a sentence.
_ITEM = re.compile(r"[ \t]*(?:[-*+•][ \t]|\d{1,3}[.)][ \t]|\||>|\.\. |:\w+:)")
_FENCES = ("```", "~~~")
# Possessive, and looking back once: a million full stops in a row must not take a million times a million steps.
_SENTENCE_END = re.compile(
    r"""[。！？；…।؟۔]++["'”’」』）】》)\]]*+"""  # noqa: RUF001
    r"""|(?<![.!?])[.!?]++["'”’»)\]]*+\s++(?=[^a-z])"""  # noqa: RUF001
)
# A full stop after these ends no sentence: abbreviations, and an initial.
_ABBREVIATION = re.compile(
    r"(?<![\w.])(?:[A-Z]|Dr|Mr|Mrs|Ms|Prof|St|Sr|Jr|vs|cf|al|e\.g|i\.e|Figs?|Eq|Sec|Ch|Nos?|Vol|pp|approx|ca)$"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text that is better not cut, `end` exclusive, without outer white space."""

    start: int
    end: int
    heading: bool = False


def pieces(text: str) -> Iterator[Piece]:
    """The headings and sentences of a text, in order; every visible character is in exactly one.

    A heading is a line that starts with `#`, or one with a rule of `===`, `---` … under it (and perhaps over it), as
    Markdown and reStructuredText have them. In fenced code every line is a piece.
    """
    lines = text.splitlines(keepends=True)
    index = at = start = 0  # start of the running paragraph
    fenced = False
    while index < len(lines):
        line = lines[index]
        fence = line.lstrip().startswith(_FENCES)
        heading = 0 if fenced or fence else _heading_lines(lines, index)
        if heading:
            yield from _sentences(text, start, at)
            start = at + sum(map(len, lines[index : index + heading]))
            yield from _piece(text, at, start, heading=True)
            at, index = start, index + heading
            continue
        if fenced or fence or not line.strip() or _ITEM.match(line):
            yield from _sentences(text, start, at)
            start = at
        fenced ^= fence
        at, index = at + len(line), index + 1
    yield from _sentences(text, start, at)


def lines_of(text: str, piece: Piece) -> Iterator[Piece]:
    """The lines of a piece, for one that must be cut after all."""
    at = piece.start
    for line in text[piece.start : piece.end].splitlines(keepends=True):
        yield from _piece(text, at, at + len(line))
        at += len(line)


def _heading_lines(lines: list[str], index: int) -> int:
    """How many lines the heading that starts at `index` has; 0 if none starts there."""
    line = lines[index]
    if len(line) > _LONGEST_HEADING or not line.strip():
        return 0
    if _MARKED_HEADING.match(line):
        return 1
    if index > 0 and lines[index - 1].strip():
        return 0
    after = lines[index + 1 : index + 3]
    if _is_rule(line):
        framed = len(after) == 2 and bool(after[0].strip()) and after[1].strip()[:1] == line[0] and _is_rule(after[1])
        return 3 if framed else 0
    return 2 if after and _is_rule(after[0]) and not _ITEM.match(line) else 0


def _is_rule(line: str) -> bool:
    line = line.rstrip()
    return len(line) >= 3 and line[0] in _RULE_CHARACTERS and line == line[0] * len(line)


def _sentences(text: str, start: int, end: int) -> Iterator[Piece]:
    at = start
    for match in _SENTENCE_END.finditer(text, start, end):
        stop = match.start()
        abbreviated = text[stop] == "." and _ABBREVIATION.search(text, max(start, stop - 8), stop)
        # The number of a list item is no sentence.
        if not abbreviated and not text[at:stop].strip().isdigit():
            yield from _piece(text, at, match.end())
            at = match.end()
    yield from _piece(text, at, end)


def _piece(text: str, start: int, end: int, *, heading: bool = False) -> Iterator[Piece]:
    """The stretch without its outer white space; nothing if it is all white space."""
    stretch = text[start:end]
    visible = stretch.strip()
    if visible:
        start += len(stretch) - len(stretch.lstrip())
        yield Piece(start, start + len(visible), heading)

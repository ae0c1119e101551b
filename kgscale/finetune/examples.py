"""Training examples: words with typed spans, stored one per line, and kept apart from what will be scored."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgscale.errors import UserError

# The word pattern of gliner's default splitter: training must cut words where extraction does.
WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")
NGRAM = 8


@dataclass(frozen=True)
class Span:
    """Words `start` to `end` (inclusive) carry `label`."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class Example:
    """A text as words, with the spans that its source annotates.

    `source` names the label scheme: the spans are complete for the types of that scheme, so any type of the scheme
    that is absent is a true negative.
    """

    words: tuple[str, ...]
    spans: tuple[Span, ...]
    source: str


def from_offsets(text: str, entities: Iterable[tuple[int, int, str]], source: str) -> Example:
    """Cut `text` into words and widen each entity (start and end in characters, end exclusive) to whole words."""
    matches = list(WORD.finditer(text))
    spans = set()
    for start, end, label in entities:
        inside = [i for i, match in enumerate(matches) if match.start() < end and match.end() > start]
        if inside and start < end:
            spans.add(Span(inside[0], inside[-1], label))
    ordered = sorted(spans, key=lambda span: (span.start, span.end, span.label))
    return Example(tuple(match.group() for match in matches), tuple(ordered), source)


def write_examples(path: Path, examples: Iterable[Example]) -> int:
    """Store examples as gzipped JSON lines, the whole file or none of it; returns how many."""
    count = 0
    unfinished = path.with_name(f".{path.name}.partial")
    with gzip.open(unfinished, "wt", encoding="utf-8", compresslevel=5) as file:
        for example in examples:
            spans = [[span.start, span.end, span.label] for span in example.spans]
            file.write(json.dumps([example.source, example.words, spans], ensure_ascii=False) + "\n")
            count += 1
    unfinished.replace(path)
    return count


def read_examples(path: Path) -> Iterator[Example]:
    """The examples of a file that `write_examples` wrote; UserError names the line that cannot be read."""
    lines = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                lines += 1
                source, words, spans = json.loads(line)
                yield Example(tuple(words), tuple(Span(*span) for span in spans), source)
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise UserError(f"not a file of training examples: {error}", where=f"{path}:{lines}") from error


def ngrams(words: Sequence[str]) -> set[int]:
    """Hashes of all runs of eight words, lower case; of the whole text if it is shorter."""
    lowered = [word.lower() for word in words if word[0].isalnum()]
    return {hash(tuple(lowered[i : i + NGRAM])) for i in range(max(1, len(lowered) - NGRAM + 1))}


def without(examples: Iterable[Example], forbidden: set[int]) -> Iterator[Example]:
    """Leave out every example that shares a run of eight words with the texts whose `ngrams` are forbidden."""
    for example in examples:
        if forbidden.isdisjoint(ngrams(example.words)):
            yield example

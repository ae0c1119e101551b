"""Texts that are nearly the same, by what they share of their runs of words."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgscale.text import split_words

SHINGLE = 5
"""Words in a run; a character of a script without spaces is a word."""
SAME = 0.5
"""Texts that share this much of their runs are near-duplicates (Jaccard; Broder 1997). Neighbouring chunks that
overlap by a seventh, as they do by default, share about 0.07."""


@dataclass(frozen=True, slots=True)
class Near:
    """Two texts, by their numbers, and the Jaccard similarity of their runs of words: 1 for the same words."""

    first: int
    second: int
    similarity: float


def near_duplicates(texts: Sequence[str]) -> Iterator[Near]:
    """Every two texts that are nearly the same, exactly, the first text in order; empty texts resemble nothing.

    Case and punctuation aside. Work grows with the pairs that share a run of words, not with all pairs.
    """
    shingles = [_shingles(it) for it in texts]
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, own in enumerate(shingles):
        shared: Counter[int] = Counter(other for run in own for other in holders[run])
        for other, count in sorted(shared.items()):
            similarity = count / (len(own) + len(shingles[other]) - count)
            if similarity >= SAME:
                yield Near(other, number, similarity)
        for run in own:
            holders[run].append(number)


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = [word.lower() for word, _, _ in split_words(text) if word[0].isalnum()]
    return {tuple(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1))} if words else set()

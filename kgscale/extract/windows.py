"""Cutting a long text into overlapping windows, so that an engine reads all of it and owns every part once."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from kgscale.corpus.segment import pieces


@dataclass(frozen=True, slots=True)
class Window:
    """Items `[start, stop)` of a text, read together; what starts in `[core_start, core_stop)` is this window's own."""

    start: int
    stop: int
    core_start: int
    core_stop: int


def windows(weights: Sequence[int], max_items: int, max_weight: int, overlap: int) -> list[Window]:
    """Cover items of the given weights by windows of at most `max_items` items and `max_weight` weight.

    Neighbours share `overlap` items (fewer where the items are heavy), and the border between their cores is the middle
    of what they share: so the cores tile the text, and an item near a border is seen with context on both sides. The
    last window reaches back as far as it may. No item is heavier than `max_weight`, or `ValueError` is raised.
    """
    if not weights:
        return []
    if max(weights) > max_weight or max_items < 1:
        raise ValueError(f"an item of weight {max(weights)} does not fit a window of {max_weight}")
    total = [0, *accumulate(weights)]
    spans: list[tuple[int, int]] = []
    start = 0
    while True:
        stop = start + 1
        while stop < len(weights) and stop - start < max_items and total[stop + 1] - total[start] <= max_weight:
            stop += 1
        if stop == len(weights):
            while start > 0 and stop - start < max_items and total[stop] - total[start - 1] <= max_weight:
                start -= 1
            spans.append((max(start, spans[-1][0] + 1) if spans else start, stop))
            break
        spans.append((start, stop))
        start = max(start + 1, stop - min(overlap, (stop - start) // 2))
        while total[stop + 1] - total[start] > max_weight:
            # A heavy item leaves no room for so much overlap, and a window that gets no further would own nothing.
            start += 1
    # Two windows may own different parts of one text, but every border lies in both of its windows.
    borders = [0, *((after[0] + before[1]) // 2 for before, after in pairwise(spans)), len(weights)]
    return [Window(*span, borders[i], borders[i + 1]) for i, span in enumerate(spans)]


def text_windows(text: str, units: Sequence[tuple[int, int]], longest: int) -> list[str]:
    """Cut a text between its sentences, headings and lines into pieces of at most `longest` units, all of it covered.

    `units` are the offsets of its words or tokens, end exclusive. Neighbours share a sentence where there is room for
    it. A sentence that is longer than a piece is cut into quarters of a piece. A short text comes back whole.
    """
    if len(units) <= longest:
        return [text]
    ends = [end for _, end in units]
    borders = sorted({0, len(units), *(bisect_right(ends, it.start) for it in pieces(text))})
    part = max(1, longest // 4)
    cuts = [
        at
        for first, last in pairwise(borders)
        for at in range(first, last, part if last - first > longest else last - first)
    ]
    edges = [*cuts, len(units)]
    lengths = [last - first for first, last in pairwise(edges)]
    spans = windows(lengths, len(lengths), longest, 1)
    return [text[units[edges[it.start]][0] : units[edges[it.stop] - 1][1]] for it in spans]

"""From the names that a model gives to the places where they stand."""

import re
from collections.abc import Iterable, Iterator

from kgscale.ground import Grounding
from kgscale.records import GoldEntity
from kgscale.text import unspaced


def mentions(text: str, entities: Iterable[tuple[str, str]]) -> list[GoldEntity]:
    """Every place where a name (given with its type) stands as a whole, longer names first: each letter is one name's.

    A name that stands nowhere alone goes to its first occurrence, in whatever form; without one it has no offsets.
    In the order of the text, names without offsets last.
    """
    grounding = Grounding(text)
    taken = bytearray(len(text))
    spans: dict[str, list[tuple[int, int]]] = {}
    types: dict[str, list[str]] = {}
    for name, kind in entities:
        types.setdefault(name, []).append(kind)
    for name in sorted(types, key=len, reverse=True):
        free = [(start, end) for start, end in _places(text, name) if not any(taken[start:end])]
        for start, end in free:
            taken[start:end] = b"\1" * (end - start)
        first = grounding.find(name)
        spans[name] = free or ([first] if first else [])
    placed = [GoldEntity(name, kind, *span) for name, kinds in types.items() for span in spans[name] for kind in kinds]
    placed.sort(key=lambda it: (it.start or 0, it.end or 0))
    return placed + [GoldEntity(name, kind) for name, kinds in types.items() if not spans[name] for kind in kinds]


def _places(text: str, name: str) -> Iterator[tuple[int, int]]:
    # Where a script has no spaces, a name may touch the next word.
    before = "" if unspaced(name[:1]) else r"(?<!\w)"
    after = "" if unspaced(name[-1:]) else r"(?!\w)"
    yield from (it.span() for it in re.finditer(before + re.escape(name) + after, text))

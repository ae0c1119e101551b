"""Several annotators, one annotation: what enough of them say."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kgscale.score.keys import normals

Entity = tuple[str, str]
"""Name and type."""
Triple = tuple[str, str, str]
"""Source, type, target."""
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one annotator says of a text."""

    entities: Sequence[Entity]
    relations: Sequence[Triple]


def vote(opinions: Sequence[Opinion], needed: int, symmetric: Iterable[str] = ()) -> Opinion:
    """What at least `needed` annotators say, in the words of the first who does.

    Names are compared as in scoring. An entity counts by its name, a relation by its ends; its types are those that
    `needed` annotators give it, else the one that most do (of equal ones the first annotator's). A relation of a
    `symmetric` type may be turned around.
    """
    if len(opinions) == 1:
        return opinions[0]
    names = {name for it in opinions for name, _ in it.entities}
    names |= {end for it in opinions for source, _, target in it.relations for end in (source, target)}
    ordered = list(names)
    key = dict(zip(ordered, normals(ordered), strict=True))
    both_ways = set(symmetric)

    def name_of(name: str) -> tuple[str, ...]:
        return (key[name],)

    def ends(source: str, kind: str, target: str) -> tuple[str, ...]:
        pair = (key[source], key[target])
        return tuple(sorted(pair)) if kind in both_ways else pair

    entities = [{(name_of(name), kind): (name, kind) for name, kind in it.entities} for it in opinions]
    relations = [{(ends(*triple), triple[1]): triple for triple in it.relations} for it in opinions]
    return Opinion(_elected(entities, needed), _elected(relations, needed))


def _elected(said: Sequence[Mapping[tuple[tuple[str, ...], str], Item]], needed: int) -> list[Item]:
    voters: Counter[tuple[str, ...]] = Counter(what for it in said for what in dict.fromkeys(what for what, _ in it))
    types: dict[tuple[str, ...], Counter[str]] = {}
    first: dict[tuple[tuple[str, ...], str], Item] = {}
    for it in said:
        for (what, kind), item in it.items():
            types.setdefault(what, Counter())[kind] += 1
            first.setdefault((what, kind), item)
    elected = []
    for what, votes in types.items():
        if voters[what] >= needed:
            winners = [kind for kind, count in votes.items() if count >= needed]
            elected += [first[what, kind] for kind in winners or [votes.most_common(1)[0][0]]]
    return elected

"""Signs that a gold set does not list everything that is in its texts."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kgscale.records import GoldChunk
from kgscale.score.keys import normals
from kgscale.text import split_words

LEAST_NAME = 3
"""Shorter names stand in texts by chance."""
MOST_UNMARKED = 0.1
"""Public sets that annotate everything have 0.004 to 0.075 (Re-DocRED, CrossRE, BioRED, RE3D, WNUT17); StackOverflow
NER, whose names are ordinary words too, has 0.11, and SoMeSci, which leaves some mentions out, 0.16 to 0.22."""
ONLY_ENDS = 0.98
"""In public sets with relations 0.38 to 0.89 of the names are ends of relations; in TekGen, made from triples, all."""
LEAST_ENTITIES = 30
"""Fewer entities tell nothing."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """What was found; shares are null where nothing could be counted."""

    unmarked: list[tuple[str, str]]
    """Chunk id, and a name that stands in its text but is annotated in other chunks only."""
    share: float | None
    """Of the annotated names that stand in each text, the share that is not annotated there."""
    ends: float | None
    """The share of entities that are an end of a relation."""

    def suspicions(self) -> Iterator[str]:
        """Why the gold does not look exhaustive, in words."""
        if self.share is not None and self.share > MOST_UNMARKED:
            yield f"{self.share:.0%} of the annotated names that stand in the texts are not annotated there"
        if self.ends is not None and self.ends > ONLY_ENDS:
            yield "every entity is an end of a relation, as in sets that were made from triples"


def find_gaps(chunks: Sequence[GoldChunk], texts: Mapping[str, str]) -> Gaps:
    """Look for names that stand in a text as whole words, exactly as annotated elsewhere, and are no entity there."""
    by_first: dict[str, list[str]] = defaultdict(list)
    for name in {entity.text for it in chunks for entity in it.entities if len(entity.text) >= LEAST_NAME}:
        first = next(split_words(name), None)
        if first:
            by_first[first[0]].append(name)
    found = 0
    unmarked = []
    for it in chunks:
        standing = sorted(_standing(texts.get(it.chunk_id, ""), by_first))
        found += len(standing)
        inside = set(normals(name for entity in it.entities for name in (entity.text, *entity.aliases)))
        for name, key in zip(standing, normals(standing), strict=True):
            # A part of a longer name that is annotated here is no gap.
            if key not in inside and not any(key in other for other in inside):
                unmarked.append((it.chunk_id, name))
    return Gaps(unmarked, len(unmarked) / found if found else None, _ends(chunks))


def _ends(chunks: Sequence[GoldChunk]) -> float | None:
    entities = ends = 0
    for it in chunks:
        names = {entity.text for entity in it.entities}
        entities += len(names)
        ends += len(names & {end for relation in it.relations for end in (relation.source, relation.target)})
    return ends / entities if entities >= LEAST_ENTITIES else None


def _standing(text: str, by_first: Mapping[str, Sequence[str]]) -> set[str]:
    """Which names stand in a text as whole words; they are given by their first word."""
    cut = list(split_words(text))
    ends = {end for _, _, end in cut}
    return {
        name
        for word, start, _ in cut
        for name in by_first.get(word, ())
        if text.startswith(name, start) and start + len(name) in ends
    }

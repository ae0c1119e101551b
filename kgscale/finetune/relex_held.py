"""How good a relation model is on held-out documents: read by the very code of extraction, at the best thresholds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgscale.config import GlinerEngine
from kgscale.extract.gliner import Found, GlinerModel
from kgscale.finetune.asking import Asked, ask
from kgscale.finetune.facts import Document
from kgscale.finetune.threshold import CANDIDATES, Chosen, best_threshold
from kgscale.score.keys import normals

GROUP = 20
"""Documents that are asked the same schema."""


@dataclass(frozen=True)
class Group:
    """Documents of one source and the schema that they are asked."""

    asked: Asked
    documents: tuple[Document, ...]


_Reading = tuple[Group, Document, Found]


@dataclass(frozen=True)
class Measured:
    """The best thresholds, and what they give on the documents of each source.

    Relations count between the entities found at the first threshold.
    """

    threshold: float
    relation_threshold: float
    entities: dict[str, Chosen]
    relations: dict[str, Chosen]


@dataclass
class _Scored:
    """Scores of what was found on one source's documents and whether it is right, and how many there are to find."""

    found: list[tuple[float, bool]] = field(default_factory=list)
    wanted: int = 0


def groups_of(documents: Sequence[Document], seed: int) -> list[Group]:
    """Cut documents of one source into groups, each asked a schema as training draws them."""
    rng = random.Random(seed)  # noqa: S311
    cut = [tuple(documents[at : at + GROUP]) for at in range(0, len(documents), GROUP)]
    return [Group(ask(them, rng), them) for them in cut]


def measure(gliner: Any, sources: Mapping[str, Sequence[Group]], candidates: Sequence[float] = CANDIDATES) -> Measured:
    """Choose both thresholds on these groups: those with the best mean of the sources' F1.

    F1 is micro-averaged over the distinct pairs of name and type of each text, and over its distinct triples of names
    and relation type, a symmetric one in either direction. `gliner` may be changed as extraction changes it.
    """
    lowest = min(candidates)
    entities = {name: _entity_scores(_read(gliner, groups, lowest, 1.0)) for name, groups in sources.items()}
    threshold = _best(entities, candidates)
    relations = {name: _relation_scores(_read(gliner, groups, threshold, lowest)) for name, groups in sources.items()}
    relation_threshold = _best(relations, candidates)
    return Measured(threshold, relation_threshold, _at(threshold, entities), _at(relation_threshold, relations))


def _best(scored: Mapping[str, _Scored], candidates: Sequence[float]) -> float:
    return max(candidates, key=lambda it: sum(chosen.f1 for chosen in _at(it, scored).values()))


def _at(threshold: float, scored: Mapping[str, _Scored]) -> dict[str, Chosen]:
    return {name: best_threshold(it.found, it.wanted, (threshold,)) for name, it in scored.items()}


def _entity_scores(read: Iterable[_Reading]) -> _Scored:
    scored = _Scored()
    for group, document, found in read:
        gold = _entities(document, group.asked)
        best: dict[tuple[str, str], float] = {}
        for it, name in zip(found.entities, normals([it.text for it in found.entities]), strict=True):
            best[name, it.type] = max(best.get((name, it.type), 0.0), it.score or 0.0)
        scored.found += [(score, item in gold) for item, score in best.items()]
        scored.wanted += len(gold)
    return scored


def _relation_scores(read: Iterable[_Reading]) -> _Scored:
    scored = _Scored()
    for group, document, found in read:
        gold = _relations(document, group.asked)
        best: dict[tuple[str, str, str], float] = {}
        for it in found.relations:
            source, target = normals([it.source, it.target])
            triple = _turned(source, it.type, target, group.asked)
            best[triple] = max(best.get(triple, 0.0), it.score or 0.0)
        scored.found += [(score, triple in gold) for triple, score in best.items()]
        scored.wanted += len(gold)
    return scored


def _read(gliner: Any, groups: Iterable[Group], threshold: float, relation_threshold: float) -> Iterator[_Reading]:
    engine = GlinerEngine(threshold=threshold, relation_threshold=relation_threshold)
    for group in groups:
        schema = group.asked.schema
        reader = GlinerModel(engine, list(schema.entity_types), schema.relation_types, loaded=gliner)
        for document, found in zip(group.documents, reader.extract([it.text for it in group.documents]), strict=True):
            yield group, document, found


def _entities(document: Document, asked: Asked) -> set[tuple[str, str]]:
    known = [(name, asked.entities[kind]) for name, kind in document.entities if kind in asked.entities]
    names = normals([name for name, _ in known])
    return {(name, kind) for name, (_, kind) in zip(names, known, strict=True)}


def _relations(document: Document, asked: Asked) -> set[tuple[str, str, str]]:
    names = {name for name, kind in document.entities if kind in asked.entities}
    triples = set()
    for source, kind, target in document.relations:
        if kind in asked.relations and {source, target} <= names:
            label, turned = asked.relations[kind]
            ends = normals([target, source] if turned else [source, target])
            if ends[0] != ends[1]:
                triples.add(_turned(ends[0], label, ends[1], asked))
    return triples


def _turned(source: str, label: str, target: str, asked: Asked) -> tuple[str, str, str]:
    if asked.schema.relation_types[label].symmetric:
        source, target = sorted((source, target))
    return source, label, target

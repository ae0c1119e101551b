"""What each method got right and wrong in one chunk, by the same keys that the scorer compares."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from kgscale.records import Entity, Extraction, GoldChunk, GoldEntity, Relation, Status
from kgscale.score.keys import Keys, normals

Key = tuple[str, ...]
Mention = Entity | GoldEntity
Item = TypeVar("Item")


class State(StrEnum):
    """How an item of a method stands to the gold."""

    MATCHED = "matched"
    WRONG_TYPE = "type"
    WRONG_WAY = "direction"
    MISSED = "missed"
    SPURIOUS = "spurious"
    FOUND = "found"
    """Said by the method, where there is no gold to compare with."""
    ABSENT = "absent"
    """Neither in the gold nor said by the method: another method says it."""


WRONG = (State.MISSED, State.SPURIOUS, State.WRONG_TYPE, State.WRONG_WAY)


@dataclass(frozen=True, slots=True)
class Found:
    """One method's side of an item; `said` is what it says in place of the gold's type."""

    state: State
    said: str = ""


@dataclass(frozen=True, slots=True)
class EntityRow:
    """An entity that the gold or a method names, with each method's side of it."""

    name: str
    type: str
    in_gold: bool
    grounded: bool
    methods: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class RelationRow:
    """A relation that the gold or a method names, with each method's side of it."""

    source: str
    type: str
    target: str
    in_gold: bool
    methods: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A marked piece of the text; offsets in characters, end exclusive."""

    start: int
    end: int
    type: str
    found: Found


@dataclass(frozen=True, slots=True)
class Marked:
    """A chunk with everything that was said about it; `spans` has one tuple per method."""

    entities: tuple[EntityRow, ...]
    relations: tuple[RelationRow, ...]
    spans: tuple[tuple[Span, ...], ...]


@dataclass(frozen=True, slots=True)
class KeyTable:
    """The keys of all names and labels in some chunks."""

    names: Mapping[str, str]
    entity_types: Mapping[str, str]
    relation_types: Mapping[str, str]
    symmetric: frozenset[str]

    @classmethod
    def of(cls, keys: Keys, gold: Iterable[GoldChunk], answers: Iterable[Extraction]) -> "KeyTable":
        """Work out each distinct text once."""
        names, entity_types, relation_types = set[str](), set[str](), set[str]()
        chunks: list[GoldChunk | Extraction] = [*gold, *answers]
        for chunk in chunks:
            names.update(it.text for it in chunk.entities)
            names.update(end for it in chunk.relations for end in (it.source, it.target))
            entity_types.update(it.type for it in chunk.entities)
            relation_types.update(it.type for it in chunk.relations)
            if isinstance(chunk, GoldChunk):
                names.update(alias for it in chunk.entities for alias in it.aliases or ())
        return cls(
            _keyed(names, keys.names),
            _keyed(entity_types, keys.entity_types),
            _keyed(relation_types, keys.relation_types),
            keys.symmetric,
        )


@dataclass(frozen=True)
class Marker:
    """Marks chunks; types are compared only where every side gives them."""

    keys: KeyTable
    entity_types: bool
    relation_types: bool

    def mark(self, gold: GoldChunk | None, answers: Sequence[Extraction | None]) -> Marked:
        """Compare the answers of all methods with the gold of one chunk; an unusable answer says nothing."""
        aliases = self._aliases(gold)
        usable = [it if it and it.status in (Status.OK, Status.TRUNCATED) else None for it in answers]
        wanted = self._entities(gold.entities if gold else (), aliases)
        said = [self._entities(it.entities if it else (), aliases) for it in usable]
        states = [_entity_states(wanted, it, compared=gold is not None) for it in said]
        wanted_relations = self._relations(gold.relations if gold else (), aliases)
        said_relations = [self._relations(it.relations if it else (), aliases) for it in usable]
        relation_states = [self._relation_states(wanted_relations, it, gold is not None) for it in said_relations]
        return Marked(
            entities=tuple(
                EntityRow(first.text, first.type, key in wanted, _grounded(key, first, wanted), _cells(states, key))
                for key, first in _in_order(wanted, said, states)
            ),
            relations=tuple(
                RelationRow(it.source, it.type, it.target, key in wanted_relations, _cells(relation_states, key))
                for key, it in _in_order(wanted_relations, said_relations, relation_states)
            ),
            spans=tuple(tuple(self._spans(gold, it, aliases, state)) for it, state in zip(usable, states, strict=True)),
        )

    def _aliases(self, gold: GoldChunk | None) -> dict[str, str]:
        """The canonical key of each name in an alias set of the gold: the first of the set by alphabet."""
        canonical: dict[str, str] = {}
        for entity in gold.entities if gold else ():
            if entity.aliases:
                names = {self.keys.names[it] for it in (entity.text, *entity.aliases)} - {""}
                first = min(names, default="")
                for name in names:
                    canonical[name] = min(first, canonical.get(name, first))
        return canonical

    def _key(self, entity: Mention, aliases: Mapping[str, str]) -> Key:
        name = self.keys.names[entity.text]
        return aliases.get(name, name), self.keys.entity_types[entity.type] if self.entity_types else ""

    def _entities(self, entities: Iterable[Mention], aliases: Mapping[str, str]) -> dict[Key, Mention]:
        """The first mention of each entity."""
        found: dict[Key, Mention] = {}
        for it in entities:
            key = self._key(it, aliases)
            if key[0]:
                found.setdefault(key, it)
        return found

    def _relations(self, relations: Iterable[Relation], aliases: Mapping[str, str]) -> dict[Key, Relation]:
        found: dict[Key, Relation] = {}
        for it in relations:
            ends = [aliases.get(name, name) for name in (self.keys.names[it.source], self.keys.names[it.target])]
            kind = self.keys.relation_types[it.type]
            if all(ends):
                ends = sorted(ends) if kind in self.keys.symmetric else ends
                found.setdefault((*ends, kind if self.relation_types else ""), it)
        return found

    def _relation_states(
        self, gold: Mapping[Key, Relation], said: Mapping[Key, Relation], compared: bool
    ) -> dict[Key, Found]:
        if not compared:
            return dict.fromkeys(said, Found(State.FOUND))
        states: dict[Key, Found] = {}
        told: set[Key] = set()
        connected: dict[Key, list[Key]] = {}
        for key in said:
            connected.setdefault(tuple(sorted(key[:2])), []).append(key)
        for key in gold:
            source, target, kind = key
            # The same causes as the scorer's, in its order.
            if key in said:
                states[key] = Found(State.MATCHED)
            elif (turned := (target, source, kind)) in said:
                states[key] = Found(State.WRONG_WAY)
                told.add(turned)
            elif others := connected.get(tuple(sorted((source, target)))):
                states[key] = Found(State.WRONG_TYPE, ", ".join(said[it].type for it in others))
                told.update(others)
            else:
                states[key] = Found(State.MISSED)
        return states | {key: Found(State.SPURIOUS) for key in said if key not in gold and key not in told}

    def _spans(
        self,
        gold: GoldChunk | None,
        answer: Extraction | None,
        aliases: Mapping[str, str],
        states: Mapping[Key, Found],
    ) -> Iterable[Span]:
        """The method's mentions, then those of the gold that it has no mention at."""
        wrong = {key[0]: (key, found) for key, found in states.items() if found.state is State.WRONG_TYPE}
        taken: set[tuple[int, int]] = set()
        for it in answer.entities if answer else ():
            key = self._key(it, aliases)
            if it.start is None or it.end is None or not key[0]:
                continue
            taken.add((it.start, it.end))
            found = states.get(key)
            if found is None:
                # Its name is in the gold with another type: the row of that entity tells it.
                found = Found(State.WRONG_TYPE, self._gold_type(gold, wrong[key[0]][0], aliases))
            yield Span(it.start, it.end, it.type, found)
        for mention in gold.entities if gold else ():
            start, end = mention.start, mention.end
            key = self._key(mention, aliases)
            if start is None or end is None or (start, end) in taken or key not in states:
                continue
            taken.add((start, end))
            yield Span(start, end, mention.type, states[key])

    def _gold_type(self, gold: GoldChunk | None, key: Key, aliases: Mapping[str, str]) -> str:
        return next((it.type for it in gold.entities if self._key(it, aliases) == key), "") if gold else ""


def _keyed(texts: Iterable[str], aliases: Mapping[str, str]) -> dict[str, str]:
    ordered = list(texts)
    return {text: aliases.get(it, it) for text, it in zip(ordered, normals(ordered), strict=True)}


def _entity_states(gold: Mapping[Key, Mention], said: Mapping[Key, Mention], *, compared: bool) -> dict[Key, Found]:
    if not compared:
        return dict.fromkeys(said, Found(State.FOUND))
    states: dict[Key, Found] = {}
    told: set[Key] = set()
    beyond = _beyond(gold, said)
    for key in gold:
        others = beyond.get(key[0], [])
        if key in said:
            states[key] = Found(State.MATCHED)
        elif others:
            states[key] = Found(State.WRONG_TYPE, ", ".join(said[it].type for it in others))
            told.update(others)
        else:
            states[key] = Found(State.MISSED)
    return states | {key: Found(State.SPURIOUS) for key in said if key not in gold and key not in told}


def _in_order(
    gold: Mapping[Key, Item], said: Sequence[Mapping[Key, Item]], states: Sequence[Mapping[Key, Found]]
) -> Iterable[tuple[Key, Item]]:
    """The items of the gold, then what methods say beyond it, each once."""
    yield from gold.items()
    seen = set(gold)
    for items, found in zip(said, states, strict=True):
        for key in found:
            if key not in seen:
                seen.add(key)
                yield key, items[key]


def _beyond(gold: Mapping[Key, Item], said: Mapping[Key, Item]) -> dict[str, list[Key]]:
    """What is said but not in the gold, by name."""
    found: dict[str, list[Key]] = {}
    for key in said:
        if key not in gold:
            found.setdefault(key[0], []).append(key)
    return found


def _grounded(key: Key, first: Mention, gold: Mapping[Key, Mention]) -> bool:
    return key in gold or first.start is not None


def _cells(states: Sequence[Mapping[Key, Found]], key: Key) -> tuple[Found, ...]:
    return tuple(it.get(key, Found(State.ABSENT)) for it in states)

"""Schemas to train an LLM with: types of a document's source, worded, merged, turned round, dropped and shuffled.

A source annotates its kinds completely, so whatever is asked and absent is a true negative. Wordings lie in
`grammar/asks.txt`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kgscale.config import RelationType, SchemaConfig
from kgscale.extract.prompt import written_answer
from kgscale.finetune.facts import Document
from kgscale.finetune.synthetic import FOLDER

PLAIN = 0.5
"""Share of schemas in plain words: each kind as its first wording has it."""


@dataclass(frozen=True)
class _Wording:
    label: str
    description: str | None
    turned: bool
    symmetric: bool


@dataclass(frozen=True)
class _Ask:
    """Kinds that one type covers, and its wordings."""

    kinds: frozenset[str]
    wordings: tuple[_Wording, ...]
    usual: bool = False


@dataclass(frozen=True)
class Asked:
    """A schema, and what each kind of the source is called in it; relations with whether they are turned round."""

    schema: SchemaConfig
    entities: dict[str, str]
    relations: dict[str, tuple[str, bool]]

    def answer(self, document: Document, given: Sequence[tuple[str, str]] | None = None) -> str:
        """The JSON that answers the schema's prompt for a document; relations only, among names that are `given`."""
        entities = [(name, self.entities[kind]) for name, kind in document.entities if kind in self.entities]
        names = {name for name, _ in (entities if given is None else given)}
        relations = []
        for source, kind, target in document.relations:
            if kind in self.relations and {source, target} <= names:
                label, turned = self.relations[kind]
                relations.append([target, label, source] if turned else [source, label, target])
        lists: dict[str, object] = {} if given is not None else {"entities": list(dict.fromkeys(entities))}
        lists["relations"] = list(map(list, dict.fromkeys(map(tuple, relations))))
        return written_answer(lists)


@cache
def _asks() -> dict[str, tuple[_Ask, ...]]:
    asks: dict[str, tuple[_Ask, ...]] = {}
    for part in (FOLDER / "asks.txt").read_text(encoding="utf-8").split("\n[")[1:]:
        name, *lines = (line for line in part.splitlines() if line and not line.startswith("#"))
        asks[name.rstrip("]")] = tuple(_ask(line) for line in lines)
    return asks


def _ask(line: str) -> _Ask:
    kinds, _, wordings = line.partition(" = ")
    words = tuple(_wording(it.strip()) for it in wordings.split(" | "))
    return _Ask(frozenset(kinds.removeprefix("*").split()), words, usual=kinds.startswith("*"))


def _wording(text: str) -> _Wording:
    label, _, description = text.lstrip("^&").partition(": ")
    return _Wording(label, description or None, text.startswith("^"), text.startswith("&"))


def read_properties(path: Path) -> None:
    """Take the names of Wikidata's properties from Re-DocRED's companion file, as the relations of that source."""
    names = json.loads(path.read_text(encoding="utf-8"))
    _asks()["re_docred relations"] = tuple(
        _Ask(frozenset((key,)), (_Wording(name, None, turned=False, symmetric=False),))
        for key, (name, _) in names.items()
    )


def ask(documents: Sequence[Document], rng: random.Random, plain_share: float = PLAIN) -> Asked:
    """A schema for documents of one source: of what they hold most of it, of what they do not some."""
    source = documents[0].source
    plain = source == "written" and rng.random() < plain_share
    there = {kind for it in documents for _, kind in it.entities}
    said = {kind for it in documents for _, kind, _ in it.relations}
    entities = _drawn(_asks()[f"{source} entities"], there, rng, plain=plain, most=12)
    relations = _drawn(_asks()[f"{source} relations"], said, rng, plain=plain, most=14)
    schema = SchemaConfig(
        entity_types={wording.label: wording.description for _, wording in entities},
        relation_types={
            it.label: RelationType(description=it.description, symmetric=it.symmetric) for _, it in relations
        },
    )
    return Asked(
        schema,
        {kind: wording.label for ask, wording in entities for kind in ask.kinds},
        {kind: (wording.label, wording.turned) for ask, wording in relations for kind in ask.kinds},
    )


def _drawn(
    asks: Sequence[_Ask], there: set[str], rng: random.Random, *, plain: bool, most: int
) -> list[tuple[_Ask, _Wording]]:
    """Asks that share no kind, with a wording each, in random order."""
    chosen: list[tuple[_Ask, _Wording]] = []
    taken: set[str] = set()
    labels: set[str] = set()
    described = rng.random() < 0.7
    for it in sorted(asks, key=lambda it: (plain and not it.usual, not it.kinds & there, rng.random())):
        wanted = 0.8 if it.kinds & there else 0.1
        if plain:
            wanted = 0.95 if it.usual else 0.02
        wording = it.wordings[0] if plain else rng.choice(it.wordings)
        if len(chosen) == most or it.kinds & taken or wording.label in labels or rng.random() > wanted:
            continue
        taken |= it.kinds
        labels.add(wording.label)
        if not plain and not described:
            wording = _Wording(wording.label, None, wording.turned, wording.symmetric)
        chosen.append((it, wording))
    chosen = chosen or [(asks[0], asks[0].wordings[0])]
    rng.shuffle(chosen)
    return chosen


def given_entities(document: Document, asked: Asked, rng: random.Random) -> list[tuple[str, str]]:
    """What an entity extractor might hand over: the asked entities, some missing, cut, mistyped or made up."""
    types = list(asked.schema.entity_types)
    names: list[tuple[str, str]] = []
    noise = rng.choice((0.0, 0.06, 0.15))
    words = document.text.split()
    for name, kind in document.entities:
        if kind not in asked.entities:
            continue
        if rng.random() < noise:
            continue
        label = rng.choice(types) if rng.random() < noise / 2 else asked.entities[kind]
        if rng.random() < noise / 2 and " " in name:
            name = name.rsplit(" ", 1)[0]  # noqa: PLW2901
        names.append((name, label))
        if rng.random() < noise and len(words) > 3:
            at = rng.randrange(len(words) - 1)
            names.append((" ".join(words[at : at + rng.randint(1, 2)]).strip(".,:;()#"), rng.choice(types)))
    return [pair for pair in dict.fromkeys(names) if pair[0]]

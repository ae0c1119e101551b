"""One's own annotated texts, in any format that kgscale reads, and as what an LLM is trained on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgscale.config import SchemaConfig
from kgscale.errors import UserError
from kgscale.extract.prompt import Task
from kgscale.finetune.asking import Asked
from kgscale.finetune.contamination import Named, gold_texts
from kgscale.finetune.facts import Document
from kgscale.finetune.llm_batches import Batch, tokenised
from kgscale.formats import READERS, guess_format
from kgscale.formats.common import Record
from kgscale.text import normal_form

OWN = "own"
VARIED = 0.3
"""Share of batches whose schema is shuffled and lacks some types, so that the model goes on reading it."""


@dataclass
class OwnTexts:
    """What files hold, as far as a schema asks for it; `left_out` counts the types that it does not know."""

    documents: list[Document] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    """What the documents were made of."""
    texts: list[Named] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    """What the readers left out or repaired."""


def read_own(paths: Sequence[Path], schema: SchemaConfig) -> OwnTexts:
    """Read annotated files; raises `UserError` where one cannot be read, or where nothing in them fits the schema."""
    found = OwnTexts()
    kinds = entity_kinds(schema)
    for path in paths:
        converted = READERS[guess_format(path)](path)
        for record in converted.records:
            found.texts.append(Named(f"{path.name}, {record.gold.chunk_id}", record.text))
            if record.annotated:
                found.records.append(record)
                found.documents.append(_document(record, schema, kinds, found.left_out))
        found.problems += map(str, converted.report.problems.first)
    if not any(it.entities for it in found.documents):
        unknown = ", ".join(name for name, _ in found.left_out.most_common(8))
        raise UserError(
            "no annotated entity in the training files has a type of the schema",
            where=", ".join(map(str, paths)),
            hint=f"the types there are: {unknown}; add them to the schema, or map them with schema.aliases"
            if unknown
            else "annotate some texts first",
        )
    return found


def scored_texts(scored: Sequence[Path], evaluate: Sequence[Path], schema: SchemaConfig) -> list[Named]:
    """The texts of gold files and of files to evaluate on."""
    texts = gold_texts(scored)
    return [*texts, *read_own(evaluate, schema).texts] if evaluate else texts


def entity_kinds(schema: SchemaConfig) -> dict[str, str]:
    """The schema's entity types by all their spellings, in the normal form in which scores compare them."""
    spelled = {it: it for it in schema.entity_types} | schema.aliases.entity_types
    own = {normal_form(it): it for it in schema.entity_types}
    kinds = {normal_form(spelling): normal_form(it) for spelling, it in spelled.items()}
    return {spelling: own[it] for spelling, it in kinds.items() if it in own}


def _document(record: Record, schema: SchemaConfig, kinds: Mapping[str, str], left_out: Counter[str]) -> Document:
    relation_alias = schema.aliases.relation_types
    entities: list[tuple[int, str, str]] = []
    for it in record.gold.entities:
        if kind := kinds.get(normal_form(it.type)):
            at = it.start if it.start is not None else record.text.find(it.text)
            entities.append((at if at >= 0 else len(record.text), it.text, kind))
        else:
            left_out[it.type] += 1
    names = {name for _, name, _ in entities}
    relations: dict[tuple[str, str, str], None] = {}
    for edge in record.gold.relations:
        kind = relation_alias.get(edge.type, edge.type)
        if kind not in schema.relation_types:
            left_out[edge.type] += 1
        elif {edge.source, edge.target} <= names:
            relations[edge.source, kind, edge.target] = None
        else:
            left_out["(relation without its entities)"] += 1
    return Document(
        record.text, tuple(dict.fromkeys((name, kind) for _, name, kind in sorted(entities))), tuple(relations), OWN
    )


class OwnMixture:
    """Batches of one's own documents under one's own schema; the same for the same random state."""

    def __init__(
        self, tokenizer: Any, documents: Sequence[Document], schema: SchemaConfig, *, size: int, limit: int
    ) -> None:
        self._tokenizer, self._schema, self._size, self._limit = tokenizer, schema, size, limit
        self._documents = sorted(documents, key=lambda it: len(it.text))

    def draw(self, rng: random.Random, task: Task) -> Batch:
        """One batch for a task, of documents alike in length."""
        for _ in range(100):
            first = rng.randrange(max(1, len(self._documents) - 2 * self._size + 1))
            them = self._documents[first : first + 2 * self._size]
            asked = varied(self._schema, rng) if rng.random() < VARIED else as_it_is(self._schema)
            chosen = rng.sample(them, min(self._size, len(them)))
            batch = tokenised(self._tokenizer, asked, task, chosen, rng, self._limit)
            if batch.prompts:
                return batch
        raise UserError(
            f"hardly any training text fits in {self._limit} tokens with its answer",
            hint="cut the texts into smaller chunks",
        )

    def in_order(self, task: Task) -> list[Batch]:
        """All documents once under the schema as it is, for measuring."""
        rng = random.Random(0)  # noqa: S311
        cut = (self._documents[at : at + self._size] for at in range(0, len(self._documents), self._size))
        asked = as_it_is(self._schema)
        batches = (tokenised(self._tokenizer, asked, task, them, rng, self._limit) for them in cut)
        return [it for it in batches if it.prompts]


def as_it_is(schema: SchemaConfig) -> Asked:
    """The schema that a config has, asked as extraction asks it."""
    return Asked(schema, {it: it for it in schema.entity_types}, {it: (it, False) for it in schema.relation_types})


def varied(schema: SchemaConfig, rng: random.Random) -> Asked:
    """The schema in another order, with a fifth of its types missing."""
    entities = [it for it in schema.entity_types if rng.random() < 0.8] or list(schema.entity_types)[:1]
    relations = [it for it in schema.relation_types if rng.random() < 0.8]
    rng.shuffle(entities)
    rng.shuffle(relations)
    return as_it_is(
        schema.model_copy(
            update={
                "entity_types": {it: schema.entity_types[it] for it in entities},
                "relation_types": {it: schema.relation_types[it] for it in relations},
            }
        )
    )

"""The words and the JSON schema with which an LLM is asked; training uses the same."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kgscale.config import LlmEngine, SchemaConfig

NAME_LENGTH = 100
"""Longest entity name in characters: an unbounded string lets a small model ramble to the token limit."""


class Task(StrEnum):
    """What a prompt asks for."""

    BOTH = "both"
    ENTITIES = "entities"
    RELATIONS = "relations"
    """Relations between entities that are given."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request: `system` is the same for all chunks of a task, so that engines can cache it; `user` has the text."""

    system: str
    user: str


@dataclass(frozen=True)
class PromptBook:
    """All that an engine needs to ask for one task: the instruction, the question and the schema of the answer."""

    task: Task
    system: str
    answer_schema: dict[str, Any]

    def ask(self, text: str, entities: Iterable[tuple[str, str]] = ()) -> Prompt:
        """The request for one text, with its entities (name, type) where relations are asked for."""
        if self.task is not Task.RELATIONS:
            return Prompt(self.system, f"Text:\n{text}")
        given = json.dumps([list(entity) for entity in entities], ensure_ascii=False)
        return Prompt(self.system, f"Text:\n{text}\n\nEntities:\n{given}")

    @property
    def sha256(self) -> str:
        """A hash of everything that the answer depends on."""
        whole = [self.task, self.system, self.ask("text", [("name", "type")]).user, self.answer_schema]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def prompt_book(schema: SchemaConfig, engine: LlmEngine, task: Task) -> PromptBook:
    """Write the instruction and the answer schema of a task in the form that the engine's `answer` setting names."""
    form = {
        (Task.BOTH, "arrays"): '{"entities": [[name, type], ...], "relations": [[source, type, target], ...]}',
        (
            Task.BOTH,
            "objects",
        ): '{"entities": [{"name", "type"}, ...], "relations": [{"source", "type", "target"}, ...]}',
        (Task.ENTITIES, "arrays"): '{"entities": [[name, type], ...]}',
        (Task.ENTITIES, "objects"): '{"entities": [{"name", "type"}, ...]}',
        (Task.RELATIONS, "arrays"): '{"relations": [[source, type, target], ...]}',
        (Task.RELATIONS, "objects"): '{"relations": [{"source", "type", "target"}, ...]}',
    }[task, engine.answer]
    parts = {
        Task.BOTH: "the entities of a text and the relations between them",
        Task.ENTITIES: "the entities of a text",
        Task.RELATIONS: "the relations between the given entities of a text",
    }
    lines = [f"You find {parts[task]}."]
    if task is not Task.RELATIONS:
        lines += ["Entity types:", *(_line(name, text) for name, text in schema.entity_types.items())]
    if task is not Task.ENTITIES:
        types = ((name, _meaning(it.description, it.symmetric)) for name, it in schema.relation_types.items())
        lines += ["Relation types, each from source to target:", *(_line(name, text) for name, text in types)]
    lines += [
        f"Answer with one JSON object: {form}.",
        "Copy every name exactly as it stands in the text. Use only the types above.",
    ]
    if task is Task.RELATIONS:
        lines.append("Source and target are names from the list of entities.")
    lines.append("List only what the text itself says; where it says nothing, leave the list empty.")
    return PromptBook(task, "\n".join(lines), _answer_schema(schema, engine, task))


def written_answer(lists: Mapping[str, Any]) -> str:
    """An answer as the engine writes it: JSON without white space, which the local engine's grammar does not allow."""
    return json.dumps(lists, ensure_ascii=False, separators=(",", ":"))


def _line(name: str, description: str | None) -> str:
    return f"- {name}: {description}" if description else f"- {name}"


def _meaning(description: str | None, symmetric: bool) -> str | None:
    both = "in either direction" if symmetric else None
    return "; ".join(part for part in (description, both) if part) or None


def _answer_schema(schema: SchemaConfig, engine: LlmEngine, task: Task) -> dict[str, Any]:
    name = {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH}
    entity = {"name": name, "type": {"type": "string", "enum": list(schema.entity_types)}}
    relation = {"source": name, "type": {"type": "string", "enum": list(schema.relation_types)}, "target": name}
    item = _array if engine.answer == "arrays" else _object
    lists = {}
    if task is not Task.RELATIONS:
        lists["entities"] = {"type": "array", "items": item(entity), "maxItems": engine.max_entities}
    if task is not Task.ENTITIES:
        lists["relations"] = {"type": "array", "items": item(relation), "maxItems": engine.max_relations}
    return _object(lists)


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _array(fields: dict[str, Any]) -> dict[str, Any]:
    size = len(fields)
    return {"type": "array", "prefixItems": list(fields.values()), "items": False, "minItems": size, "maxItems": size}

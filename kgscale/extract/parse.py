"""Reading an LLM's answer: every complete item is kept, whatever happened to the rest."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kgscale.extract.prompt import Task
from kgscale.text import is_writable

_FENCE = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
_SPACE_OR_COMMA = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Answer:
    """What an answer says: (name, type) and (source, type, target), each once, in the order given."""

    entities: list[tuple[str, str]] = field(default_factory=list)
    relations: list[tuple[str, str, str]] = field(default_factory=list)
    whole: bool = True
    """Whether the answer was one complete JSON object."""
    malformed: int = 0
    """Items that were no entity or relation, and are left out."""

    @property
    def empty(self) -> bool:
        """Whether nothing could be read."""
        return not (self.entities or self.relations)


def parse_answer(raw: str, task: Task) -> Answer | None:
    """Read an answer in either form (arrays or objects); null if there is no JSON in it that answers the task."""
    text = _spoken(raw)
    fence = _FENCE.match(text)
    if fence:
        text = fence.group(1)
    wanted = {Task.BOTH: ("entities", "relations"), Task.ENTITIES: ("entities",), Task.RELATIONS: ("relations",)}[task]
    found = _whole_object(text)
    if found is not None:
        lists = {key: value for key in wanted if isinstance(value := found.get(key), list)}
        if not lists:
            return None
        return _collect(lists, whole=len(lists) == len(wanted))
    # The answer is cut or broken: read the items of each list one by one, as far as they go.
    partial = {key: list(_items(text, match.end())) for key in wanted if (match := _list_start(key).search(text))}
    if not partial:
        return None
    return _collect(partial, whole=False)


def _spoken(raw: str) -> str:
    """The answer without what a model thought aloud before it; nothing while it is still thinking.

    Some chat templates open the thinking themselves, so that only its end is seen.
    """
    text = raw.lstrip()
    if text.startswith(("{", "```")):
        return text
    before, closed, after = text.partition("</think>")
    return after if closed else "" if before.startswith("<think>") else text


def _whole_object(text: str) -> dict[str, Any] | None:
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _list_start(key: str) -> re.Pattern[str]:
    return re.compile(rf'"{key}"\s*:\s*\[')


def _items(text: str, at: int) -> Iterator[Any]:
    while True:
        at = _SPACE_OR_COMMA.match(text, at).end()  # type: ignore[union-attr]  # matches the empty string
        try:
            item, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield item


def _collect(lists: dict[str, list[Any]], *, whole: bool) -> Answer:
    entities = [_fields(item, ("name", "type")) for item in lists.get("entities", [])]
    relations = [_fields(item, ("source", "type", "target")) for item in lists.get("relations", [])]
    return Answer(
        entities=[(it[0], it[1]) for it in dict.fromkeys(filter(None, entities))],
        relations=[(it[0], it[1], it[2]) for it in dict.fromkeys(filter(None, relations))],
        whole=whole,
        malformed=entities.count(None) + relations.count(None),
    )


def _fields(item: Any, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The item's parts as clean strings, whether it is an array or an object; null if it has not exactly these."""
    if isinstance(item, dict):
        item = [item.get(name, item.get("text") if name == "name" else None) for name in names]
    if not isinstance(item, list) or len(item) != len(names) or not all(isinstance(part, str) for part in item):
        return None
    parts = tuple(" ".join(part.split()) for part in item)
    return parts if all(parts) and is_writable(*parts) else None

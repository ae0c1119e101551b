"""What LightRAG's LLM said of a chunk, in any of the three forms that its versions have asked for.

Since August 2025 a line is a record, with `<|#|>` between its fields: `entity`, name, type, description; `relation`,
source, target, keywords, description. Before, records stood in parentheses with `##` between them, and `<|>` between
their fields. In JSON mode the answer is `{"entities": [{"name", "type"}], "relationships": [{"source", "target"}]}`.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_COMPLETE = re.compile(r"<\|complete\|>", re.IGNORECASE)
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
# With what models make of it: a stroke too few on either side.
_DELIMITER = re.compile(r"<\|#\|>|<\|#>|<#\|>|<\|#\|(?!>)|(?<!<)\|#\|>")
_OLD_DELIMITER = "<|>"
_OLD_RECORDS = re.compile(r"##|\n(?=\s*\()")
_QUOTES = "\"'“”"
_DECODER = json.JSONDecoder()
_SPACE_OR_COMMA = re.compile(r"[\s,]*")


@dataclass(slots=True)
class Said:
    """Entities (name, type) and relations (source, target), each once, in their order."""

    entities: dict[tuple[str, str], None] = field(default_factory=dict)
    relations: dict[tuple[str, str], None] = field(default_factory=dict)
    whole: bool = True
    """Whether the answer was complete."""
    left_out: list[str] = field(default_factory=list)
    """The lines or items that are no record."""

    def add_entity(self, name: Any, kind: Any, told: str) -> None:
        """Take an entity, or keep `told` as left out."""
        if _is_name(name) and isinstance(kind, str):
            self.entities[_clean(name), _clean(kind)] = None
        else:
            self.left_out.append(told[:80])

    def add_relation(self, source: Any, target: Any, told: str) -> None:
        """Take a relation, or keep `told` as left out."""
        if _is_name(source) and _is_name(target):
            self.relations[_clean(source), _clean(target)] = None
        else:
            self.left_out.append(told[:80])


def merged(answers: Iterable[Said]) -> Said:
    """The first answer about a chunk and those of the gleaning as one."""
    both = Said()
    for it in answers:
        both.entities |= it.entities
        both.relations |= it.relations
        both.whole &= it.whole
        both.left_out += it.left_out
    return both


def parse_answer(raw: str) -> Said:
    """Read one answer; what is complete in a cut one is kept."""
    text = raw.rpartition("</think>")[2].strip()
    fence = _FENCE.match(text)
    text = fence[1].strip() if fence else text
    return _from_json(text) if text.startswith(("{", "[")) else _from_lines(text)


def _from_json(text: str) -> Said:
    said = Said()
    try:
        value, _ = _DECODER.raw_decode(text)
        lists = value if isinstance(value, dict) else {}
    except (ValueError, RecursionError):
        said.whole = False
        lists = {key: list(_items(text, key)) for key in ("entities", "relationships", "relations")}
    for item in _list(lists.get("entities")):
        of = item if isinstance(item, dict) else {}
        said.add_entity(of.get("name"), of.get("type", ""), str(item))
    for item in _list(lists.get("relationships") or lists.get("relations")):
        of = item if isinstance(item, dict) else {}
        said.add_relation(of.get("source"), of.get("target"), str(item))
    return said


def _items(text: str, key: str) -> Iterator[Any]:
    """The complete items of a list in a broken answer."""
    start = re.search(rf'"{key}"\s*:\s*\[', text)
    at = start.end() if start else len(text)
    while True:
        space = _SPACE_OR_COMMA.match(text, at)
        assert space is not None
        try:
            item, at = _DECODER.raw_decode(text, space.end())
        except (ValueError, RecursionError):
            return
        yield item


def _from_lines(text: str) -> Said:
    said = Said(whole=bool(_COMPLETE.search(text)))
    text = _COMPLETE.sub("\n", text)
    old = not _DELIMITER.search(text) and _OLD_DELIMITER in text
    for record in _OLD_RECORDS.split(text) if old else text.split("\n"):
        line = record.strip()
        if not line:
            continue
        inner = line.removeprefix("(").removesuffix(")") if old else line
        fields = [it.strip() for it in (inner.split(_OLD_DELIMITER) if old else _DELIMITER.split(inner))]
        tag = fields[0].strip(_QUOTES + "( ").lower()
        # Some models write `entity` before a relation: the number of fields tells.
        if tag.startswith("relation") or (tag == "entity" and len(fields) == 5 and not old):
            source, target = fields[1:3] if len(fields) >= 5 else (None, None)
            said.add_relation(source, target, line)
        elif tag == "entity":
            name, kind = fields[1:3] if len(fields) >= 4 else (None, None)
            said.add_entity(name, kind, line)
        else:
            said.left_out.append(line[:80])
    return said


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(_clean(value))


def _clean(name: str) -> str:
    return " ".join(name.split()).strip(_QUOTES + " ")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

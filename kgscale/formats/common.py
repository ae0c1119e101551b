"""What all readers share: the record they yield, the report they fill, and the check of offsets."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from kgscale.corpus.notices import Notices
from kgscale.errors import UserError
from kgscale.ground import Grounding
from kgscale.records import GoldChunk, GoldEntity, Status
from kgscale.text import is_writable, unspaced

BAD_OFFSETS = "the offsets do not fit the text, and are left out"
_MAX_OFFSET = 2**31 - 1  # what the column of gold.parquet can hold


@dataclass(frozen=True, slots=True)
class Record:
    """One annotated text of another format."""

    doc_id: str
    text: str
    gold: GoldChunk
    """The annotation; where the format holds what a tool extracted, its origin is `pseudo`."""
    status: Status = Status.OK
    """How the extraction went, where the format tells."""
    error: str | None = None
    annotated: bool = True
    """False for a text that nobody annotated, which is something else than one without any entity."""


@dataclass(slots=True)
class Report:
    """What a reader found: complete once its records have been read to the end."""

    chunks: int = 0
    entities: int = 0
    """Different entities, by name and type, summed over the chunks."""
    mentions: int = 0
    """Annotated entities, every mention counted."""
    relations: int = 0
    skipped: int = 0
    """Annotations and records that were left out; each is among the problems."""
    entity_types: set[str] = field(default_factory=set)
    relation_types: set[str] = field(default_factory=set)
    symmetric_types: set[str] = field(default_factory=set)
    """Relation types that the format itself calls symmetric."""
    problems: Notices = field(default_factory=Notices)
    """Everything worth telling: what was skipped, repaired or dropped."""

    def skip(self, where: str, kind: str, detail: str = "") -> None:
        """Note something that is left out."""
        self.skipped += 1
        self.problems.add(where, kind, detail)

    def count(self, gold: GoldChunk) -> None:
        """Add one chunk to the counts."""
        self.chunks += 1
        self.entities += len({(entity.text, entity.type) for entity in gold.entities})
        self.mentions += len(gold.entities)
        self.relations += len(gold.relations)
        # What has no type has the empty one.
        self.entity_types.update(entity.type for entity in gold.entities if entity.type)
        self.relation_types.update(relation.type for relation in gold.relations if relation.type)


@dataclass(frozen=True, slots=True)
class Converted:
    """The records of a file or directory, read as they are asked for, and the report that fills meanwhile."""

    records: Iterator[Record]
    report: Report


def converted(path: Path, records: Iterable[Record], report: Report) -> Converted:
    """Count and check records on their way; `UserError` at a chunk id that stands twice, and if there is no record."""

    def checked() -> Iterator[Record]:
        seen: set[bytes] = set()
        for given in records:
            if not given.gold.chunk_id.strip():
                report.skip(str(path), "skipped a record", "its id is empty")
                continue
            if not is_writable(given.gold.chunk_id, given.doc_id, given.text):
                told = f"the id or text of {given.gold.chunk_id[:80]!a} has half a character"
                report.skip(str(path), "skipped a record", told)
                continue
            record = _sound(given, f"{path}, {given.gold.chunk_id}", report)
            forbid_twice(record.gold.chunk_id, seen, str(path))
            report.count(record.gold)
            yield record
        if not seen:
            raise UserError(
                "\n".join(["there is nothing to convert", *(f"  {it}" for it in report.problems.first[:5])]),
                where=str(path),
                hint="is it the format that you named?",
            )

    return Converted(checked(), report)


def _sound(record: Record, where: str, report: Report) -> Record:
    """The record without entities that have no name, and relations that lead to such; a blank type is the empty one.

    JSON can spell half a character, which no file can hold: what has one is left out as well.
    """
    gold = record.gold
    entities = [
        it if it.type.strip() else replace(it, type="")
        for it in gold.entities
        if it.text.strip() and is_writable(it.text, it.type, *it.aliases)
    ]
    relations = [
        it if it.type.strip() else replace(it, type="")
        for it in gold.relations
        if it.source.strip() and it.target.strip() and is_writable(it.source, it.type, it.target)
    ]
    for _ in range(len(gold.entities) - len(entities)):
        report.skip(where, "skipped an entity", "its name is empty, or has half a character")
    for _ in range(len(gold.relations) - len(relations)):
        report.skip(where, "skipped a relation", "the name of an end is empty, or has half a character")
    if entities == gold.entities and relations == gold.relations:
        return record
    return replace(record, gold=replace(gold, entities=entities, relations=relations))


def forbid_twice(chunk_id: str, seen: set[bytes], where: str) -> None:
    """Remember an id, by its hash; raises `UserError` if it was there."""
    digest = blake2b(chunk_id.encode(), digest_size=16).digest()
    if digest in seen:
        raise UserError(
            f"the chunk id {chunk_id!r} stands twice", where=where, hint="ids join gold, corpus and extractions"
        )
    seen.add(digest)


def files_in(path: Path, *suffixes: str) -> list[Path]:
    """The file itself, or the files below a directory with these suffixes, sorted; `UserError` if there is none."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"there is no file or directory {path}")
    found = sorted(it for it in path.rglob("*") if it.suffix.lower() in suffixes and it.is_file())
    if not found:
        raise UserError(f"there is no {' or '.join(suffixes)} file in {path}")
    return found


def join_tokens(tokens: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """A text of tokens, with the offsets of each: a space between them, but none inside Chinese or Japanese."""
    parts: list[str] = []
    spans = []
    at = 0
    for token in tokens:
        before = parts[-1] if parts else ""
        if before and not (token and unspaced(before[-1]) and unspaced(token[0])):
            parts.append(" ")
            at += 1
        parts.append(token)
        spans.append((at, at + len(token)))
        at += len(token)
    return "".join(parts), spans


def as_offset(value: Any) -> int | None:
    """A character offset, or null for what is none; whole floats, which pandas makes of integers, are taken."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_OFFSET
    return value if fits else None


def with_checked_offsets(gold: GoldChunk, text: str, where: str, report: Report) -> GoldChunk:
    """The same annotation without the offsets that do not lead to the entity's own text; each is reported."""
    entities = [_with_checked_offsets(entity, text, where, report) for entity in gold.entities]
    return gold if entities == gold.entities else replace(gold, entities=entities)


def _with_checked_offsets(entity: GoldEntity, text: str, where: str, report: Report) -> GoldEntity:
    start, end = entity.start, entity.end
    if start is None or end is None or (0 <= start < end and _same(text[start:end], entity.text)):
        return entity
    found = f"{entity.text!r} is not {text[start:end][:80]!r} at {start} to {end}{_unit(entity, text, start, end)}"
    report.problems.add(where, BAD_OFFSETS, found)
    return replace(entity, start=None, end=None)


def _same(found: str, text: str) -> bool:
    # Some tools write a line end inside a mention as a space, others all names in capitals.
    return found == text or (bool(found) and _normal(found) == _normal(text))


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


def _unit(entity: GoldEntity, text: str, start: int, end: int) -> str:
    """What else the offsets might count, in words."""
    for encoding, size, unit in (("utf-8", 1, "bytes"), ("utf-16-le", 2, "UTF-16 units")):
        part = text.encode(encoding)[start * size : end * size]
        if part.decode(encoding, errors="replace") == entity.text:
            return f"; they count {unit}, not characters"
    return ""


def grounded(gold: GoldChunk, text: str) -> GoldChunk:
    """The same annotation, where entities without offsets get those of their first occurrence in the text, if any."""
    if all(entity.start is not None for entity in gold.entities):
        return gold
    grounding = Grounding(text)
    return replace(gold, entities=[_grounded(entity, grounding) for entity in gold.entities])


def _grounded(entity: GoldEntity, grounding: Grounding) -> GoldEntity:
    span = None if entity.start is not None else grounding.find(entity.text)
    return entity if span is None else replace(entity, start=span[0], end=span[1])


def stem_of(file: Path, root: Path) -> str:
    """The name of a file without its suffix, below `root` where that is a directory: what ids begin with."""
    if file == root:
        return file.stem
    below = file.relative_to(root)
    return below.with_name(below.name.removesuffix(file.suffix)).as_posix()

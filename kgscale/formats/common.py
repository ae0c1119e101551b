"""What all readers share: the record they yield, the report they fill, and the check of offsets."""

import codecs
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from kgscale.corpus.files import decode, read_lines
from kgscale.corpus.notices import Notices
from kgscale.errors import UserError
from kgscale.ground import Grounding
from kgscale.records import GoldChunk, GoldEntity, Status
from kgscale.text import is_writable, unspaced

BAD_OFFSETS = "the offsets do not fit the text, and are left out"
_MAX_OFFSET = 2**31 - 1  # what the column of gold.parquet can hold
SHOWN = 5
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

T = TypeVar("T")


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


def refuse_misfits(report: Report) -> None:
    """Raise `UserError` if there is a problem: what `--strict` does."""
    problems = report.problems
    if problems.counts:
        kinds = [f"  {count:,} × {kind}" for kind, count in problems.counts.items()]
        first = [f"  {it}" for it in problems.first[:SHOWN]]
        told = "\n".join(["not everything fits, for example:", *first, "in all:", *kinds])
        raise UserError(told, hint="without --strict, what does not fit is left out and counted")


def forbid_missing(path: Path) -> None:
    """Raise `UserError` unless this is a file or a directory; a pipe is none, since it can be read only once."""
    if not path.exists():
        raise UserError(f"there is no file or directory {path}")
    if not (path.is_file() or path.is_dir()):
        raise UserError(f"{path} is neither a file nor a directory", hint="write what it holds into a file")


def files_in(path: Path, *suffixes: str) -> list[Path]:
    """The file itself, or the files below a directory with these suffixes, sorted; `UserError` if there is none."""
    forbid_missing(path)
    if path.is_file():
        return [path]
    found = sorted(it for it in path.rglob("*") if it.suffix.lower() in suffixes and it.is_file())
    if not found:
        raise UserError(f"there is no {' or '.join(suffixes)} file in {path}")
    return found


def each_file(files: Iterable[Path], report: Report, read: Callable[[Path], Iterable[T]]) -> Iterator[T]:
    """What is read of each file; one that cannot be read, or not to its end, is told, and does not cost the others."""
    for file in files:
        begun = False
        try:
            for it in read(file):
                begun = True
                yield it
        except UserError as error:
            told = "the rest of the file is left out" if begun else "skipped a file"
            report.skip(error.where or str(file), told, error.message)


def text_lines(file: Path) -> Iterator[tuple[int, str | UserError]]:
    """The lines of a UTF-8 file without their ends, numbered from 1; one that cannot be read comes as an error.

    A carriage return alone, as in files of old Macs, ends a line too. Raises `UserError` if the file cannot be read, or
    has the mark of UTF-16.
    """
    number = 0
    for _, data in read_lines(file, str(file)):
        if not number and isinstance(data, bytes) and data.startswith(UTF16):
            raise UserError("is UTF-16; files of lines must be UTF-8", where=str(file))
        for part in [data] if isinstance(data, UserError) else data.rstrip(b"\r\n").split(b"\r"):
            number += 1
            try:
                yield number, part if isinstance(part, UserError) else decode(part, str(file), first_line=number)
            except UserError as error:
                yield number, error


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


def is_whole(*values: Any) -> bool:
    """Whether all are whole numbers; truth values, which Python counts as such, are none."""
    return all(isinstance(it, int) and not isinstance(it, bool) for it in values)


def are_tokens(first: int, last: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether these are the numbers of a first and a last token (inclusive) of those with these spans."""
    return is_whole(first, last) and 0 <= first <= last < len(spans)


def as_offset(value: Any) -> int | None:
    """A character offset, or null for what is none; whole floats, which pandas makes of integers, are taken."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if is_whole(value) and 0 <= value <= _MAX_OFFSET else None


def with_checked_offsets(gold: GoldChunk, text: str, where: str, report: Report) -> GoldChunk:
    """The same annotation without the offsets that do not lead to the entity's own text; each is reported."""
    entities = [_with_checked_offsets(entity, text, where, report) for entity in gold.entities]
    return gold if entities == gold.entities else replace(gold, entities=entities)


def _with_checked_offsets(entity: GoldEntity, text: str, where: str, report: Report) -> GoldEntity:
    start, end = entity.start, entity.end
    if start is None or end is None or (0 <= start < end <= len(text) and _same(text[start:end], entity.text)):
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
        data = text.encode(encoding)
        part = data[start * size : end * size].decode(encoding, errors="replace")
        if end * size <= len(data) and part == entity.text:
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

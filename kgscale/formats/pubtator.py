"""PubTator (BioRED, BC5CDR): abstracts with mentions by character offsets, and relations between concept ids.

`PMID|t|title`, `PMID|a|abstract`, then lines of `PMID, start, end, mention, type, ids` and `PMID, relation, id, id, …`,
parted by tabs. An abstract is a chunk: title, space, text. The mentions of a concept are each other's aliases, and
relations name its first mention.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from kgscale.errors import UserError
from kgscale.formats.common import (
    Converted,
    Record,
    Report,
    as_offset,
    converted,
    each_file,
    files_in,
    text_lines,
    with_checked_offsets,
)
from kgscale.records import GoldChunk, GoldEntity, Relation

SUFFIXES = (".pubtator", ".txt")
_TEXT = re.compile(r"([^\s|]+)\|([ta])\|(.*)", re.DOTALL)
_OFFSET = re.compile(r"[0-9]{1,10}")
_IDS = re.compile(r"[,;]")


@dataclass(slots=True)
class _Abstract:
    where: str
    key: str
    parts: dict[str, str] = field(default_factory=dict)
    entities: list[GoldEntity] = field(default_factory=list)
    concepts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The numbers of the mentions of each concept."""
    relations: list[tuple[str, list[str]]] = field(default_factory=list)
    """Place and columns, to be resolved when all mentions are known."""


def read_pubtator(path: Path) -> Converted:
    """The abstracts of a file, or of the .pubtator and .txt files below a directory."""
    report = Report()

    def records(file: Path) -> Iterator[Record]:
        for abstract in _abstracts(file, report):
            if "t" in abstract.parts or "a" in abstract.parts:
                yield _record(abstract, report)
            else:
                report.skip(abstract.where, "skipped a record", "it has neither a title nor an abstract")

    return converted(path, each_file(files_in(path, *SUFFIXES), report, records), report)


def _abstracts(file: Path, report: Report) -> Iterator[_Abstract]:
    current: _Abstract | None = None
    for number, line in text_lines(file):
        where = f"{file}:{number}"
        if isinstance(line, UserError):
            report.skip(where, "skipped a line", line.message)
            continue
        if not line.strip():
            if current:
                yield current
            current = None
            continue
        text = _TEXT.fullmatch(line)
        key = text[1] if text else line.split("\t", 1)[0]
        if current is None or current.key != key:
            if current:
                yield current
            current = _Abstract(where, key)
        if text and text[2] not in current.parts:
            current.parts[text[2]] = text[3]
        elif not _annotation(current, where, line.split("\t")):
            report.skip(where, "skipped a line", repr(line[:80]))
    if current:
        yield current


def _annotation(abstract: _Abstract, where: str, columns: list[str]) -> bool:
    """Take a mention or a relation; false for a line that is neither."""
    match columns:
        case [_, start, end, mention, kind, *more] if _numbers(start, end) and mention.strip():
            offsets = as_offset(int(start)), as_offset(int(end))
            if kind.strip() and None not in offsets:
                for concept in _IDS.split(more[0]) if more else ():
                    if concept.strip() not in ("", "-", "-1"):
                        abstract.concepts[concept.strip()].append(len(abstract.entities))
                abstract.entities.append(GoldEntity(mention, kind.strip(), *offsets))
                return True
        case [_, kind, _, _, *_] if kind.strip() and not kind.isdecimal():
            abstract.relations.append((where, columns))
            return True
    return False


def _numbers(*columns: str) -> bool:
    return all(_OFFSET.fullmatch(it) for it in columns)


def _record(abstract: _Abstract, report: Report) -> Record:
    text = " ".join(abstract.parts[part] for part in "ta" if part in abstract.parts)
    others: dict[int, dict[str, None]] = defaultdict(dict)
    for mentions in abstract.concepts.values():
        names = dict.fromkeys(abstract.entities[it].text for it in mentions)
        for it in mentions:
            others[it] |= names
    entities = [
        replace(it, aliases=[name for name in others[number] if name != it.text])
        for number, it in enumerate(abstract.entities)
    ]
    relations = []
    for where, (_, kind, source, target, *_) in abstract.relations:
        ends = [abstract.concepts.get(it.strip()) for it in (source, target)]
        if ends[0] and ends[1]:
            relations.append(Relation(entities[ends[0][0]].text, entities[ends[1][0]].text, kind.strip()))
        else:
            report.skip(where, "skipped a relation", f"{source} or {target} is mentioned nowhere in {abstract.key}")
    gold = GoldChunk(abstract.key, entities, relations, text=text)
    return Record(abstract.key, text, with_checked_offsets(gold, text, abstract.where, report))

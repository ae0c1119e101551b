"""brat standoff: a .txt with its .ann beside it; offsets in characters, end exclusive.

A file is a chunk, so that no relation is cut; long ones are for the engines to cut into windows. A discontinuous span
keeps its text and loses its offsets. `*` lines become relations between each two of their members, and their type
counts as symmetric. Events, attributes, normalisations and notes are counted and left out.

https://brat.nlplab.org/standoff.html
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations
from pathlib import Path

from kgscale.corpus.files import read_text
from kgscale.errors import UserError
from kgscale.formats.common import Converted, Record, Report, converted, files_in, with_checked_offsets
from kgscale.formats.output import whole_directory
from kgscale.formats.spans import links_of, mentions_of
from kgscale.records import GoldChunk, GoldEntity, Relation

BAD_LINE = "skipped a line"
MAX_NAME = 200
"""Longest name of a file in bytes, without what is added to it: file systems take 255."""
MAX_PATH = 1000
"""Longest path below the directory in bytes: systems take 1,024 or 4,096 in all."""
_SPAN = re.compile(r"(\S+) (\d{1,9}) (\d{1,9})((?:;\d{1,9} \d{1,9})*)")
_RELATION = re.compile(r"(\S+) Arg1:(\S+) Arg2:(\S+)")
_OTHER = {"E": "an event", "A": "an attribute", "M": "an attribute", "N": "a normalisation", "#": "a note"}


@dataclass(frozen=True, slots=True)
class _Line:
    where: str
    fields: list[str]


def read_brat(path: Path) -> Converted:
    """The annotated texts below a directory, or that of one file (either of the two)."""
    report = Report()

    def records() -> Iterator[Record]:
        for file in _texts(path, report):
            try:
                yield _record(file, file.name if path.is_file() else file.relative_to(path).as_posix(), report)
            except UserError as error:
                report.skip(error.where or str(file), "skipped a file", error.message)

    return converted(path, records(), report)


def _texts(path: Path, report: Report) -> Iterator[Path]:
    """The texts that have annotations; what stands alone is reported."""
    found = {file.with_suffix("") for file in files_in(path, ".txt", ".ann")}
    for stem in sorted(found):
        # `with_suffix` would take the end of a name such as `a.b` for one.
        text, annotation = stem.with_name(f"{stem.name}.txt"), stem.with_name(f"{stem.name}.ann")
        if text.is_file() and annotation.is_file():
            yield text
        elif text.is_file():
            report.skip(str(text), "skipped a file", "it has no .ann beside it")
        else:
            report.skip(str(annotation), "skipped a file", "it has no .txt beside it")


def _record(file: Path, name: str, report: Report) -> Record:
    text = read_text(file, str(file))
    lines = list(_lines(file.with_name(f"{file.stem}.ann")))
    entities: dict[str, GoldEntity] = {}
    for line in lines:
        if line.fields[0].startswith("T"):
            _add_entity(line, entities, report)
    relations = [relation for line in lines for relation in _relations(line, entities, report)]
    chunk_id = name.removesuffix(".txt")
    gold = GoldChunk(chunk_id, list(entities.values()), relations, text=text)
    return Record(name, text, with_checked_offsets(gold, text, str(file), report))


def _lines(file: Path) -> Iterator[_Line]:
    content = read_text(file, str(file))
    # Old Macs end lines by a carriage return alone; one beside others may be a part of a mention.
    for number, line in enumerate(content.split("\n" if "\n" in content else "\r"), start=1):
        if line.strip():
            # Relations end in a tab.
            yield _Line(f"{file}:{number}", line.strip().split("\t"))


def _add_entity(line: _Line, entities: dict[str, GoldEntity], report: Report) -> None:
    span = _SPAN.fullmatch(line.fields[1]) if len(line.fields) > 2 else None
    if span is None or not line.fields[2].strip() or line.fields[0] in entities:
        report.skip(line.where, BAD_LINE, f"no entity, or its id stands twice: {line.fields!r}"[:160])
        return
    kind, start, end, more = span.groups()
    if more:
        report.problems.add(line.where, "the span is discontinuous, and loses its offsets", line.fields[2][:80])
        entities[line.fields[0]] = GoldEntity(line.fields[2], kind)
    else:
        entities[line.fields[0]] = GoldEntity(line.fields[2], kind, int(start), int(end))


def _relations(line: _Line, entities: dict[str, GoldEntity], report: Report) -> Iterator[Relation]:
    mark, detail = line.fields[0], line.fields[1] if len(line.fields) > 1 else ""
    if mark.startswith("T"):
        return
    if mark.startswith("R"):
        match = _RELATION.fullmatch(detail.strip())
        ends = list(match.groups()[1:]) if match else []
        kind = match[1] if match else ""
    elif mark == "*":
        kind, *ends = detail.split() or [""]
    else:
        what = _OTHER.get(mark[:1], "a line of unknown kind")
        report.skip(line.where, f"left out {what}")
        return
    if len(ends) < 2 or not all(end in entities for end in ends):
        report.skip(line.where, "skipped a relation", f"it does not lead to entities: {detail!r}"[:160])
        return
    if mark == "*":
        report.symmetric_types.add(kind)
    for source, target in combinations(ends, 2):
        yield Relation(entities[source].text, entities[target].text, kind)


def partner(path: Path) -> Path:
    """The .ann of a .txt, and the other way round."""
    return path.with_name(path.name.removesuffix(path.suffix) + (".ann" if path.suffix == ".txt" else ".txt"))


def write_brat(records: Iterable[Record], path: Path, report: Report) -> None:
    """Write a .txt and a .ann for each chunk into a new directory, named by the chunk's id.

    A `/` in an id makes a folder; an id that is no safe name of a file is changed and told. White space in a type is
    written as `_`, since brat's types have none.
    """
    taken: set[str] = set()
    with whole_directory(path) as folder:
        for record in records:
            name = _file_name(record.gold.chunk_id, taken)
            if name != record.gold.chunk_id:
                report.problems.add(record.gold.chunk_id, "the id is no name of a file, and is changed", name)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            for suffix, content in ((".txt", record.text), (".ann", _annotation(record, report))):
                with (folder / f"{name}{suffix}").open("w", encoding="utf-8", newline="") as file:
                    file.write(content)


def _file_name(chunk_id: str, taken: set[str]) -> str:
    """A relative path that stays below its directory and that no other chunk has, whatever the id is."""
    parts = [_shortened(re.sub(r"[^\w .,()+=@-]", "_", part).strip(" .")) or "_" for part in chunk_id.split("/")]
    # No folder must be named like a file.
    parts[:-1] = [f"{part}_" if part.lower().endswith((".txt", ".ann")) else part for part in parts[:-1]]
    plain = name = "/".join(parts)
    if len(plain.encode()) > MAX_PATH:
        plain = name = blake2b(chunk_id.encode(), digest_size=16).hexdigest()
    number = 1
    # Some file systems do not tell capitals apart.
    while name.lower() in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name.lower())
    return name


def _shortened(part: str) -> str:
    return part.encode()[:MAX_NAME].decode(errors="ignore").rstrip(" .")


def _annotation(record: Record, report: Report) -> str:
    where = record.gold.chunk_id
    mentions = mentions_of(record, report)
    lines: list[str] = []
    ids: dict[int, str] = {}
    for number, it in enumerate(mentions):
        kind = _type(it.entity.type, where, report)
        if kind is None:
            continue
        ids[number] = f"T{len(ids) + 1}"
        # A line is a line: what breaks in the text does not in the annotation.
        covered = re.sub(r"\s", " ", record.text[it.start : it.end])
        lines.append(f"{ids[number]}\t{kind} {it.start} {it.end}\t{covered}")
    count = 0
    for link in links_of(record, mentions, report):
        kind = _type(link.type, where, report) if link.head in ids and link.tail in ids else None
        if kind is not None:
            count += 1
            lines.append(f"R{count}\t{kind} Arg1:{ids[link.head]} Arg2:{ids[link.tail]}")
    return "".join(f"{line}\n" for line in lines)


def _type(kind: str, where: str, report: Report) -> str | None:
    """A type as brat can have it; null where there is none."""
    if not kind:
        report.skip(where, "not written: an annotation without a type")
        return None
    written = re.sub(r"\s+", "_", kind.strip())
    if written != kind:
        report.problems.add(where, "white space in a type is written as _", kind)
    return written

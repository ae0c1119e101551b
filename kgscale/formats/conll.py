"""CoNLL columns: a token and its tag per line, a blank line between sentences; IOB1, IOB2, BIOES and BILOU alike.

Columns are parted by tabs or spaces; the token is the first and the tag the last, but in StackOverflowNER's four
columns (token, tag, token, other tag) it is the second. A sentence is a chunk; a document is what `-DOCSTART-` opens,
and a sentence for itself where there is none. A sentence with a tag that is none is left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kgscale.errors import UserError
from kgscale.formats.common import Converted, Record, Report, converted, each_file, files_in, join_tokens, text_lines
from kgscale.formats.output import whole_file
from kgscale.formats.spans import Words, mentions_of, word_spans
from kgscale.records import GoldChunk, GoldEntity

SUFFIXES = (".conll", ".txt", ".iob", ".iob2", ".bio", ".tsv")
_TAG = re.compile(r"(?:O|([BILUESMW])-(.+))\Z")
_STARTS, _ENDS = "BUSW", "LEUSW"


@dataclass(frozen=True, slots=True)
class _Sentence:
    number: int
    line: int
    document: int
    rows: list[list[str]]


def read_conll(path: Path) -> Converted:
    """The sentences of a file, or of the files below a directory, with their entities; there are no relations."""
    report = Report()

    def records(file: Path) -> Iterator[Record]:
        name = file.stem if path.is_file() else file.relative_to(path).with_suffix("").as_posix()
        for sentence in _sentences(file, report):
            where = f"{file}:{sentence.line}"
            try:
                yield _record(sentence, name, where, report)
            except ValueError as error:
                report.skip(where, "skipped a sentence", str(error))

    return converted(path, each_file(files_in(path, *SUFFIXES), report, records), report)


def _sentences(file: Path, report: Report) -> Iterator[_Sentence]:
    rows: list[list[str]] = []
    number = document = first = begun = 0
    unreadable = False
    for line, text in text_lines(file):
        if isinstance(text, UserError):
            # A sentence with a hole in it is no sentence: what stands around the line goes with it.
            report.skip(f"{file}:{line}", "skipped a sentence", text.message)
            unreadable = True
            continue
        columns = text.split("\t") if "\t" in text else text.split(" ")
        columns = [column.strip() for column in columns if column.strip()]
        if columns and columns[0] == "-DOCSTART-":
            document += 1
            columns = []
        if len(columns) == 1:
            report.skip(f"{file}:{line}", "skipped a line", f"there is no tag beside {columns[0][:80]!r}")
        elif columns:
            if not rows:
                first, begun = line, document
            rows.append(columns)
        elif rows or unreadable:
            number += 1
            if not unreadable:
                yield _Sentence(number, first, begun, rows)
            rows, unreadable = [], False
    if rows and not unreadable:
        yield _Sentence(number + 1, first, begun, rows)


def _record(sentence: _Sentence, name: str, where: str, report: Report) -> Record:
    tokens = [row[0] for row in sentence.rows]
    second = all(len(row) == 4 and row[2] == row[0] for row in sentence.rows)
    tags = [row[1] if second else row[-1] for row in sentence.rows]
    text, spans = join_tokens(tokens)
    entities = []
    for first, last, kind in _entities(tags, where, report):
        start, end = spans[first][0], spans[last][1]
        entities.append(GoldEntity(text[start:end], kind, start, end))
    chunk_id = f"{name}-{sentence.number}"
    doc_id = f"{name}-doc-{sentence.document}" if sentence.document else chunk_id
    return Record(doc_id, text, GoldChunk(chunk_id, entities, [], text=text))


def _entities(tags: list[str], where: str, report: Report) -> Iterator[tuple[int, int, str]]:
    """First and last token (inclusive) and type of each entity; an `I-` that continues nothing begins one."""
    start: int | None = None
    open_kind = ""
    for index, tag in enumerate([*tags, "O"]):
        match = _TAG.match(tag)
        if match is None:
            raise ValueError(f"{tag[:80]!r} is not a tag such as B-person")
        prefix, kind = match[1] or "O", match[2]
        if start is not None and (prefix == "O" or prefix in _STARTS or kind != open_kind):
            yield start, index - 1, open_kind
            start = None
        if prefix == "O":
            continue
        if start is None:
            if prefix not in _STARTS:
                report.problems.add(where, "an entity does not begin with B-; it is read all the same", tag)
            start, open_kind = index, kind
        if prefix in _ENDS:
            yield start, index, open_kind
            start = None


def write_conll(records: Iterable[Record], path: Path, report: Report) -> None:
    """Write words and IOB2 tags, parted by tabs, with a `-DOCSTART-` before each document.

    Of entities that overlap the first and longest is written; the others, relations and texts without a word are told.
    """
    with whole_file(path) as file:
        document: str | None = None
        for record in records:
            where, words = record.gold.chunk_id, Words.of(record.text)
            for relation in record.gold.relations:
                report.skip(
                    where, "not written: a relation", f"{relation.source} {relation.type} {relation.target}"[:80]
                )
            if not words.words:
                report.skip(where, "not written: a text without a word")
                continue
            tags = ["O"] * len(words.words)
            mentions, spans = word_spans(record, mentions_of(record, report), words, report)
            ordered = sorted(zip(spans, mentions, strict=True), key=lambda it: (it[0][0], -it[0][1]))
            for (first, last), mention in ordered:
                kind = " ".join(mention.entity.type.split())
                if not kind or any(tag != "O" for tag in tags[first : last + 1]):
                    told = f"{mention.entity.text!r}"[:80]
                    report.skip(where, "not written: an entity without a type, or that overlaps another", told)
                    continue
                tags[first : last + 1] = [f"B-{kind}", *[f"I-{kind}"] * (last - first)]
            if record.doc_id != document:
                document = record.doc_id
                file.write("-DOCSTART-\tO\n\n")
            file.writelines(f"{word}\t{tag}\n" for word, tag in zip(words.words, tags, strict=True))
            file.write("\n")

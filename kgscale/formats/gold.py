"""Gold into a run: the guide's JSON or kgscale's Parquet, checked against the corpus, kept as gold.parquet."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgscale.corpus.values import as_id, as_text
from kgscale.errors import UserError
from kgscale.formats.common import Report, forbid_twice, with_checked_offsets
from kgscale.formats.guide import read_guide_gold
from kgscale.records import (
    GOLD_ANNOTATOR,
    GOLD_PARTIAL,
    GOLD_SCHEMA,
    GoldChunk,
    GoldEntity,
    Origin,
    Relation,
    to_table,
)
from kgscale.runs import CHUNKS_FILE, GOLD_FILE
from kgscale.store import Store

NOT_IN_CORPUS = "has gold, but is not in the corpus"
GROUP_CHUNKS = 1024
"""Gold chunks per row group of gold.parquet: what scoring reads at once."""
OTHER_TEXT = "the gold was made on another text than the corpus has"


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold set in memory: thousands of chunks, not a corpus; `report` says how the reading went."""

    chunks: list[GoldChunk]
    report: Report
    annotator: str | None = None
    """The model that annotated, or several joined by ` + `, where the file names it."""
    partial: int = 0
    """Chunks that are not annotated exhaustively."""


def load_gold(path: str | Path) -> Gold:
    """Read a gold file: `.parquet` in kgscale's form, anything else as the guide's JSON.

    Raises `UserError` if the file is missing, damaged or without chunks, or if a chunk id stands twice; smaller faults
    are in the report.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no gold file {path}")
    report = Report()
    chunks: list[GoldChunk] = []
    seen: set[bytes] = set()
    for chunk in _read_parquet(path, report) if path.suffix == ".parquet" else read_guide_gold(path, report):
        forbid_twice(chunk.chunk_id, seen, str(path))
        report.count(chunk)
        chunks.append(chunk)
    if not chunks:
        raise UserError("has no chunk with gold", where=str(path))
    annotator, partial = _metadata(path) if path.suffix == ".parquet" else _declared(chunks)
    return Gold(chunks, report, annotator, partial)


def write_gold(store: Store, chunks: Iterable[GoldChunk], annotator: str | None = None, partial: int = 0) -> None:
    """Write a run's gold.parquet over whatever was there.

    `annotator` names the model that made a pseudo-gold, `partial` says how many chunks are not annotated exhaustively.
    """
    table = to_table(chunks, GOLD_SCHEMA)
    told = {GOLD_ANNOTATOR: annotator, GOLD_PARTIAL: str(partial) if partial else None}
    schema = GOLD_SCHEMA.with_metadata({key: value for key, value in told.items() if value} or None)
    with store.table_writer(GOLD_FILE, schema) as writer:
        writer.write_table(table.cast(schema), row_group_size=GROUP_CHUNKS)


def prepare_gold(path: str | Path, store: Store, *, exhaustive: bool = True) -> Report:
    """Read a gold file, check it against the run's corpus and write gold.parquet.

    Offsets must lead to the entity in the corpus's own text; those that do not are left out. Chunks that the corpus
    lacks are kept and reported: scoring counts them as missed. Unless `exhaustive`, no chunk counts as such.
    """
    gold = load_gold(path)
    _refuse_useless(gold, store, str(path))
    checked = _checked_with(gold, store, str(path))
    write_gold(store, checked, gold.annotator, gold.partial if exhaustive else len(checked))
    return gold.report


def _refuse_useless(gold: Gold, store: Store, where: str) -> None:
    """Raise `UserError` where scoring against this gold would only seem to measure something."""
    report = gold.report
    if report.skipped and not report.mentions and not report.relations:
        raise UserError(
            f"none of its {report.skipped} annotations could be read, for example: {report.problems.first[0]}",
            where=where,
            hint='an entity is {"text": …, "type": …}, a relation {"source": …, "target": …, "type": …}',
        )
    ids = {chunk.chunk_id for chunk in gold.chunks}
    column = (batch["chunk_id"] for batch in store.parquet(CHUNKS_FILE).iter_batches(columns=["chunk_id"]))
    if ids and not any(ids & set(batch.to_pylist()) for batch in column):
        raise UserError(
            f"none of its {len(ids)} chunk ids is in the corpus, for example {sorted(ids)[0]!r}",
            where=where,
            hint="gold and corpus are joined by chunk_id: let both come from the same chunks",
        )


def _checked_with(gold: Gold, store: Store, where: str) -> list[GoldChunk]:
    """The gold in the order of the corpus, so that scoring reads both side by side; what it lacks comes last."""
    missing = {chunk.chunk_id: chunk for chunk in gold.chunks}
    checked = []
    for batch in store.parquet(CHUNKS_FILE).iter_batches(batch_size=1024, columns=["chunk_id", "text"]):
        for chunk_id, text in zip(batch["chunk_id"].to_pylist(), batch["text"].to_pylist(), strict=True):
            chunk = missing.pop(chunk_id, None)
            if chunk is None:
                continue
            at = f"{where}, {chunk_id}"
            if chunk.text is not None and chunk.text != text:
                gold.report.problems.add(at, OTHER_TEXT)
            checked.append(with_checked_offsets(chunk, text, at, gold.report))
    for chunk_id in missing:
        gold.report.problems.add(f"{where}, {chunk_id}", NOT_IN_CORPUS)
    return [*checked, *missing.values()]


def _declared(chunks: Iterable[GoldChunk]) -> tuple[str | None, int]:
    """The annotators of all chunks, each once, and how many chunks are not annotated exhaustively."""
    names = dict.fromkeys(name for it in chunks if it.annotator for name in it.annotator.split(" + "))
    return " + ".join(names) or None, sum(not it.exhaustive for it in chunks)


def _metadata(path: Path) -> tuple[str | None, int]:
    """The same from what a Parquet file says of itself."""
    found = pq.read_schema(path).metadata or {}
    named, partial = (found.get(key.encode(), b"").decode(errors="replace") for key in (GOLD_ANNOTATOR, GOLD_PARTIAL))
    return named or None, int(partial) if partial.isdecimal() else 0


def _read_parquet(path: Path, report: Report) -> Iterator[GoldChunk]:
    number = 0
    try:
        file = pq.ParquetFile(path)
        names = [name for name in GOLD_SCHEMA.names if name in file.schema_arrow.names]
        if needed := {"chunk_id", "entities", "relations"} - set(names):
            raise UserError(f"has no column {', '.join(sorted(needed))}", where=str(path))
        for batch in file.iter_batches(batch_size=1024, columns=names):
            rows = [{"origin": Origin.MANUAL.value, **row} for row in batch.to_pylist()]
            # A trip through the schema checks every type at once.
            for row in pa.Table.from_pylist(rows, schema=GOLD_SCHEMA).to_pylist():
                number += 1
                chunk = _from_row(row)
                at = f"{path.name}, record {number} ({chunk.chunk_id})"
                yield chunk if chunk.text is None else with_checked_offsets(chunk, chunk.text, at, report)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"cannot be read as gold: {error}", where=str(path)) from None
    except (TypeError, KeyError, ValueError) as error:
        raise UserError(f"does not fit kgscale's form of gold: {error}", where=f"{path}, record {number}") from None


def _from_row(row: dict[str, Any]) -> GoldChunk:
    entities = [GoldEntity(**{**entity, "aliases": entity["aliases"] or []}) for entity in row["entities"]]
    relations = [Relation(**relation) for relation in row["relations"]]
    for name in (
        *(name for it in entities for name in (it.text, it.type)),
        *(name for it in relations for name in (it.source, it.target, it.type)),
    ):
        as_text(name)  # a column's schema does not keep nulls out
    return GoldChunk(as_id(row["chunk_id"]), entities, relations, Origin(row["origin"]), row["text"])

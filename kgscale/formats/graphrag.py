"""Microsoft GraphRAG's Parquet: text units as chunks, and the entities and relationships that name each of them.

Both generations of names are read: `text_units.parquet` and `create_final_text_units.parquet`, `title` and `name`,
`document_id` and `document_ids`. Relationships have no type. A unit that no entity names may have been answered with
nothing or not at all: the files do not tell, and it counts as answered. The graph without its descriptions is held in
memory, the texts are not.

https://microsoft.github.io/graphrag/index/outputs/
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from kgscale.corpus.values import as_id, as_text
from kgscale.errors import UserError
from kgscale.formats.common import Converted, Record, Report, converted, grounded
from kgscale.formats.output import whole_directory
from kgscale.records import GoldChunk, GoldEntity, Origin, Relation
from kgscale.text import words

UNITS, ENTITIES, RELATIONSHIPS = "text_units.parquet", "entities.parquet", "relationships.parquet"
OLD = "create_final_"
_BATCH = 1024


def read_graphrag(path: Path) -> Converted:
    """The text units of an output directory (or of the one output below it), with what was extracted from each."""
    report = Report()
    folder, prefix = _folder(path)

    def records() -> Iterator[Record]:
        files = [folder / f"{prefix}{name}" for name in (UNITS, ENTITIES, RELATIONSHIPS)]
        with _parquet(files[1]):
            entities = _by_unit(files[1], [("title", "name"), ("type",)], report)
        with _parquet(files[2]):
            relations = _by_unit(files[2], [("source",), ("target",)], report)
        used: set[str] = set()
        with _parquet(files[0]):
            yield from _records(files[0], entities, relations, used, report)
        for file, side in zip(files[1:], (entities, relations), strict=True):
            for unit, count in side.filter(~pl.col("unit").is_in(used)).select("unit", pl.nth(1).list.len()).rows():
                for _ in range(count):
                    report.skip(f"{file}, {unit}", "left out what belongs to no text unit")

    return converted(path, records(), report)


@contextmanager
def _parquet(file: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"damaged Parquet: {error}", where=str(file)) from None


def _folder(path: Path) -> tuple[Path, str]:
    if not path.is_dir():
        raise UserError(f"there is no directory {path}")
    # An output that was made anew by a later version has both; the later counts.
    prefixes = {it.parent: prefix for prefix in (OLD, "") for it in path.rglob(f"{prefix}{UNITS}")}
    found = sorted(prefixes.items())
    if not found:
        raise UserError(f"there is no {UNITS} (or {OLD}{UNITS}) at or below {path}")
    if len(found) > 1:
        names = ", ".join(it.relative_to(path).as_posix() for it, _ in found[:5])
        raise UserError(f"there are several outputs below {path}", hint=f"name one of them: {names}")
    return found[0]


def _by_unit(file: Path, columns: list[tuple[str, ...]], report: Report) -> pl.DataFrame:
    """One row per text unit, each column as a list; of several names of a column the first that is there counts."""
    if not file.is_file():
        raise UserError(f"there is no {file.name}", where=str(file.parent))
    there = pq.read_schema(file).names
    wanted = [next((name for name in names if name in there), names[0]) for names in columns]
    if missing := {*wanted, "text_unit_ids"} - {*there, "type"}:
        raise UserError(f"has no column {', '.join(sorted(missing))}", where=str(file))
    frame = pl.read_parquet(file, columns=[it for it in (*wanted, "text_unit_ids") if it in there])
    units = pl.col("text_unit_ids")
    named = frame.with_columns(_as_ids(frame["text_unit_ids"])).select(
        *(
            (pl.col(it) if it in there else pl.lit("")).cast(pl.String).fill_null("").alias(names[0])
            for it, names in zip(wanted, columns, strict=True)
        ),
        # Not every version of Polars keeps the row of an empty list.
        pl.when(units.list.len() > 0).then(units).alias("unit"),
    )
    exploded = named.explode("unit")
    rows = exploded.drop_nulls("unit").unique(maintain_order=True)
    for _ in range(exploded["unit"].null_count()):
        report.skip(str(file), "left out what belongs to no text unit")
    return rows.group_by("unit", maintain_order=True).all()


def _as_ids(column: pl.Series) -> pl.Series:
    """Lists of ids as texts; whole numbers may have become floats on their way, and other floats are no ids."""
    if isinstance(column.dtype, pl.List) and column.dtype.inner.is_float():
        whole = pl.when(pl.element() == pl.element().round()).then(pl.element())
        column = column.list.eval(whole.cast(pl.Int64, strict=False))
    return column.cast(pl.List(pl.String))


def _records(
    file: Path, entities: pl.DataFrame, relations: pl.DataFrame, used: set[str], report: Report
) -> Iterator[Record]:
    """The text units; `used` gets the ids of those that there are."""
    units = pq.ParquetFile(file)
    there = units.schema_arrow.names
    document = "document_id" if "document_id" in there else "document_ids"
    if missing := {"id", "text"} - set(there):
        raise UserError(f"has no column {', '.join(sorted(missing))}", where=str(file))
    number = 0
    for batch in units.iter_batches(_BATCH, columns=[it for it in ("id", "text", document) if it in there]):
        ids = _as_ids(pl.Series([batch["id"].to_pylist()]))[0].drop_nulls()
        used.update(ids)
        found = [
            {row[0]: list(zip(*row[1:], strict=True)) for row in side.filter(pl.col("unit").is_in(ids)).iter_rows()}
            for side in (entities, relations)
        ]
        for row in batch.to_pylist():
            number += 1
            try:
                key, text = as_id(row["id"]), as_text(row["text"])
                doc_id = as_id(_first(row.get(document)) or key)
            except ValueError as error:
                report.skip(f"{file}, record {number}", "skipped a text unit", str(error))
                continue
            gold = GoldChunk(
                key,
                [GoldEntity(*it) for it in found[0].get(key, [])],
                [Relation(source, target, "") for source, target in found[1].get(key, [])],
                Origin.PSEUDO,
                text,
            )
            yield Record(doc_id, text, grounded(gold, text))


def _first(value: Any) -> Any:
    return next(iter(value), None) if isinstance(value, list) else value


def write_graphrag(records: Iterable[Record], path: Path, _report: Report) -> None:
    """Write the three tables that GraphRAG needs of an own graph; descriptions are empty but for a relation's type.

    Names and types that several chunks share become one row; the graph is held in memory meanwhile.
    """
    entities: dict[tuple[str, str], list[str]] = {}
    relations: dict[tuple[str, str, str], list[str]] = {}
    with whole_directory(path) as folder:
        with pq.ParquetWriter(folder / UNITS, _UNITS, compression="zstd") as writer:
            number = 0
            rows = iter(records)
            while batch := list(islice(rows, _BATCH)):
                units: list[tuple[Any, ...]] = []
                for record in batch:
                    gold, unit = record.gold, record.gold.chunk_id
                    named = dict.fromkeys((it.text, it.type) for it in gold.entities)
                    joined = dict.fromkeys((it.source, it.target, it.type) for it in gold.relations)
                    for entity in named:
                        entities.setdefault(entity, []).append(unit)
                    for relation in joined:
                        relations.setdefault(relation, []).append(unit)
                    ids = [_id(*it) for it in named], [_id(*it) for it in joined]
                    units.append((unit, number, record.text, words(record.text), record.doc_id, *ids, []))
                    number += 1
                writer.write_table(_table(units, _UNITS))
        degrees: dict[str, int] = {}
        for source, target, _ in relations:
            for name in {source, target}:
                degrees[name] = degrees.get(name, 0) + 1
        nodes = [
            (_id(*it), at, *it, "", found, len(found), degrees.get(it[0], 0))
            for at, (it, found) in enumerate(entities.items())
        ]
        edges = [
            (_id(*it), at, *it, float(len(found)), degrees[it[0]] + degrees[it[1]], found)
            for at, (it, found) in enumerate(relations.items())
        ]
        pq.write_table(_table(nodes, _ENTITIES), folder / ENTITIES, compression="zstd")
        pq.write_table(_table(edges, _RELATIONSHIPS), folder / RELATIONSHIPS, compression="zstd")


def _id(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, it.type) for column, it in zip(columns, schema, strict=True)], schema=schema)


_TEXT, _TEXTS, _WHOLE = pa.string(), pa.list_(pa.string()), pa.int64()
_UNITS = pa.schema(
    {
        "id": _TEXT,
        "human_readable_id": _WHOLE,
        "text": _TEXT,
        "n_tokens": _WHOLE,
        "document_id": _TEXT,
        "entity_ids": _TEXTS,
        "relationship_ids": _TEXTS,
        "covariate_ids": _TEXTS,
    }
)
_ENTITIES = pa.schema(
    {
        "id": _TEXT,
        "human_readable_id": _WHOLE,
        "title": _TEXT,
        "type": _TEXT,
        "description": _TEXT,
        "text_unit_ids": _TEXTS,
        "frequency": _WHOLE,
        "degree": _WHOLE,
    }
)
_RELATIONSHIPS = pa.schema(
    {
        "id": _TEXT,
        "human_readable_id": _WHOLE,
        "source": _TEXT,
        "target": _TEXT,
        "description": _TEXT,
        "weight": pa.float64(),
        "combined_degree": _WHOLE,
        "text_unit_ids": _TEXTS,
    }
)

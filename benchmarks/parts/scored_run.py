"""A run with gold and one extracted method of any size, made from random numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kgscale.config import Config
from kgscale.records import EXTRACTION_SCHEMA, GOLD_SCHEMA, Chunk
from kgscale.runs import GOLD_FILE, Run, Shard, write_chunks

ENTITIES = 30
RELATIONS = 20
ROWS_PER_CHUNK = 2 * (ENTITIES + RELATIONS)
SHARD = 256
KEPT = 0.7
"""Share of the gold items that an extraction has too."""
NAMES = {"low": 2_000, "high": None}
"""Distinct names in the corpus; null for names that each chunk has for itself."""


def generate(folder: Path, chunks: int, names: int | None) -> None:
    """Gold of `ENTITIES` names and `RELATIONS` between them per chunk, and one method that finds it in part.

    Of its names, offsets, types and relation ends, `KEPT` are those of the gold.
    """
    rng = np.random.default_rng(0)
    values = {
        "corpus": {"path": "-"},
        "engines": {"llm": {"kind": "vllm"}},
        "methods": {"llm": {"entities": "llm", "relations": "llm"}},
    }
    info = {"fingerprint": {"corpus": "-", "methods": {"llm": {"stamp": "-"}}}}
    run = Run.create(folder, Config.model_validate(values), info)
    write_chunks(run.store, (Chunk(f"{row:032d}", f"{row // 50}", row, "", 0) for row in range(chunks)), SHARD)
    with run.store.table_writer(GOLD_FILE, GOLD_SCHEMA) as writer:
        for start in range(0, chunks, SHARD):
            stop = min(start + SHARD, chunks)
            count = stop - start
            shape = (count, ENTITIES)
            drawn = rng.integers(0, names or ENTITIES * 1000, shape)
            gold_names = drawn + (np.arange(start, stop) * ENTITIES * 1000)[:, None] * (names is None)
            gold_ends = rng.integers(0, ENTITIES, (count, RELATIONS, 2))
            ids = pa.array([f"{row:032d}" for row in range(start, stop)])
            kinds, relation_kinds = rng.integers(0, 8, shape), rng.integers(0, 10, (count, RELATIONS))
            writer.write_table(
                table(
                    GOLD_SCHEMA,
                    count,
                    chunk_id=ids,
                    entities=entity_lists(GOLD_SCHEMA, gold_names, kinds, np.zeros(shape, np.int32)),
                    relations=relation_lists(gold_names, gold_ends, relation_kinds),
                    origin=pa.array(["manual"] * count),
                )
            )
            found = np.where(rng.random(shape) < KEPT, gold_names, gold_names + 1)
            moved = np.where(rng.random(shape) < KEPT, 0, rng.integers(1, 6, shape)).astype(np.int32)
            found_kinds = np.where(rng.random(shape) < KEPT, kinds, (kinds + 1) % 8)
            ends = np.where(rng.random((count, RELATIONS, 1)) < KEPT, gold_ends, (gold_ends + 1) % ENTITIES)
            columns = table(
                EXTRACTION_SCHEMA,
                count,
                chunk_id=ids,
                row=pa.array(range(start, stop)),
                doc_id=pa.array([f"{row // 50}" for row in range(start, stop)]),
                method=pa.array(["llm"] * count),
                status=pa.array(["ok"] * count),
                entities=entity_lists(EXTRACTION_SCHEMA, found, found_kinds, moved),
                relations=relation_lists(found, ends, relation_kinds),
                entities_by=pa.array(["llm"] * count),
                service_ms=pa.array(rng.random(count) * 100),
                windows=pa.array([1] * count, pa.int32()),
                attempts=pa.array([1] * count, pa.int32()),
            )
            shard = Shard("llm", start, stop)
            run.store.write_table(shard.file, columns, run.footer(shard))


def table(schema: pa.Schema, rows: int, **columns: pa.Array) -> pa.Table:
    return pa.table([columns.get(it.name, pa.nulls(rows, it.type)) for it in schema], schema=schema)


def named(prefix: str, numbers: Any) -> pa.Array:
    return pa.array([f"{prefix} number {it}" for it in numbers.ravel().tolist()])


def lists(parts: list[pa.Array], kind: pa.DataType, per_chunk: int) -> pa.Array:
    items = pa.StructArray.from_arrays(parts, fields=list(kind))
    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(items) + 1, per_chunk, dtype=np.int32)), items)


def entity_lists(schema: pa.Schema, names: Any, kinds: Any, moved: Any) -> pa.Array:
    kind = schema.field("entities").type.value_type
    starts = np.tile(np.arange(ENTITIES, dtype=np.int32) * 20, len(names)) + moved.ravel()
    last = kind.field(4).type
    parts = [named("Entity", names), named("type", kinds), pa.array(starts), pa.array(starts + 12)]
    return lists([*parts, pa.nulls(starts.size, last)], kind, ENTITIES)


def relation_lists(names: Any, ends: Any, kinds: Any) -> pa.Array:
    sources, targets = (named("Entity", np.take_along_axis(names, ends[:, :, end], axis=1)) for end in (0, 1))
    kind = EXTRACTION_SCHEMA.field("relations").type.value_type
    return lists([sources, targets, named("relation", kinds), pa.nulls(kinds.size, pa.float32())], kind, RELATIONS)

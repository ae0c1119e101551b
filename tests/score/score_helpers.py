"""Small runs to score, written the way the extraction job writes them."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from kgscale.config import Config, SchemaConfig
from kgscale.lock import driver_lock
from kgscale.records import (
    EXTRACTION_SCHEMA,
    GOLD_SCHEMA,
    Chunk,
    Entity,
    Extraction,
    GoldChunk,
    GoldEntity,
    Relation,
    Status,
    to_table,
)
from kgscale.runs import GOLD_FILE, Run, Shard, write_chunks
from kgscale.score.batches import to_frame
from kgscale.score.keys import Keys
from kgscale.score.reduce import Answered
from kgscale.score.reference import GoldBatch
from kgscale.score.results import MethodScores
from kgscale.score.scorer import score_run
from kgscale.store import Store

SCHEMA = {
    "entity_types": ["organization", "person", "product"],
    "relation_types": {"founded_by": None, "uses": None, "partner_of": {"symmetric": True}},
    "aliases": {
        "entity_types": {"ORG": "organization"},
        "relation_types": {"founder": "founded_by"},
        "names": {"PG": "Postgres"},
    },
}


def entity(text: str, kind: str = "organization", start: int | None = 0, end: int | None = 1) -> Entity:
    return Entity(text, kind, start, end, None)


def gold_entity(text: str, kind: str = "organization", *, aliases: Sequence[str] = ()) -> GoldEntity:
    return GoldEntity(text, kind, 0, 1, list(aliases))


def gold_chunk(chunk_id: str, entities: Iterable[GoldEntity] = (), relations: Iterable[Relation] = ()) -> GoldChunk:
    return GoldChunk(chunk_id, list(entities), list(relations))


def answer(entities: Iterable[Entity] = (), relations: Iterable[Relation] = (), **more: Any) -> Extraction:
    """What a method found in one chunk; `make_run` says in which."""
    base = {"chunk_id": "", "row": 0, "doc_id": "", "method": "", "status": Status.OK, "entities_by": None}
    return Extraction(**{**base, "entities": list(entities), "relations": list(relations), **more})


def same_as(gold: GoldChunk) -> Extraction:
    """A perfect answer."""
    return answer([Entity(it.text, it.type, it.start, it.end) for it in gold.entities], gold.relations)


def make_run(
    path: Path,
    ids: Sequence[str],
    methods: Mapping[str, Sequence[Extraction | None]],
    gold: Sequence[GoldChunk] | None = None,
    *,
    docs: Sequence[str] | None = None,
    shard_chunks: int = 2,
    schema: Mapping[str, Any] = SCHEMA,
    compare: Mapping[str, Any] | None = None,
    corpus: str = "corpus-1",
) -> Run:
    """A run over chunks `ids`; a method's answer of None leaves the whole shard uncommitted."""
    engines = {name: {"kind": "vllm"} for name in methods}
    values = {
        "corpus": {"path": "docs"},
        "schema": schema,
        "engines": engines,
        "methods": {name: {"entities": name, "relations": name} for name in methods},
        "compare": compare or {},
    }
    info = {"fingerprint": {"corpus": corpus, "methods": {name: {"stamp": name} for name in methods}}}
    run = Run.create(path, Config.model_validate(values), info)
    docs = docs or ids
    chunks = [Chunk(it, docs[row], row, f"text {it}", 2, f"{docs[row]}.txt") for row, it in enumerate(ids)]
    write_chunks(run.store, chunks, shard_chunks)
    if gold is not None:
        write_gold(run.store, gold)
    with driver_lock(run.store, "test") as token:
        for name, answers in methods.items():
            for start, stop in run.planned:
                rows = [placed(answers[row], chunks[row], name) for row in range(start, stop) if answers[row]]
                if len(rows) == stop - start:
                    assert run.commit(Shard(name, start, stop), rows, token)
    return Run(path)


def score_once(
    gold: Sequence[GoldChunk], answers: Sequence[Extraction | None], ids: Sequence[str] | None = None, **more: Any
) -> MethodScores:
    """The scores of one method in a run that is thrown away; the corpus is the gold's chunks unless `ids` are given."""
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), ids or [it.chunk_id for it in gold], {"m": answers}, gold, **more)
        return score_run(run).methods[0]


def compared(gold: Sequence[GoldChunk], answers: Sequence[Extraction], ids: Sequence[str]) -> Answered:
    """One method beside the gold, in memory; gold chunks outside `ids` come after the corpus."""
    chunks = [Chunk(it, it, row, "", 0) for row, it in enumerate(ids)]
    rows = [placed(it, chunk, "m") for it, chunk in zip(answers, chunks, strict=True)]
    places = {it: row for row, it in enumerate([*ids, *(it.chunk_id for it in gold if it.chunk_id not in ids)])}
    annotated = to_frame(to_table(gold, GOLD_SCHEMA))
    row = pl.Series("row", [places[it] for it in annotated["chunk_id"]], dtype=pl.Int64)
    keys = Keys.of(SchemaConfig.model_validate(SCHEMA)).fresh()
    batch = GoldBatch.of(annotated.select(row, pl.all()).sort("row"), keys)
    return Answered.of(to_frame(to_table(rows, EXTRACTION_SCHEMA)), batch, keys)


def chunk_figures(gold: Sequence[GoldChunk], answers: Sequence[Extraction], ids: Sequence[str]) -> pl.DataFrame:
    """Counts by mode and chunk: mode, row, tp, fp, fn."""
    found = compared(gold, answers, ids).found
    return found.matches.by_chunk(found.gold.rows["row"])


def placed(it: Extraction, chunk: Chunk, method: str) -> Extraction:
    engine = it.entities_by or (method if it.status in (Status.OK, Status.TRUNCATED) else None)
    return replace(it, chunk_id=chunk.chunk_id, row=chunk.row, doc_id=chunk.doc_id, method=method, entities_by=engine)


def write_gold(store: Store, gold: Sequence[GoldChunk]) -> None:
    store.write_table(GOLD_FILE, to_table(gold, GOLD_SCHEMA))

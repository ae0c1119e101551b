"""Runs to report on: small ones with awkward text, and large ones whose rows are drawn from a few prepared ones."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgscale.config import Config
from kgscale.footer import footer
from kgscale.lock import driver_lock
from kgscale.records import (
    CHUNK_SCHEMA,
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
from kgscale.runs import CHUNKS_FILE, GOLD_FILE, Run, Shard, write_chunks
from kgscale.store import Store

TYPES = ("organization", "person", "location", "product", "date")
RELATION_TYPES = ("founded_by", "works_for", "located_in", "partner_of")
TEMPLATES = 40
VARIANTS = 12
SHARD = 2048
QUALITY = {"llm": 0.88, "hybrid": 0.85, "gliner": 0.86}
"""The share of items that a method gets right."""
SPEED_MS = {"llm": 24.0, "hybrid": 5.5, "gliner": 0.9}
FILLER = ["the", "quarterly", "review", "said", "that", "growth", "was", "steady", "while", "costs", "rose", "in"]


HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "<!--<script>",
    "nul\x00 bell\x07",
    "\u202egnp.exe\u202c",
    'Robert\'); DROP "quotes" & amps',
    "\u05e9\u05dc\u05d5\u05dd \u200fRTL",
    "W" * 3000,
    "\U0001f469\u200d\U0001f680 emoji \U0001f1e8\U0001f1f3",
    "{{ 7 * 7 }} ${7} `tick` | pipe @somebody",
)


def small_run(path: Path, texts: list[str], methods: dict[str, list[Extraction]], gold: list[GoldChunk] | None) -> Run:
    """A run with one chunk per text; chunk ids are `c0`, `c1` …, and the gold's ids are set likewise."""
    store = Store(path)
    chunks = [Chunk(f"c{row}", f"d{row // 2}", row, text, len(text.split()), "a.txt") for row, text in enumerate(texts)]
    write_chunks(store, chunks, 4)
    if gold is not None:
        store.write_table(
            GOLD_FILE, to_table([replace(it, chunk_id=f"c{row}") for row, it in enumerate(gold)], GOLD_SCHEMA)
        )
    run = Run.create(path, _config(tuple(methods)), _info(tuple(methods), len(texts)))
    with driver_lock(run.store, "test") as token:
        for method, answers in methods.items():
            for start, stop in run.planned:
                rows = [
                    replace(answers[it.row], chunk_id=it.chunk_id, row=it.row, doc_id=it.doc_id, method=method)
                    for it in chunks[start:stop]
                ]
                assert run.commit(Shard(method, start, stop), rows, token)
    return Run(path)


def answer(entities=(), relations=(), **more) -> Extraction:
    """What a method found in one chunk; `small_run` says in which."""
    base = {"chunk_id": "", "row": 0, "doc_id": "", "method": "", "status": Status.OK}
    return Extraction(**{**base, "entities": list(entities), "relations": list(relations), **more})


def hostile_run(path: Path) -> Run:
    """Every place that foreign text can come from holds text that would like to be something else."""
    texts = [f"Before {it} after {it}." for it in HOSTILE]
    gold, said = [], []
    for it in HOSTILE:
        start, end = 7, 7 + len(it)
        gold.append(GoldChunk("", [GoldEntity(it, it, start, end)], [Relation(it, it, it)]))
        said.append(
            answer(
                [Entity(it, "person", start, end), Entity(it[:3], it, start, start + 3)], [Relation(it, "Before", it)]
            )
        )
    said[0] = answer(status=Status.FAILED, error=f"{HOSTILE[0]}: {HOSTILE[1]}")
    said[1] = answer(status=Status.DEAD, error=HOSTILE[3])
    return small_run(path, texts, {"llm": said, "hybrid": said[::-1]}, gold)


def synthetic_run(
    path: Path,
    chunks: int,
    *,
    gold: bool = True,
    methods: tuple[str, ...] = ("llm", "hybrid", "gliner"),
    quality: dict[str, float] | None = None,
):
    """A run of `chunks` chunks of about 150 words with 10 entities and 4 relations each."""
    known = {**QUALITY, **(quality or {})}
    rng = random.Random(1)
    truths = [_truth(number, rng) for number in range(TEMPLATES)]
    names = [f"chunk-{row:07d}" for row in range(chunks)]
    which = np.arange(chunks) % TEMPLATES
    store = Store(path)
    texts = pa.array([it.text for it in truths]).take(pa.array(which))
    columns = {
        "chunk_id": pa.array(names),
        "doc_id": pa.array([f"doc-{row // 12:06d}" for row in range(chunks)]),
        "row": pa.array(range(chunks), pa.int64()),
        "text": texts,
        "words": pa.array([150] * chunks, pa.int32()),
        "source": pa.array(["corpus.jsonl"] * chunks),
    }
    corpus = pa.table(columns, schema=CHUNK_SCHEMA)
    with store.table_writer(CHUNKS_FILE, CHUNK_SCHEMA) as writer:
        for at in range(0, chunks, SHARD):
            writer.write_table(corpus.slice(at, SHARD), row_group_size=SHARD)
    if gold:
        table = to_table(truths, GOLD_SCHEMA).take(pa.array(which))
        table = table.set_column(0, GOLD_SCHEMA.field("chunk_id"), corpus["chunk_id"])
        table = table.set_column(4, GOLD_SCHEMA.field("text"), pa.nulls(chunks, pa.string()))
        store.write_table(GOLD_FILE, table)
    run = Run.create(path, _config(methods), _info(methods, chunks))
    for method in methods:
        _write_method(
            run, method, known[method], truths, corpus, which, random.Random(method), np.random.default_rng(len(method))
        )
    return run


def _truth(number: int, rng: random.Random) -> GoldChunk:
    words, entities = [], []
    for index in range(10):
        words += rng.choices(FILLER, k=12)
        name, kind = f"{rng.choice(['Alder', 'Brack', 'Corv', 'Dune', 'Elm'])}{number}x{index} Works", TYPES[index % 5]
        start = len(" ".join(words)) + 1
        words.append(name)
        entities.append(GoldEntity(name, kind, start, start + len(name)))
    ends = [(entities[it].text, entities[it + 1].text, RELATION_TYPES[it % 4]) for it in range(0, 8, 2)]
    return GoldChunk("", entities, [Relation(*it) for it in ends], text=" ".join(words))


def _answer(truth: GoldChunk, right: float, rng: random.Random, relations: bool) -> Extraction:
    """What a method that is right so often would say."""
    entities: list[Entity] = []
    for it in truth.entities:
        luck = rng.random()
        if luck < right:
            entities.append(Entity(it.text, it.type, it.start, it.end, 0.9))
        elif luck < right + 0.05:
            entities.append(Entity(it.text, rng.choice(TYPES), it.start, it.end, 0.6))
        elif luck < right + 0.08:
            entities.append(Entity(it.text.split()[0], it.type, it.start, it.start + len(it.text.split()[0]), 0.5))
    found = {it.text for it in entities}
    edges = []
    for it in truth.relations if relations else ():
        luck = rng.random()
        if it.source in found and it.target in found and luck < right + 0.08:
            edges.append(it)
        elif luck > 0.97:
            edges.append(replace(it, type=rng.choice(RELATION_TYPES)))
        elif luck > 0.94:
            edges.append(Relation(it.target, it.source, it.type))
    return Extraction("", 0, "", "", Status.OK, None, entities, edges)


def _write_method(run: Run, method: str, right: float, truths, corpus, which, rng, noise) -> None:
    engine = run.config.methods[method].entities
    variants = [
        replace(_answer(truth, right, rng, method != "gliner"), method=method, entities_by=engine, device="cpu")
        for truth in truths
        for _ in range(VARIANTS)
    ]
    variants.append(Extraction("", 0, "", method, Status.FAILED, "not JSON: {"))
    table = to_table(variants, EXTRACTION_SCHEMA)
    rows = corpus.num_rows
    chosen = which * VARIANTS + noise.integers(0, VARIANTS, rows)
    if method != "gliner":
        chosen[noise.random(rows) < 0.004] = len(variants) - 1
    table = table.take(pa.array(chosen))
    cost = noise.lognormal(np.log(SPEED_MS[method]), 0.35, rows)
    columns = {
        "chunk_id": corpus["chunk_id"],
        "row": corpus["row"],
        "doc_id": corpus["doc_id"],
        "queue_ms": pa.array(noise.lognormal(4, 1, rows)),
        "service_ms": pa.array(cost * 60),
        "batch_ms": pa.array(cost * 60),
        "batch_size": pa.array(np.full(rows, 60.0)),
    }
    if method != "gliner":
        columns["prompt_tokens"] = pa.array(np.full(rows, 420), pa.int32())
        columns["cached_tokens"] = pa.array(np.full(rows, 256), pa.int32())
        columns["output_tokens"] = pa.array(noise.integers(60, 200, rows), pa.int32())
    for name, values in columns.items():
        table = table.set_column(EXTRACTION_SCHEMA.get_field_index(name), EXTRACTION_SCHEMA.field(name), values)
    for start in range(0, rows, SHARD):
        stop = min(start + SHARD, rows)
        shard = Shard(method, start, stop)
        run.store.write_table(shard.file, table.slice(start, stop - start), footer(shard, run.method_stamp(method)))


def _config(methods: tuple[str, ...]) -> Config:
    known = {
        "llm": {"entities": "llm", "relations": "llm"},
        "hybrid": {"entities": "gliner", "relations": "llm"},
        "gliner": {"entities": "gliner"},
    }
    values = {
        "corpus": {"path": "docs"},
        "schema": {
            "entity_types": list(TYPES),
            "relation_types": {it: {"symmetric": it == "partner_of"} for it in RELATION_TYPES},
        },
        "methods": {it: known[it] for it in methods},
    }
    return Config.model_validate(values)


def _info(methods: tuple[str, ...], chunks: int) -> dict:
    return {
        "fingerprint": {
            "corpus": {"sha256": "ab" * 32, "chunks": chunks},
            "methods": {it: {"stamp": f"stamp-{it}", "engine": {"model": f"sha256:model-{it}"}} for it in methods},
        },
        "corpus": {"documents": chunks // 12 + 1, "words": 150 * chunks},
        "versions": {"kgscale": "0.1.0", "python": "3.11.7"},
        "hardware": {"system": "Linux", "cpus": 2},
    }

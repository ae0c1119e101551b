"""Data larger than memory: a run of millions of chunks planned, scored and reported, with the peak of memory of each.

The run has two methods with a row for every chunk, and gold for a share of the chunks. Its files are real, made from a
few shards of random rows under ever new ids. `plan` opens the run and finds out what remains; `score`, `compare` and
`report` are what the commands of that name do. Each part runs in a process of its own. The bar is 4 GiB at ten million.

`python benchmarks/scale.py [--chunks 10000000] [--gold 0.01] [--quick]`; $KGSCALE_BENCH_DIR says where to write (10 M
chunks take about 11 GB).
"""

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgscale.config import CompareConfig, Config
from kgscale.extract.backlog import Backlog
from kgscale.extract.methods import plan_steps
from kgscale.records import (
    CHUNK_SCHEMA,
    EXTRACTION_SCHEMA,
    GOLD_SCHEMA,
    Entity,
    Extraction,
    GoldChunk,
    GoldEntity,
    Origin,
    Relation,
    Status,
    to_table,
)
from kgscale.report.html import write_report
from kgscale.runs import CHUNKS_FILE, GOLD_FILE, Run
from kgscale.score.compare import compare_run
from kgscale.score.scorer import score_run
from kgscale.score.tables import read_scores
from kgscale.shards import Shard
from kgscale.store import Store

SHARD = 256
KINDS = 24
"""Different shards, which are used again and again."""
METHODS = {"llm": {"entities": "llm", "relations": "llm"}, "hybrid": {"entities": "gliner", "relations": "llm"}}
ENTITIES, RELATIONS = 4, 2
TYPES = ("organization", "person", "location", "product")
BAR_MB = 4 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000_000)
    parser.add_argument("--gold", type=float, default=0.01, help="share of the chunks that have gold")
    parser.add_argument("--quick", action="store_true", help="200,000 chunks")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--keep", help="a folder for the run, which stays and is used again")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        part, folder = options.child
        print(json.dumps(measured(lambda: PARTS[part](folder))))
        return
    chunks = 200_000 if options.quick else options.chunks
    print(f"{platform.platform()}, {os.cpu_count()} cores, Polars {pl.__version__}, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(dir=os.environ.get("KGSCALE_BENCH_DIR")) as temporary:
        folder = options.keep or temporary
        if not Run.exists(folder):
            begun = time.perf_counter()
            make(folder, chunks, options.gold)
            print(f"made {chunks:,} chunks, {options.gold:.0%} with gold, in {time.perf_counter() - begun:.0f} s")
        found = {part: in_child(part, folder) for part in options.parts}
    print(json.dumps({"benchmark": "scale", "chunks": chunks, "gold": options.gold, **found}))


def in_child(part: str, folder: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", part, folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    bar = "within" if found["peak_mb"] < BAR_MB else "OVER"
    print(
        f"{part:<8} {found['seconds']:>8.1f} s  peak {found['peak_mb']:>7,.0f} MB ({bar} {BAR_MB:,})  {found['said']}"
    )
    sys.stdout.flush()
    return found


def measured(work: Callable[[], Any]) -> dict[str, Any]:
    begun, cpu = time.perf_counter(), time.process_time()
    said = work()
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu_s": cpu_s, "peak_mb": peak_mb, "said": said}


def plan(folder: str) -> str:
    run = Run(folder)
    steps = plan_steps(run.config)
    run.refuse_faults(METHODS)
    remaining = [shard for method in METHODS for shard in run.remaining(method)]
    Backlog({name: steps[name] for name in METHODS}, run.planned, run.shard_words, 2).add(remaining)
    return f"{len(run.planned):,} shards planned, {len(remaining):,} left, {sum(run.shard_words):,} words"


def score(folder: str) -> str:
    first = score_run(Run(folder)).methods[0]
    return ", ".join(f"{it.mode} {it.f1:.3f}" for it in first.metrics if it.f1 is not None)


def compare(folder: str) -> str:
    return str(compare_run(Run(folder), CompareConfig()).outcome)


def report(folder: str) -> str:
    run = Run(folder)
    path = write_report(run, read_scores(run), compare_run(run, CompareConfig()))
    return f"{Path(path.removeprefix('file://')).stat().st_size / 2**20:.1f} MiB of HTML"


def make(folder: str, chunks: int, gold_share: float) -> None:
    """The run directory, written without waiting for the disk."""
    config = Config.model_validate({"run": folder, "corpus": {"path": "-"}})
    stamps = {name: {"stamp": f"stamp-of-{name}"} for name in METHODS}
    run = Run.create(folder, config, {"fingerprint": {"corpus": {"sha256": "0"}, "methods": stamps}})
    rng = random.Random(0)
    for method in METHODS:
        Path(run.store.path(f"extractions/{method}")).mkdir(parents=True)
    kinds = [_kind(rng) for _ in range(KINDS)]
    every = round(1 / gold_share) if gold_share else chunks
    store = Store(folder)
    with store.table_writer(CHUNKS_FILE, CHUNK_SCHEMA) as corpus, store.table_writer(GOLD_FILE, GOLD_SCHEMA) as gold:
        for number, start in enumerate(range(0, chunks, SHARD)):
            rows = pa.array(range(start, min(chunks, start + SHARD)))
            ids = pc.binary_join_element_wise("chunk-", pc.utf8_lpad(rows.cast(pa.string()), 26, "0"), "")
            documents = pc.binary_join_element_wise("doc-", pc.divide(rows, 50).cast(pa.string()), "")
            texts = pa.array([TEXT] * len(rows))
            words = pa.array([len(TEXT.split())] * len(rows), pa.int32())
            columns = [ids, documents, rows, texts, words, pa.nulls(len(rows), pa.string())]
            corpus.write_table(pa.table(columns, schema=CHUNK_SCHEMA))
            gold_rows, answers = kinds[number % KINDS]
            if gold_share and number % every == 0:
                gold.write_table(gold_rows.slice(0, len(rows)).set_column(0, GOLD_SCHEMA.field(0), ids))
            for method in METHODS:
                table = answers[method].slice(0, len(rows))
                for name, column in (("chunk_id", ids), ("row", rows), ("doc_id", documents)):
                    at = EXTRACTION_SCHEMA.get_field_index(name)
                    table = table.set_column(at, EXTRACTION_SCHEMA.field(at), column)
                shard = Shard(method, start, start + len(rows))
                signed = table.replace_schema_metadata(run.footer(shard))
                pq.write_table(signed, run.store.path(shard.file), compression="zstd", use_dictionary=False)
    if not gold_share:
        store.delete(GOLD_FILE)


TEXT = "Ada Lovelace works for Analytical Engines in London, which Charles Babbage founded. " * 2


def _kind(rng: random.Random) -> tuple[pa.Table, dict[str, pa.Table]]:
    """A shard of gold, and of the answers of each method, which have about three quarters of it."""
    gold: list[GoldChunk] = []
    answers: dict[str, list[Extraction]] = {method: [] for method in METHODS}
    for row in range(SHARD):
        names = [(f"Name {rng.randrange(20_000)}", rng.choice(TYPES)) for _ in range(ENTITIES)]
        pairs = [(rng.sample(names, 2), rng.choice(("works_for", "located_in"))) for _ in range(RELATIONS)]
        entities = [GoldEntity(name, kind, at * 20, at * 20 + 9) for at, (name, kind) in enumerate(names)]
        gold.append(GoldChunk("", entities, [Relation(a[0], b[0], kind) for (a, b), kind in pairs], Origin.MANUAL))
        for method, rows in answers.items():
            found = [
                Entity(name if rng.random() < 0.75 else f"{name}x", kind, at * 20, at * 20 + 9, 0.9)
                for at, (name, kind) in enumerate(names)
            ]
            related = [Relation(a[0], b[0], kind) for (a, b), kind in pairs if rng.random() < 0.75]
            status = rng.choices([Status.OK, Status.TRUNCATED, Status.FAILED], [98, 1, 1])[0]
            failed = status is Status.FAILED
            rows.append(
                Extraction(
                    "", row, "", method, status,
                    error="invalid_json: not one complete item" if failed else None,
                    entities=[] if failed else found, relations=[] if failed else related,
                    entities_by=METHODS[method]["entities"], queue_ms=rng.expovariate(0.01),
                    service_ms=rng.gauss(500, 50), batch_ms=rng.gauss(500, 50), batch_size=16.0,
                    prompt_tokens=700, cached_tokens=400, output_tokens=rng.randrange(50, 200),
                    finish_reason="stop", worker="node-1", device="simulated",
                )
            )  # fmt: skip
    return to_table(gold, GOLD_SCHEMA), {it: to_table(rows, EXTRACTION_SCHEMA) for it, rows in answers.items()}


PARTS: dict[str, Callable[[str], str]] = {"plan": plan, "score": score, "compare": compare, "report": report}

if __name__ == "__main__":
    main()

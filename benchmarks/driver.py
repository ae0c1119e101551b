"""What the driver alone can do: chunks per second through the loop, a resume of ten million chunks, memory over a run.

- `loop`: the real drive loop over workers in the same process that answer at once: the loop's own ceiling. Of three
  methods, so that a chunk counts three times.
- `ray`: the same over real Ray actors that do nothing and answer, so that every call is a real one.
- `resume`: a run directory of `--chunks` chunks with one method committed and another half: opened, cleaned, every
  file's signature checked, what remains planned and queued, as `kgscale extract` does before the first worker starts.
- `prepare`: the corpus of such a run read, cut and written; a million chunks, with the peak of memory.
Each part runs in a process of its own and tells its peak. The files are real, written without waiting for the disk.

`python benchmarks/driver.py [--chunks 10000000] [--parts loop ray resume prepare] [--quick]`
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
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.parts.noop_workers import AtOnce, Published
from kgscale.config import Config, CorpusConfig
from kgscale.corpus import prepare_corpus
from kgscale.extract.backlog import Backlog
from kgscale.extract.drive import Drive, Policy
from kgscale.extract.placement import Pool
from kgscale.records import CHUNK_SCHEMA, EXTRACTION_SCHEMA, Extraction, Status, to_table
from kgscale.retries import fold
from kgscale.runs import CHUNKS_FILE, Run
from kgscale.shards import Shard
from kgscale.store import Store
from tests.extract.schedules import METHODS, UPSTREAM
from tests.extract.simulated_run import SimulatedDirectory, SimulatedRun

SHARD = 256
BARS = {"loop": "20,000 chunks/s", "ray": "20,000 chunks/s", "resume": "10 s, 1 GiB", "prepare": "4 GiB at 10 M"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000_000)
    parser.add_argument("--parts", nargs="+", choices=list(BARS), default=list(BARS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the chunks")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        part, chunks = options.child
        print(json.dumps(PARTS[part](int(chunks)) | {"peak_mb": peak_mb()}))
        return
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]}"
    )
    chunks = options.chunks // 10 if options.quick else options.chunks
    found = {}
    for part in options.parts:
        some = chunks // 10 if part in ("ray", "prepare") else chunks
        command = [sys.executable, __file__, "--child", part, str(some)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found[part] = json.loads(done.stdout.splitlines()[-1])
        told = ", ".join(f"{key} {_short(value)}" for key, value in found[part].items())
        print(f"{part:<8} {some:>11,} chunks (bar {BARS[part]}): {told}", flush=True)
    print(json.dumps({"benchmark": "driver", **found}))


def _short(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) and value < 100 else f"{value:,.0f}"


class Observed:
    """Notes the memory after a tenth of the shards and at the end."""

    def __init__(self, shards: int) -> None:
        self._early = shards // 10
        self._count = 0
        self.early_mb = 0.0

    def __call__(self, event: str, /, **fields: Any) -> None:
        if event == "shard_committed":
            self._count += 1
            if self._count == self._early:
                self.early_mb = rss_mb()


def through_the_loop(cluster: Any, run: SimulatedRun, chunks: int) -> dict[str, Any]:
    """Drive all three methods; a chunk counts once for each."""
    run.upstream = UPSTREAM
    observed = Observed(3 * len(run.planned))
    begun, cpu = time.perf_counter(), time.process_time()
    drive = Drive(METHODS, [Pool("llm"), Pool("gliner")], SimulatedDirectory(run), cluster, Policy(), observed)
    drive.run()
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    shards = sum(len(files) for files in run.files.values())
    return {
        "seconds": seconds,
        "cpu_s": cpu_s,
        "chunks_per_s": 3 * chunks / seconds,
        "shards_per_s": shards / seconds,
        "memory_after_a_tenth_mb": observed.early_mb,
        "memory_at_the_end_mb": rss_mb(),
    }


def loop(chunks: int) -> dict[str, Any]:
    run = SimulatedRun(chunks, SHARD, random.Random(0))
    return through_the_loop(AtOnce(run, 64), run, chunks)


def on_ray(chunks: int) -> dict[str, Any]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    run = SimulatedRun(chunks, SHARD, random.Random(0))
    try:
        return through_the_loop(Published(run, 2), run, chunks)
    finally:
        ray.shutdown()


def resume(chunks: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("KGSCALE_BENCH_DIR")) as folder:
        made = subprocess.run([sys.executable, __file__, "--child", "make", f"{chunks}"], check=True, env={
            **os.environ, "KGSCALE_BENCH_RUN": folder}, capture_output=True, text=True)  # fmt: skip
        files = json.loads(made.stdout.splitlines()[-1])["files"]
        before = rss_mb()
        begun, cpu = time.perf_counter(), time.process_time()
        run = Run(folder)
        run.clean()
        run.refuse_faults(METHODS)
        checked_s = time.perf_counter() - begun
        for method in METHODS:
            run.drop_doubles(method)
        fold(run)
        remaining = [shard for method in METHODS for shard in run.remaining(method)]
        backlog = Backlog(METHODS, run.planned, run.shard_words, 2)
        backlog.add(remaining)
        first = backlog.take("gliner", 1) or backlog.take("llm", 1)
        seconds, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
        assert first is not None
        read = time.perf_counter()
        assert len(run.read_chunks(first.start, first.stop)) == first.rows
        return {
            "seconds": seconds,
            "cpu_s": cpu_s,
            "files_checked": files,
            "checking_s": checked_s,
            "shards_left": len(remaining),
            "first_read_s": time.perf_counter() - read,
            "memory_mb": rss_mb() - before,
        }


def make(chunks: int) -> dict[str, Any]:
    """The run directory that is resumed: signed files, without waiting for the disk."""
    folder = os.environ["KGSCALE_BENCH_RUN"]
    with Store(folder).table_writer(CHUNKS_FILE, CHUNK_SCHEMA) as writer:
        for start in range(0, chunks, SHARD):
            rows = pa.array(range(start, min(chunks, start + SHARD)))
            ids = pc.binary_join_element_wise("c", pc.utf8_lpad(rows.cast(pa.string()), 9, "0"), "")
            documents = pc.binary_join_element_wise("d", pc.divide(rows, 50).cast(pa.string()), "")
            columns = [ids, documents, rows, pa.array(["A text about Ada."] * len(rows))]
            columns += [pa.array([4] * len(rows), pa.int32()), pa.nulls(len(rows), pa.string())]
            writer.write_table(pa.table(columns, schema=CHUNK_SCHEMA))
    config = Config.model_validate({"run": folder, "corpus": {"path": "-"}})
    prints = {"corpus": {"sha256": "0"}, "methods": {name: {"stamp": f"stamp-of-{name}"} for name in METHODS}}
    run = Run.create(folder, config, {"fingerprint": prints})
    table = to_table([Extraction("c", row, "d", "gliner", Status.OK) for row in range(SHARD)], EXTRACTION_SCHEMA)
    files = 0
    for method, share in (("gliner", 1.0), ("llm", 0.5)):
        Path(run.store.path(f"extractions/{method}")).mkdir(parents=True)
        for start, stop in run.planned[: int(len(run.planned) * share)]:
            shard = Shard(method, start, stop)
            schema = EXTRACTION_SCHEMA.with_metadata(run.footer(shard))
            pq.write_table(table.slice(0, shard.rows).cast(schema), run.store.path(shard.file), compression="zstd")
            files += 1
    return {"files": files}


def prepare(chunks: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("KGSCALE_BENCH_DIR")) as folder:
        text = " ".join(f"word{at % 97}" for at in range(300))
        schema = pa.schema([("chunk_id", pa.string()), ("doc_id", pa.string()), ("text", pa.string())])
        corpus = Path(folder) / "corpus.parquet"
        with pq.ParquetWriter(corpus, schema, compression="zstd") as writer:
            for at in range(0, chunks, 10_000):
                some = range(at, min(chunks, at + 10_000))
                columns = [
                    [f"c{row}" for row in some],
                    [f"d{row // 50}" for row in some],
                    [f"{row} {text}" for row in some],
                ]
                writer.write_table(pa.table(columns, schema=schema))
        begun, cpu = time.perf_counter(), time.process_time()
        summary = prepare_corpus(CorpusConfig(path=str(corpus)), Store(Path(folder) / "run"), say=lambda _text: None)
        seconds = time.perf_counter() - begun
        assert summary.chunks == chunks
        return {"seconds": seconds, "cpu_s": time.process_time() - cpu, "chunks_per_s": chunks / seconds}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rss_mb() -> float:
    return float(psutil.Process().memory_info().rss) / 2**20


PARTS = {"loop": loop, "ray": on_ray, "resume": resume, "prepare": prepare, "make": make}

if __name__ == "__main__":
    main()

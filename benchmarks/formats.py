"""How fast chunks are read and converted, and in how much memory: `python benchmarks/formats.py [--chunks 1e6]`.

Each measurement runs in a process of its own, on files made for it: chunks of about 60 words in JSON lines, Parquet and
the guide's JSON. The ceiling is reading the bytes and parsing each line (or each batch), with nothing done to it.
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
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgscale.config import CorpusConfig
from kgscale.corpus import prepare_corpus
from kgscale.corpus.notices import Faults, Notices
from kgscale.corpus.prepare import read_corpus
from kgscale.formats import convert
from kgscale.store import Store

NAMES = ["Ada Lovelace", "Charles Babbage", "London", "Analytical Engine", "Luigi Menabrea"]
FILLER = ["the", "of", "and", "in", "to", "a", "was", "by", "which", "that", "with", "an", "at", "notes", "work"]
BATCH = 10_000


@dataclass(frozen=True)
class Result:
    what: str
    rows: int
    bytes: int
    seconds: float
    cpu_seconds: float
    rows_per_s: float
    peak_mb: float


def chunks(count: int) -> Iterator[dict[str, Any]]:
    """Chunks with three entities and a relation each, where they stand in the text."""
    rng = random.Random(0)
    bodies = [" ".join(rng.choices(FILLER, k=50)) for _ in range(97)]
    for row in range(count):
        first, second, third = rng.sample(NAMES, 3)
        text = f"{first} and {second} {bodies[row % 97]} {third}."
        places = {first: 0, second: len(first) + 5, third: len(text) - len(third) - 1}
        entities = [{"text": it, "type": "x", "start": at, "end": at + len(it)} for it, at in places.items()]
        yield {
            "chunk_id": f"chunk-{row:09d}",
            "doc_id": f"doc-{row // 20}",
            "text": text,
            "ground_truth_entities": entities,
            "ground_truth_relations": [{"source": first, "target": second, "type": "met"}],
        }


def make(folder: Path, count: int) -> None:
    columns = ("chunk_id", "doc_id", "text")
    schema = pa.schema([(it, pa.string()) for it in columns])
    with (
        (folder / "chunks.jsonl").open("w") as lines,
        (folder / "guide.json").open("w") as guide,
        pq.ParquetWriter(folder / "chunks.parquet", schema) as table,
    ):
        guide.write('{"chunks": [')
        batch: list[dict[str, Any]] = []
        for row, chunk in enumerate(chunks(count)):
            plain = {it: chunk[it] for it in columns}
            lines.write(json.dumps(plain) + "\n")
            guide.write((",\n" if row else "\n") + json.dumps(chunk))
            batch.append(plain)
            if len(batch) == BATCH:
                table.write_table(pa.Table.from_pylist(batch, schema=schema))
                batch = []
        guide.write("\n]}\n")
        if batch:
            table.write_table(pa.Table.from_pylist(batch, schema=schema))


def parse_lines(folder: Path) -> None:
    with (folder / "chunks.jsonl").open("rb") as file:
        for line in file:
            json.loads(line)


def parse_batches(folder: Path) -> None:
    for batch in pq.ParquetFile(folder / "chunks.parquet").iter_batches(64):
        batch.to_pylist()


def read(name: str) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        for _ in read_corpus(folder / name, Faults(), Notices()):
            pass

    return work


def prepare(name: str) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as run:
            prepare_corpus(CorpusConfig(path=str(folder / name)), Store(run), say=lambda _: None)

    return work


def converted(to: str) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            convert(folder / "guide.json", Path(out) / "out", "guide", to=to)

    return work


WORK: dict[str, tuple[str, Callable[[Path], None]]] = {
    "ceiling: parse JSON lines": ("chunks.jsonl", parse_lines),
    "read JSON lines": ("chunks.jsonl", read("chunks.jsonl")),
    "JSON lines to chunks.parquet": ("chunks.jsonl", prepare("chunks.jsonl")),
    "ceiling: parse Parquet": ("chunks.parquet", parse_batches),
    "read Parquet": ("chunks.parquet", read("chunks.parquet")),
    "Parquet to chunks.parquet": ("chunks.parquet", prepare("chunks.parquet")),
    "guide to corpus and gold": ("guide.json", converted("guide")),
    "guide to label-studio": ("guide.json", converted("label-studio")),
    "guide to graphrag": ("guide.json", converted("graphrag")),
}


def measured(what: str, folder: Path, rows: int) -> Result:
    command = [sys.executable, __file__, "--child", what, str(folder)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    size = (folder / WORK[what][0]).stat().st_size
    return Result(what, rows, size, said["seconds"], said["cpu"], rows / said["seconds"], said["peak_mb"])


def child(what: str, folder: Path) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    WORK[what][1](folder)
    took = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps({**took, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=float, default=1e6)
    parser.add_argument("--only", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--quick", action="store_true", help="10,000 chunks")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.chunks = 1e4
    if arguments.child:
        child(arguments.child[0], Path(arguments.child[1]))
        return
    rows = int(arguments.chunks)
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {rows:,} chunks")
    results = []
    print(f"{'what':<30} {'file MB':>8} {'seconds':>8} {'CPU s':>7} {'rows/s':>9} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), rows)
        for what in arguments.only:
            it = measured(what, Path(folder), rows)
            results.append(it)
            print(
                f"{it.what:<30} {it.bytes / 1e6:>8.0f} {it.seconds:>8.1f} {it.cpu_seconds:>7.1f} "
                f"{it.rows_per_s:>9,.0f} {it.peak_mb:>8.0f}"
            )
    print(json.dumps({"benchmark": "formats", "results": [asdict(it) for it in results]}))


if __name__ == "__main__":
    main()

"""How fast the scorer is, and how much memory it takes: `python benchmarks/scorer.py [--quick] [--rows 2e6 20e6]`.

A row is one mention or one relation, of gold or of an extraction. Every measurement runs in a process of its own. The
ceiling is reading the same files into memory and doing nothing with them. `--beside` adds the LightRAG guide's plain
Python scripts, on the same data as JSON, and nervaluate where it is installed.
"""

import argparse
import importlib
import importlib.util
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.scored_run import ENTITIES, NAMES, ROWS_PER_CHUNK, generate
from kgscale.runs import GOLD_FILE, Run
from kgscale.score.batches import Extractions, batches
from kgscale.score.items import items, usable
from kgscale.score.keys import Keys
from kgscale.score.reference import Gold
from kgscale.score.scorer import score_run
from kgscale.score.spans import Outcome, outcomes, span_scores


@dataclass(frozen=True)
class Result:
    cardinality: str
    rows: int
    seconds: float
    rows_per_s: float
    cpu_seconds: float
    read_seconds: float
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[2e6, 20e6])
    parser.add_argument("--cardinality", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--quick", action="store_true", help="200,000 rows")
    parser.add_argument("--beside", action="store_true", help="also the guide's scripts and nervaluate")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(CHILDREN[arguments.child[0]](Path(arguments.child[1]))))
        return
    print(f"{platform.platform()}, {os.cpu_count()} cores, Polars {pl.__version__}, load {os.getloadavg()[0]:.1f}")
    sizes = [200_000] if arguments.quick else [int(it) for it in arguments.rows]
    results = []
    print(f"{'names':>6} {'rows':>12} {'seconds':>8} {'M rows/s':>9} {'CPU s':>7} {'ceiling s':>10} {'peak MB':>8}")
    for cardinality in arguments.cardinality:
        for rows in sizes:
            with tempfile.TemporaryDirectory() as folder:
                generate(Path(folder), rows // ROWS_PER_CHUNK, NAMES[cardinality])
                it = measured(Path(folder), cardinality, rows)
            results.append(it)
            print(
                f"{it.cardinality:>6} {it.rows:>12,} {it.seconds:>8.2f} {it.rows_per_s / 1e6:>9.2f} "
                f"{it.cpu_seconds:>7.2f} {it.read_seconds:>10.2f} {it.peak_mb:>8.0f}"
            )
    beside = compared(100_000 if arguments.quick else 1_000_000) if arguments.beside else {}
    if arguments.beside and importlib.util.find_spec("nervaluate"):
        beside["nervaluate"] = beside_nervaluate(500 if arguments.quick else 5_000)
    print(json.dumps({"benchmark": "scorer", "results": [asdict(it) for it in results], "beside": beside}))


def measured(folder: Path, cardinality: str, rows: int) -> Result:
    read, scored = in_child("read", folder), in_child("score", folder)
    return Result(
        cardinality,
        rows,
        scored["seconds"],
        rows / scored["seconds"],
        scored["cpu_seconds"],
        read["seconds"],
        scored["peak_mb"],
    )


def in_child(what: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", what, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def timed(work: Callable[[], Any]) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    said = work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mb": peak, "said": said}


def best_of_three(work: Callable[[], Any]) -> dict[str, Any]:
    return min((timed(work) for _ in range(3)), key=lambda it: it["seconds"])


def read_only(folder: Path) -> None:
    run = Run(folder)
    gold, extractions = Gold.open(run, GOLD_FILE), Extractions.of(run, "llm")
    for start, stop in batches(run):
        gold.read(start, stop)
        extractions.read(start, stop)


def f1s(folder: Path) -> dict[str, float | None]:
    return {it.mode: it.f1 for it in score_run(Run(folder)).methods[0].metrics}


def compared(rows: int) -> dict[str, Any]:
    """The scorer beside the guide's scripts, which read JSON and give one mode per call."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder, rows // ROWS_PER_CHUNK, NAMES["low"])
        write_json(folder)
        scored, guide = in_child("score", folder), in_child("guide", folder)
    same = all(abs(f1 - scored["said"][mode]) < 1e-9 for mode, f1 in guide["said"].items())
    ratio = guide["seconds"] / scored["seconds"]
    print(
        f"\n{rows:,} rows: the guide's scripts, five modes, {guide['seconds']:.2f} s; kgscale, six modes and all "
        f"tables, {scored['seconds']:.2f} s: {ratio:.1f} times faster; same F1: {same}"
    )
    return {"rows": rows, "guide_seconds": guide["seconds"], "seconds": scored["seconds"], "ratio": ratio, "same": same}


def beside_nervaluate(documents: int) -> dict[str, Any]:
    """The scorer beside nervaluate, which scores entities alone.

    From tables (ours) or lists (theirs) in memory to the scores of the four schemes, the best of three each; and once
    all of kgscale's job, which reads files and scores relations as well.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder, documents, NAMES["low"])
        whole, ours, theirs = (in_child(it, folder) for it in ("score", "spans", "nervaluate"))
    same = all(abs(f1 - theirs["said"][scheme]) < 1e-9 for scheme, f1 in ours["said"].items())
    found = {
        "documents": documents,
        "whole_seconds": whole["seconds"],
        "seconds": ours["seconds"],
        "theirs": theirs["seconds"],
        "ratio": theirs["seconds"] / ours["seconds"],
        "same": same,
    }
    print(
        f"{documents:,} documents of {ENTITIES} entities: nervaluate {theirs['seconds']:.2f} s; kgscale "
        f"{ours['seconds']:.3f} s: {found['ratio']:.1f} times faster; same F1: {same}; all of kgscale's job "
        f"{whole['seconds']:.2f} s"
    )
    return found


def span_f1s(folder: Path) -> dict[str, Any]:
    """The four schemes from tables in memory."""
    run = Run(folder)
    # Entities alone, as nervaluate has them.
    gold, said = (
        rows.with_columns(pl.col("relations").list.head(0))
        for rows in (
            Gold.open(run, GOLD_FILE).read(0, run.rows),
            Extractions.of(run, "llm").read(0, run.rows),
        )
    )
    keys = Keys.of(run.config.schema_).fresh()

    def schemes() -> dict[str, float | None]:
        found = outcomes(items(gold, keys).collected(), items(usable(said), keys).collected())
        totals = {it.value: 0 for it in Outcome} | dict(found["outcome"].value_counts().iter_rows())
        return {it.scheme: it.f1 for it in span_scores(totals, {it: np.zeros(1) for it in totals})}

    return best_of_three(schemes)


def nervaluate_f1s(folder: Path) -> dict[str, Any]:
    """The same from lists in memory, as nervaluate wants them."""
    nervaluate = importlib.import_module("nervaluate")
    run = Run(folder)
    files = [GOLD_FILE], [f"extractions/llm/{name}" for name in run.store.names("extractions/llm")]
    # Their ends are inclusive.
    gold, found = (
        [
            [{"label": it["type"], "start": it["start"], "end": it["end"] - 1} for it in chunk["entities"]]
            for name in names
            for chunk in run.store.parquet(name).read(["entities"]).to_pylist()
        ]
        for names in files
    )
    names = {"strict": "strict", "exact": "exact", "partial": "partial", "ent_type": "type"}

    def schemes() -> dict[str, float]:
        evaluator = nervaluate.Evaluator(gold, found, tags=[f"type number {n}" for n in range(8)], loader="dict")
        overall = evaluator.evaluate()["overall"]
        return {ours: float(overall[theirs].f1) for theirs, ours in names.items()}

    return best_of_three(schemes)


def write_json(folder: Path) -> None:
    """The run's gold and extractions in the guide's form."""
    run = Run(folder)
    gold = run.store.parquet(GOLD_FILE).read().to_pylist()
    found = chain.from_iterable(
        run.store.parquet(f"extractions/llm/{name}").read().to_pylist() for name in run.store.names("extractions/llm")
    )
    for file, chunks in (("gold.json", gold), ("found.json", found)):
        parts = [
            {"chunk_id": it["chunk_id"], "entities": it["entities"], "relations": it["relations"]} for it in chunks
        ]
        (folder / file).write_text(json.dumps({"chunks": parts}))


def guide_scripts(folder: Path) -> dict[str, float]:
    """The guide's loop, once per mode, reading both files each time as its scripts do (without its faults)."""
    return {mode: guide_f1(folder, field, key) for mode, (field, key) in GUIDE_MODES.items()}


def guide_f1(folder: Path, field: str, key: Callable[[dict[str, str]], Any]) -> float:
    gold = json.loads((folder / "gold.json").read_text())["chunks"]
    found = json.loads((folder / "found.json").read_text())["chunks"]
    tp = fp = fn = 0
    for truth, said in zip(gold, found, strict=True):
        wanted, given = ({key(it) for it in side[field]} for side in (truth, said))
        both = len(wanted & given)
        tp, fp, fn = tp + both, fp + len(given) - both, fn + len(wanted) - both
    return 2 * tp / (2 * tp + fp + fn)


def plain(text: str) -> str:
    return text.lower().strip()


GUIDE_MODES: dict[str, tuple[str, Callable[[dict[str, str]], Any]]] = {
    "name": ("entities", lambda it: plain(it["text"])),
    "name+type": ("entities", lambda it: (plain(it["text"]), it["type"])),
    "pair": ("relations", lambda it: (plain(it["source"]), plain(it["target"]))),
    "pair_undirected": ("relations", lambda it: tuple(sorted((plain(it["source"]), plain(it["target"]))))),
    "pair+type": ("relations", lambda it: (plain(it["source"]), plain(it["target"]), it["type"])),
}
CHILDREN: dict[str, Callable[[Path], dict[str, Any]]] = {
    "read": lambda folder: timed(lambda: read_only(folder)),
    "score": lambda folder: timed(lambda: f1s(folder)),
    "spans": span_f1s,
    "nervaluate": nervaluate_f1s,
    "guide": lambda folder: timed(lambda: guide_scripts(folder)),
}

if __name__ == "__main__":
    main()

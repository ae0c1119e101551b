"""The whole job, beside the same work by a plain script and by Ray Data: `python benchmarks/pipeline.py [DOCUMENTS]`.

Each side starts from nothing and ends with its answers written: GLiNER's entities, the LLM's entities and relations,
and its relations between GLiNER's entities, of the same chunks with the same prompts, sampling and threads. kgscale is
`kgscale extract` as a user runs it, with parsing, grounding and commits. The plain script loads both engines and calls
the library's `inference`, then `LLM.generate` once with everything. What all share is the engines' own time: the
ceiling is the best of the sides.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.common import JOBS
from benchmarks.parts.same_work import Outcome, Work, options
from benchmarks.parts.sides import STDERR_SHOWN, PeakMemory, machine
from kgscale.runs import EVENTS_FILE, Run
from kgscale.shards import Shard

BENCHMARKS = Path(__file__).parent


@dataclass(frozen=True)
class Result:
    chunks: int
    threads: int
    outcomes: list[Outcome]
    """All rounds of all sides."""
    wall_by_side: dict[str, float]
    """Median seconds."""
    fastest: str


def main() -> None:
    parser = argparse.ArgumentParser(
        parents=[options()], description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ray-engine", choices=["ray.data.llm", "actor"], default="ray.data.llm")
    parser.add_argument("--quick", action="store_true", help="16 chunks, 24 tokens of answer, without Ray Data")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.chunks, arguments.max_tokens = 16, 24
        arguments.sides = ["kgscale", "plain"]
    print(machine())
    if "ray" in arguments.sides and find_spec("pandas") is None:
        print("Ray Data is left out: it needs pandas (`pip install pandas`)")
        arguments.sides.remove("ray")
    work = Work(arguments)
    words = sum(len(it.text.split()) for it in work.chunks)
    threads = f"{work.threads} threads for each engine"
    print(
        f"{len(work.chunks)} chunks, {words:,} words, three methods, {threads}, at most {arguments.max_tokens} tokens"
    )
    print(HEAD)
    outcomes = []
    for number in range(arguments.rounds):
        sides = arguments.sides if number % 2 == 0 else list(reversed(arguments.sides))
        for side in sides:
            outcomes.append(SIDES[side](arguments, work))
            print(line(outcomes[-1]), flush=True)
    walls = {it.side: median(one.wall_s for one in outcomes if one.side == it.side) for it in outcomes}
    fastest = min(walls, key=lambda side: walls[side])
    print(f"fastest: {fastest}; " + ", ".join(f"{name} {wall / walls[fastest]:.2f}" for name, wall in walls.items()))
    result = Result(len(work.chunks), work.threads, outcomes, walls, fastest)
    print(json.dumps({"benchmark": "pipeline", **asdict(result)}))


HEAD = f"{'':14} {'wall':>8} {'start':>8} {'work':>8} {'answers/s':>10} {'entities':>9} {'tokens':>8} {'memory':>9}"


def line(it: Outcome) -> str:
    work = f"{it.wall_s - it.ready_s:>6.1f} s {it.answers_per_s:>10.2f}"
    return (
        f"{it.side:14} {it.wall_s:>6.1f} s {it.ready_s:>6.1f} s {work} {it.entities:>9} {it.output_tokens:>8,} "
        f"{it.peak_gib:>5.1f} GiB"
    )


def kgscale(arguments: argparse.Namespace, work: Work) -> Outcome:
    """One run of `kgscale extract`."""
    del arguments
    with TemporaryDirectory() as folder:
        config = work.write_config(Path(folder))
        begun = time.time()
        _, peak_gib = in_process([str(JOBS / "extract.py"), str(config)], os.environ | {"HF_HUB_OFFLINE": "1"})
        wall_s = time.time() - begun
        run = Run(str(Path(folder) / "run"))
        events = [json.loads(it) for it in (Path(folder) / "run" / EVENTS_FILE).read_text().splitlines()]
        ready = [datetime.fromisoformat(it["at"]).timestamp() for it in events if it["event"] == "worker_ready"]
        rows = {
            name: [row for span in run.committed(name) for row in run.read_rows(Shard(name, *span))]
            for name in run.methods
        }
    return Outcome(
        "kgscale",
        max(ready) - begun,
        wall_s,
        sum(map(len, rows.values())),
        sum(len(row.entities) for row in rows["gliner"]),
        sum(row.output_tokens or 0 for name in ("llm", "hybrid") for row in rows[name]),
        peak_gib,
    )


def plain(arguments: argparse.Namespace, work: Work) -> Outcome:
    """The plain script."""
    return told([str(BENCHMARKS / "parts" / "plain_script.py"), *given(arguments, work)], work.environ)


def ray_data(arguments: argparse.Namespace, work: Work) -> Outcome:
    """The pipeline of Ray Data."""
    script = [str(BENCHMARKS / "ray_data_baseline.py"), *given(arguments, work), "--engine", arguments.ray_engine]
    return told(script, dict(os.environ))


def given(arguments: argparse.Namespace, work: Work) -> list[str]:
    numbers = {"--chunks": arguments.chunks, "--max-tokens": arguments.max_tokens, "--threads": work.threads}
    return [str(arguments.documents), *(str(it) for pair in numbers.items() for it in pair)]


def told(command: list[str], environ: Mapping[str, str]) -> Outcome:
    begun = time.time()
    stdout, peak_gib = in_process(command, environ)
    # Until it has ended, as for kgscale.
    wall_s = time.time() - begun
    return Outcome(**{**last_json(stdout), "wall_s": wall_s, "peak_gib": peak_gib})


def last_json(text: str) -> dict[str, Any]:
    """The last line that is an object; engines may talk after it."""
    found: dict[str, Any] = json.loads([it for it in text.splitlines() if it.startswith("{")][-1])
    return found


def in_process(command: list[str], environ: Mapping[str, str]) -> tuple[str, float]:
    """Standard output and peak memory of a script; raises `SystemExit` with the end of its log when it fails."""
    with TemporaryFile() as log:
        script = [sys.executable, *command]
        process = subprocess.Popen(script, stdout=subprocess.PIPE, stderr=log, text=True, env=environ)
        memory = PeakMemory(process.pid)
        stdout, _ = process.communicate()
        peak_gib = memory.stop()
        memory.leave_none_behind()
        if process.returncode:
            log.seek(0)
            end = log.read()[-STDERR_SHOWN:].decode(errors="replace")
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{end}")
    return stdout, peak_gib


SIDES: dict[str, Callable[[argparse.Namespace, Work], Outcome]] = {
    "kgscale": kgscale,
    "plain": plain,
    "ray": ray_data,
}

if __name__ == "__main__":
    main()

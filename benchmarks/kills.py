"""Kills a run with -9 at random moments until it is done, and compares its rows with those of a calm run.

Each attempt runs `kgscale extract` in a session of its own and, after a random time, kills the driver, one worker, or
every process of the Ray session. The LLM is a scripted endpoint (`endpoint.py`), so that equal rows can be expected;
GLiNER is a real model. Prints the machine, a tally and one JSON line last.

`python benchmarks/kills.py [--kills 20] [--chunks 400] [--gliner MODEL] [--seed 0] [--quick]`
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import psutil

ROOT = Path(__file__).parent.parent
KGSCALE = Path(sys.executable).parent / "kgscale"
ROW_CONTENT = ("chunk_id", "row", "method", "status", "entities", "relations")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--chunks", type=int, default=400)
    parser.add_argument("--gliner", default="gliner-minilm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    kills = 3 if options.quick else options.kills
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name:
        tally = kill_and_compare(Path(name), kills, options.chunks, options.gliner, options.seed)
    print(json.dumps({"benchmark": "kills", "seed": options.seed, **tally}))
    sys.exit(0 if tally["passed"] else 1)


def kill_and_compare(folder: Path, kills: int, chunks: int, gliner: str, seed: int) -> dict[str, Any]:
    """Kill runs so many times in all, until each is done; whatever happens, each must end like the calm one."""
    rng = random.Random(seed)
    config = write_config(folder, chunks, gliner)
    port = free_port()
    endpoint = subprocess.Popen([sys.executable, ROOT / "benchmarks" / "endpoint.py", str(port), "50"])
    try:
        override = f"llm.base_url=http://127.0.0.1:{port}/v1"
        begun = time.monotonic()
        calm = extract(config, folder / "calm", override)
        assert calm.wait() == 0, "the calm run failed"
        calm_s = time.monotonic() - begun
        expected = rows(folder / "calm")
        print(f"calm run: {len(expected)} rows in {calm_s:.0f} s")
        done: Counter[str] = Counter()
        attempts = runs = equal = 0
        while sum(done.values()) < kills:
            run = folder / f"killed-{runs}"
            runs += 1
            while not finished(run, override, config, rng, calm_s, kills - sum(done.values()), done):
                attempts += 1
            verified = subprocess.run([KGSCALE, "verify", run], capture_output=True, text=True, check=False)
            found = rows(run)
            same = found.equals(expected)
            equal += same and verified.returncode == 0
            difference = "equal" if same else f"{len(found.join(expected, on=ROW_CONTENT, how='anti'))} DIFFER"
            print(f"run {runs}: kills so far {dict(done)}; {verified.stdout.strip()}; rows {difference}", flush=True)
            shutil.rmtree(run)
    finally:
        endpoint.kill()
    return {"kills": dict(done), "runs": runs, "equal": equal, "rows": len(expected), "passed": equal == runs}


def finished(
    run: Path, override: str, config: Path, rng: random.Random, calm_s: float, kills_left: int, done: Counter[str]
) -> bool:
    """One attempt; true if it ended by itself, with success."""
    process = extract(config, run, override)
    if kills_left <= 0:
        assert process.wait() == 0, "an attempt without a kill failed"
        return True
    deadline = time.monotonic() + rng.uniform(0.1, 1.1) * calm_s
    victim = rng.choice(["driver", "worker", "session"])
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if process.poll() is None and kill(process.pid, victim, rng):
        done[victim] += 1
    if victim == "worker":
        # The driver replaces it and goes on.
        return process.wait() == 0
    code = process.wait()
    wait_for_end_of_ray()
    return code == 0


def kill(driver: int, victim: str, rng: random.Random) -> bool:
    """Send -9; false if there was no such process yet."""
    processes = psutil.Process(driver).children(recursive=True)
    if victim == "driver":
        os.kill(driver, signal.SIGKILL)
        return True
    if victim == "worker":
        processes = [it for it in processes if is_worker(it)]
        processes = [rng.choice(processes)] if processes else []
    for it in processes:
        try:
            it.kill()
        except psutil.NoSuchProcess:
            continue
    return bool(processes)


def is_worker(process: psutil.Process) -> bool:
    """Whether a process, which may be gone by now, is one of kgscale's actors."""
    try:
        return any("Worker" in part for part in process.cmdline())
    except psutil.Error:
        return False


def wait_for_end_of_ray() -> None:
    """Orphans of a killed driver end by themselves; give them time, as a user would who starts again."""
    until = time.monotonic() + 30
    while time.monotonic() < until and any("raylet" in it.name() for it in psutil.process_iter()):
        time.sleep(0.2)


def extract(config: Path, run: Path, override: str) -> "subprocess.Popen[bytes]":
    """Start an extraction in a session of its own."""
    arguments = [str(it) for it in (KGSCALE, "extract", config, "--set", f"run={run}", "--set", override)]
    log = (run.parent / f"{run.name}.log").open("ab")
    return subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)


def rows(run: Path) -> pl.DataFrame:
    """What a run says of its chunks, without times and workers."""
    found = pl.read_parquet(run / "extractions" / "*" / "*.parquet").select(ROW_CONTENT).sort("method", "row")
    # A score differs in its last digits with the batch that a chunk was in.
    without_score = pl.element().struct.with_fields(score=None)
    return found.with_columns(pl.col("entities").list.eval(without_score))


def write_config(folder: Path, chunks: int, gliner: str) -> Path:
    """The demo's text, repeated under other ids."""
    lines = [json.loads(line) for line in (ROOT / "jobs" / "demo" / "corpus.jsonl").read_text().splitlines()]
    with (folder / "corpus.jsonl").open("w") as file:
        for number in range(chunks):
            line = lines[number % len(lines)]
            file.write(json.dumps({**line, "chunk_id": f"{line['chunk_id']}-{number}"}) + "\n")
    config = {
        "corpus": {"path": str(folder / "corpus.jsonl"), "shard_chunks": 16},
        "engines": {
            "gliner": {"model": gliner, "threshold": 0.5},
            "llm": {"kind": "openai", "model": "scripted", "base_url": "set below", "api_key_env": None},
        },
        "methods": {
            "llm": {"entities": "llm", "relations": "llm"},
            "hybrid": {"entities": "gliner", "relations": "llm"},
        },
    }
    path = folder / "config.yaml"
    path.write_text(json.dumps(config))
    return path


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


if __name__ == "__main__":
    main()

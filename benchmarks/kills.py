"""Kills runs with -9 at random moments until they are done, and compares their rows with those of a calm run.

Each run is killed one to four times: each attempt is `kgscale extract` in a session of its own and, after a random
time, the driver, one worker, the raylet or every process of the Ray session is killed, or a worker is stopped for a
while. Half of the runs also have trouble from within (`chaos/sitecustomize.py`): commits that fail before or after the
rename, a slow disk, a wall clock that jumps. The LLM is a scripted endpoint (`endpoint.py`), so that equal rows can be
expected; GLiNER is a real model. Each run must end with `kgscale verify` passing and rows equal to those of the calm
one. Prints the machine, a line per run and one JSON line last.

`python benchmarks/kills.py [--runs 30] [--chunks 400] [--gliner MODEL] [--seed 0] [--quick]`
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
VICTIMS = ("driver", "worker", "raylet", "session", "stopped worker")
TROUBLES = ("", "", "", "store=0.05", "disk=1.0", "clock=86400", "store=0.05,disk=0.5,clock=3600")
TRIES = 10
"""Attempts that may fail through trouble from within once there are no more kills."""
ROW_CONTENT = ("chunk_id", "row", "method", "status", "entities", "relations")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--chunks", type=int, default=400)
    parser.add_argument("--gliner", default="gliner-minilm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    runs = 2 if options.quick else options.runs
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name:
        tally = kill_and_compare(Path(name), runs, options.chunks, options.gliner, options.seed)
    print(json.dumps({"benchmark": "kills", "seed": options.seed, **tally}))
    sys.exit(0 if tally["passed"] else 1)


def kill_and_compare(folder: Path, count: int, chunks: int, gliner: str, seed: int) -> dict[str, Any]:
    """Kill so many runs, each until it is done; whatever happens, each must end like the calm one."""
    rng = random.Random(seed)
    config = write_config(folder, chunks, gliner)
    port = free_port()
    endpoint = subprocess.Popen([sys.executable, ROOT / "benchmarks" / "endpoint.py", str(port), "50"])
    try:
        override = f"llm.base_url=http://127.0.0.1:{port}/v1"
        begun = time.monotonic()
        calm = extract(config, folder / "calm", override)
        assert calm.wait() == 0, f"the calm run failed:\n{end_of_log(folder / 'calm')}"
        calm_s = time.monotonic() - begun
        expected = rows(folder / "calm")
        print(f"calm run: {len(expected)} rows in {calm_s:.0f} s")
        done: Counter[str] = Counter()
        troubles: Counter[str] = Counter()
        attempts = equal = 0
        for number in range(count):
            run = folder / f"killed-{number}"
            trouble = rng.choice(TROUBLES)
            troubles.update(part.partition("=")[0] for part in trouble.split(",") if part)
            kills = rng.randint(1, 4)
            attempts += 1
            while not finished(run, override, config, rng, calm_s, kills, done, trouble):
                attempts += 1
                kills -= 1
                if kills <= -TRIES:
                    raise AssertionError(f"run {number + 1} ({trouble}) does not come to its end:\n{end_of_log(run)}")
            verified = subprocess.run([KGSCALE, "verify", run], capture_output=True, text=True, check=False)
            found = rows(run)
            same = found.equals(expected)
            equal += same and verified.returncode == 0
            difference = "equal" if same else f"{len(found.join(expected, on=ROW_CONTENT, how='anti'))} DIFFER"
            print(
                f"run {number + 1} ({trouble or 'no trouble within'}): kills so far {dict(done)}; "
                f"{verified.stdout.strip()}; rows {difference}",
                flush=True,
            )
            shutil.rmtree(run)
    finally:
        endpoint.kill()
    return {
        "kills": dict(done),
        "troubles": dict(troubles),
        "runs": count,
        "attempts": attempts,
        "equal": equal,
        "rows": len(expected),
        "passed": equal == count,
    }


def finished(
    run: Path,
    override: str,
    config: Path,
    rng: random.Random,
    calm_s: float,
    kills_left: int,
    done: Counter[str],
    trouble: str,
) -> bool:
    """One attempt; true if it ended by itself, with success."""
    process = extract(config, run, override, trouble)
    if kills_left <= 0:
        code = process.wait()
        assert code == 0 or trouble, f"an attempt without a kill failed:\n{end_of_log(run)}"
        return code == 0
    deadline = time.monotonic() + rng.uniform(0.1, 1.1) * calm_s
    victim = rng.choice(VICTIMS)
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    raylets = []
    if process.poll() is None:
        raylets = [it for it in psutil.Process(process.pid).children(recursive=True) if named(it, "raylet")]
        done[victim] += kill(process.pid, victim, rng)
    code = process.wait()
    wait_for_end_of(raylets)
    return code == 0


def kill(driver: int, victim: str, rng: random.Random) -> bool:
    """Send -9; false if there was no such process yet."""
    processes = psutil.Process(driver).children(recursive=True)
    if victim == "driver":
        os.kill(driver, signal.SIGKILL)
        return True
    if victim in ("worker", "stopped worker"):
        processes = [it for it in processes if is_worker(it)]
        processes = [rng.choice(processes)] if processes else []
    if victim == "raylet":
        processes = [it for it in processes if named(it, "raylet")]
    if victim == "stopped worker":
        return all(stopped(it, rng.uniform(1, 10)) for it in processes) and bool(processes)
    for it in processes:
        try:
            it.kill()
        except psutil.NoSuchProcess:
            continue
    return bool(processes)


def stopped(process: psutil.Process, seconds: float) -> bool:
    """Hold a process up for a while, as a machine that swaps does."""
    try:
        process.suspend()
        time.sleep(seconds)
        process.resume()
    except psutil.NoSuchProcess:
        return False
    return True


def named(process: psutil.Process, name: str) -> bool:
    """Whether a process, which may be gone by now, has this name."""
    try:
        return bool(process.name() == name)
    except psutil.Error:
        return False


def is_worker(process: psutil.Process) -> bool:
    """Whether a process, which may be gone by now, is one of kgscale's actors."""
    try:
        return any("Worker" in part for part in process.cmdline())
    except psutil.Error:
        return False


def wait_for_end_of(raylets: list[psutil.Process]) -> None:
    """Orphans of a killed driver end by themselves; give them time, as a user would who starts again."""
    until = time.monotonic() + 30
    while time.monotonic() < until and any(it.is_running() for it in raylets):
        time.sleep(0.2)


def extract(config: Path, run: Path, override: str, trouble: str = "") -> "subprocess.Popen[bytes]":
    """Start an extraction in a session of its own, with trouble from within if any is named."""
    environment = dict(os.environ)
    if trouble:
        paths = (str(ROOT / "benchmarks" / "chaos"), os.environ.get("PYTHONPATH"))
        environment |= {"CHAOS": trouble, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    arguments = [str(it) for it in (KGSCALE, "extract", config, "--set", f"run={run}", "--set", override)]
    log = log_of(run).open("ab")
    return subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True, env=environment)


def end_of_log(run: Path) -> str:
    """What the attempts of a run said last."""
    return log_of(run).read_text(errors="replace")[-4000:]


def log_of(run: Path) -> Path:
    """Where the attempts of a run write."""
    return run.parent / f"{run.name}.log"


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

"""A local LLM in a Ray worker, both real: the worker is killed in the middle, and the job goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from kgscale.runs import EVENTS_FILE, Run
from kgscale.shards import Shard
from kgscale.verify import verify

pytestmark = pytest.mark.engines

CHUNKS = 40
SETTINGS = {
    "engines": {"llm": {"model": "smollm2-135m", "max_model_len": 768, "max_tokens": 24, "max_num_seqs": 2}},
    "methods": {"llm": {"entities": "llm", "relations": "llm"}},
    # What a fifth of the tokens that an answer needs gives is cut, and may be no JSON.
    "limits": {"failed_share": 1.0},
}


def test_a_killed_worker_takes_its_engine_along_and_another_ends_the_run(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    texts = [f"Ada Lovelace wrote note {row} in London." for row in range(CHUNKS)]
    corpus.write_text("\n".join(json.dumps({"chunk_id": f"c{row}", "text": it}) for row, it in enumerate(texts)))
    run = tmp_path / "run"
    config = SETTINGS | {"run": str(run), "corpus": {"path": str(corpus), "shard_chunks": 2}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    command = [str(Path(sys.executable).parent / "kgscale"), "extract", str(tmp_path / "config.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
        try:
            within(180, lambda: job.poll() is not None or "shard_committed" in events(run))
            assert job.poll() is None, job.stdout.read()
            engine = engine_of(job)
            assert engine, "vLLM's processes are below the worker"
            worker = next(it for it in engine[0].parents() if "LlmWorker" in " ".join(it.cmdline()))
            os.kill(worker.pid, signal.SIGKILL)
            within(20, lambda: not any(map(alive, engine)))
            within(180, lambda: job.poll() is not None or list(events(run)).count("worker_ready") == 2)
            engine = engine_of(job)
            output, _ = job.communicate(timeout=180)
        finally:
            job.terminate()
    assert job.returncode == 0, output
    within(20, lambda: not any(map(alive, engine)))
    assert "worker_died" in events(run)
    done = Run(str(run))
    assert not verify(done).problems
    rows = [row for span in done.committed("llm") for row in done.read_rows(Shard("llm", *span))]
    assert sorted(row.row for row in rows) == list(range(CHUNKS))
    assert not [row for row in rows if row.status == "dead"]


def events(run: Path) -> Iterator[str]:
    path = run / EVENTS_FILE
    if path.exists():
        for line in path.read_text().splitlines():
            yield json.loads(line)["event"]


def engine_of(job: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes of vLLM below a job; Ray starts its own in sessions of their own, but they stay children."""
    return [it for it in psutil.Process(job.pid).children(recursive=True) if "VLLM" in " ".join(it.cmdline())]


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def within(seconds: float, holds: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.2)

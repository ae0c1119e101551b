"""The job scripts run where users run them: submitted to a Ray cluster's head."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RAY = Path(sys.executable).parent / "ray"


def free_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """A head of its own on this machine; yields its job address and the environment that its clients need."""
    folder = tmp_path_factory.mktemp("head")
    token = folder / "token"
    token.write_text(secrets.token_hex(32))
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("RAY_")},
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    dashboard = free_port()
    # Sockets have paths of at most 107 bytes: the directory must be short.
    # The agent that starts jobs has a port of its own too, which another Ray on this machine would hold by default.
    ports = [f"--port={free_port()}", f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={free_port()}"]
    arguments = ["--head", "--block", "--num-cpus=2", *ports]
    short = Path(f"/tmp/kgs{os.getpid()}")
    process = subprocess.Popen(
        [RAY, "start", *arguments, f"--temp-dir={short}"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{dashboard}"
    try:
        request = urllib.request.Request(
            f"{address}/api/version", headers={"Authorization": f"Bearer {token.read_text()}"}
        )
        for _ in range(120):
            try:
                urllib.request.urlopen(request, timeout=2)
                break
            except OSError:
                time.sleep(0.5)
        yield address, environment
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(short, ignore_errors=True)


def submit(head: tuple[str, dict[str, str]], *command: str) -> subprocess.CompletedProcess[str]:
    address, environment = head
    for _ in range(10):
        done = subprocess.run(
            [RAY, "job", "submit", "--address", address, "--working-dir", ROOT, "--", sys.executable, *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        # A young head answers before the agent that starts jobs is there.
        if "No available agent" not in done.stderr:
            return done
        time.sleep(2)
    return done


def test_extract_and_score_as_submitted_jobs(head: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    config = ["jobs/demo.yaml", "--set", f"run={tmp_path}/run", "--set", "corpus.limit=20"]
    done = submit(head, "jobs/extract.py", *config, "--method", "gliner")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gliner           20/20 (20 ok)" in done.stdout
    scored = submit(head, "jobs/score.py", f"{tmp_path}/run", "--json")
    assert scored.returncode == 0, scored.stdout + scored.stderr
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert [it["method"] for it in scores["methods"]] == ["gliner"]


def test_a_failed_job_is_a_failed_job(head: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    done = submit(
        head, "jobs/extract.py", "jobs/demo.yaml", "--set", f"run={tmp_path}/run", "--set", "gliner.model=nonsense"
    )
    assert done.returncode != 0
    assert "no gliner model 'nonsense'" in done.stdout + done.stderr

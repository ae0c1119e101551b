"""kgscale as a process of its own, with Ray and an endpoint over HTTP: how it stops, and that it keeps secrets."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from kgscale.lock import current_driver
from kgscale.runs import EVENTS_FILE, Run, Shard
from kgscale.verify import verify
from tests.web import JsonHandler

pytestmark = pytest.mark.engines
KEY = "sk-proj-6Zq1-never-to-be-seen"
OTHERS = {"HF_TOKEN": "hf_never_to_be_seen", "AWS_SECRET_ACCESS_KEY": "aws-never-to-be-seen"}
COMMAND = [sys.executable, "-c", "from kgscale.cli import main; main()"]
ANSWER = {"entities": [{"name": "Ada", "type": "person"}], "relations": []}


class Endpoint(ThreadingHTTPServer):
    """Answers after `pause_s`; what a text says, happens to its request. Refusals quote the request's headers."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answering)
        self.pause_s = 0.0
        self.key = KEY
        self.asked = 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class Answering(JsonHandler):
    server: Endpoint

    def take(self, body):
        text = body["messages"][-1]["content"]
        quoted = f"bad headers: {dict(self.headers)}"
        if self.headers["Authorization"] != f"Bearer {self.server.key}":
            self.reply(401, {"error": {"message": quoted}})
        elif "REFUSED" in text:
            self.reply(400, {"error": {"message": quoted}})
        elif "BURNS" in text:
            self.reply(500, quoted)
        elif "ODD" in text:
            self.reply(200, {"said": quoted})
        else:
            if "Chunk" in text:
                self.server.asked += 1
                time.sleep(self.server.pause_s)
            message = {"role": "assistant", "content": json.dumps(ANSWER)}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            self.reply(200, {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})


@pytest.fixture
def endpoint():
    web = Endpoint()
    yield web
    web.shutdown()
    web.server_close()


@pytest.fixture
def ray_folder():
    """Where Ray writes its logs; the path is short, because sockets lie in it."""
    folder = tempfile.mkdtemp(prefix="kg", dir="/tmp")
    yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def config(tmp_path, endpoint):
    def write(texts, **engine):
        corpus = tmp_path / "corpus.jsonl"
        lines = [json.dumps({"chunk_id": f"c{row}", "text": text}) for row, text in enumerate(texts)]
        corpus.write_text("\n".join(lines))
        web = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": "WEB_KEY", "retries": 0}
        path = tmp_path / "config.yaml"
        path.write_text(
            json.dumps(
                {
                    "run": str(tmp_path / "run"),
                    "corpus": {"path": str(corpus), "shard_chunks": 2},
                    "engines": {"web": {**web, **engine}},
                    "methods": {"web": {"entities": "web", "relations": "web"}},
                    "limits": {"failed_share": 1.0},
                    "cluster": {"num_cpus": 2},
                }
            )
        )
        return path

    return write


@pytest.fixture
def start(ray_folder):
    """Start a command; whatever is left of it at the end is killed."""
    started = []

    def run(*arguments, **environment):
        known = {"WEB_KEY": KEY, "RAY_TMPDIR": str(ray_folder), "RAY_USAGE_STATS_ENABLED": "0", **OTHERS}
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            env={**os.environ, **known, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def committed(run):
    path = run / EVENTS_FILE
    lines = path.read_text().splitlines() if path.exists() else []
    return [it for it in map(json.loads, lines) if it["event"] == "shard_committed"]


def until(condition, seconds=240.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


def seconds_to_end(process, limit):
    begun = time.monotonic()
    process.wait(limit)
    return time.monotonic() - begun


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_before_the_work_begins_ends_it_all_the_same(config, start, tmp_path, number):
    """While Ray starts, whose own answer to SIGTERM is to exit with 15 and say nothing."""
    process = start("extract", config([f"Chunk {row}" for row in range(8)]))
    until((tmp_path / "run" / "run.json").exists)
    time.sleep(0.7)
    os.kill(process.pid, number)
    assert seconds_to_end(process, 30) < 10
    assert process.returncode == 130
    assert "interrupted; what was committed stays" in process.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_ends_it_in_time_with_everything_finished_committed(config, endpoint, start, tmp_path, number):
    endpoint.pause_s = 0.4
    path, run = config([f"Chunk {row}" for row in range(60)], concurrency=2), tmp_path / "run"
    process = start("extract", path)
    until(lambda: len(committed(run)) >= 2)
    os.kill(process.pid, number)
    assert seconds_to_end(process, 30) < 10
    assert process.returncode == 130
    assert "interrupted; what was committed stays" in process.stderr.read()
    stopped = Run(run)
    files = stopped.committed("web")
    assert [(it["start"], it["stop"]) for it in sorted(committed(run), key=lambda it: it["start"])] == files
    assert 2 <= len(files) < 30
    assert [it.where for it in verify(stopped).problems] == ["web"], "rows are missing, and nothing else is wrong"
    assert current_driver(stopped.store) is None
    # What was asked for was answered and committed: nothing in flight was thrown away.
    assert endpoint.asked == 2 * len(files)
    endpoint.pause_s = 0.0
    again = start("extract", path)
    assert again.wait(300) == 0, again.stderr.read()
    assert endpoint.asked == 60, "a resume asks about the rest alone"
    assert verify(Run(run)).passed


def test_a_hanging_engine_does_not_hold_it_up(config, endpoint, start, tmp_path):
    endpoint.pause_s = 300.0
    process = start("extract", config([f"Chunk {row}" for row in range(8)]))
    until(lambda: endpoint.asked)
    os.kill(process.pid, signal.SIGTERM)
    assert seconds_to_end(process, 30) < 10
    assert process.returncode == 130
    assert committed(tmp_path / "run") == []


def test_a_second_signal_stops_it_at_once(config, endpoint, start):
    endpoint.pause_s = 300.0
    process = start("extract", config([f"Chunk {row}" for row in range(8)]))
    until(lambda: endpoint.asked)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(1.0)
    assert process.poll() is None, "the first one lets what runs finish"
    os.kill(process.pid, signal.SIGINT)
    assert seconds_to_end(process, 30) < 1
    assert process.returncode == 130


def files_with(secret, *folders):
    """Every file below some folders that holds a secret, plainly or as one of its usual spellings."""
    return [
        str(path)
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize("right", [True, False], ids=["the right key", "a wrong key"])
def test_secrets_are_nowhere_to_be_seen(config, endpoint, start, tmp_path, ray_folder, right):
    endpoint.key = KEY if right else "another"
    texts = ["Chunk 0", "REFUSED 1", "BURNS 2", "ODD 3", "Chunk 4", "Chunk 5"]
    process = start("run", config(texts, concurrency=1), OPENAI_LOG="debug", RAY_BACKEND_LOG_LEVEL="debug")
    out, err = process.communicate(timeout=300)
    assert process.returncode == (0 if right else 1), err
    run = Run(tmp_path / "run")
    if right:
        errors = [row.error for span in run.planned for row in run.read_rows(Shard("web", *span)) if row.error]
        assert len(errors) == 3
        assert sum("bad headers" in it for it in errors) >= 2, "the endpoint's words are kept, without the key"
        assert (tmp_path / "run" / "report.html").exists()
    else:
        assert "bad headers" in err
        assert "Traceback" not in err
    logs = [it for it in ray_folder.rglob("*") if it.is_file()]
    assert len(logs) > 5, "Ray's logs are among what is searched"
    for secret in (KEY, *OTHERS.values()):
        assert secret not in out + err
        assert files_with(secret, tmp_path, ray_folder) == []

"""The whole job on an object store, with Ray and an endpoint: extracted, resumed, tried again, damaged, mended."""

import json
import threading
from http.server import ThreadingHTTPServer

import pytest

from kgscale.configfile import load_config
from kgscale.extract.job import extract_run
from kgscale.extract.opening import resolve
from kgscale.lock import current_driver
from kgscale.repair import set_aside
from kgscale.runs import EVENTS_FILE, Run
from kgscale.shards import Shard
from kgscale.summary import last_summary
from kgscale.verify import verify
from tests.test_objectstore import server  # noqa: F401  # a fixture
from tests.web import JsonHandler

pytestmark = pytest.mark.engines
ANSWER = {"entities": [{"name": "Ada", "type": "person"}], "relations": []}


class Endpoint(JsonHandler):
    """Answers every chunk alike, but refuses those that hold a certain word."""

    refused = "FAILS"
    asked = 0

    def take(self, body):
        type(self).asked += "wrote number" in body["messages"][-1]["content"]
        if self.refused in body["messages"][-1]["content"]:
            self.reply(400, {"error": {"message": "no"}})
            return
        choice = {"index": 0, "message": {"role": "assistant", "content": json.dumps(ANSWER)}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self.reply(
            200,
            {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage},
        )


@pytest.fixture
def endpoint():
    web = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{web.server_address[1]}/v1"
    web.shutdown()
    web.server_close()


@pytest.fixture
def ray():
    """One Ray for all the runs of a test; each run joins it and leaves it as it was."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


def test_a_whole_job_on_an_object_store(server, ray, endpoint, tmp_path, monkeypatch):  # noqa: F811
    corpus = tmp_path / "corpus.jsonl"
    texts = [f"Ada wrote number {row}. {'FAILS' if row in (3, 4, 9) else ''}" for row in range(12)]
    lines = [{"chunk_id": f"c{row}", "doc_id": "d", "text": text} for row, text in enumerate(texts)]
    corpus.write_text("\n".join(map(json.dumps, lines)))
    path = tmp_path / "config.yaml"
    llm = {"kind": "openai", "model": "m", "base_url": endpoint, "api_key_env": None, "retries": 0}
    path.write_text(
        json.dumps(
            {
                "run": "s3://bucket/runs/job",
                "corpus": {"path": str(corpus), "shard_chunks": 4},
                "engines": {"llm": llm},
                "methods": {"llm": {"entities": "llm", "relations": "llm"}},
            }
        )
    )
    config = resolve(load_config(path, []))
    said = []
    run = extract_run(config, None, said.append, command="test")
    rows = run.read_rows(Shard("llm", 0, 12))
    assert [row.row for row in rows if row.status == "failed"] == [3, 4, 9]
    assert verify(run).passed
    told = last_summary(run)
    assert [(it.method, it.chunks) for it in told.methods] == [("llm", 12)]
    assert told.methods[0].output_tokens_per_s == pytest.approx(9 / told.methods[0].seconds), "one for each answer"
    asked = Endpoint.asked
    assert asked == 12
    extract_run(config, None, said.append, command="test")
    assert Endpoint.asked == asked, "what is done is not done again"
    monkeypatch.setattr(Endpoint, "refused", "never")
    again = extract_run(config, None, said.append, command="test", retry_failed=True)
    assert Endpoint.asked == asked + 3, "good rows are not asked about again"
    after = again.read_rows(Shard("llm", 0, 12))
    assert {row.status for row in after} == {"ok"}
    assert [new for old, new in zip(rows, after, strict=True) if old.status == "ok"] == [
        row for row in rows if row.status == "ok"
    ]
    assert again.committed("llm") == [(0, 4), (4, 8), (8, 12)]
    extract_run(config, None, said.append, command="test", retry_failed=True)
    assert "no row is failed or dead" in said
    run.store.write(Shard("llm", 4, 8).file, b"PAR1 rubbish PAR1")
    found = verify(Run(run.store.uri))
    assert set_aside(run, found, "test") == [Shard("llm", 4, 8).file]
    extract_run(config, None, said.append, command="test")
    assert Endpoint.asked == asked + 3 + 4
    assert verify(Run(run.store.uri)).passed
    assert current_driver(run.store) is None
    assert b"drive_finished" in run.store.read(EVENTS_FILE)
    assert ray.is_initialized()

"""An LLM behind HTTP, against a small endpoint on this machine that misbehaves in every way that endpoints do."""

import asyncio
import json
import logging
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai
import pytest

from kgscale.config import OpenAIEngine, SchemaConfig
from kgscale.errors import WorkError
from kgscale.extract.llm import EngineBrokenError, make_llm
from kgscale.extract.llm_extract import LlmExtractor
from kgscale.extract.methods import Step
from kgscale.extract.prompt import Task, prompt_book
from kgscale.records import Chunk, Status

KEY = "sk-very-secret-0123456789"
ANSWER = json.dumps({"entities": [{"name": "Ada", "type": "person"}], "relations": []})
STEP = Step("web", "web", Task.BOTH)


def completion(content=ANSWER, **message):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content, **message}}
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def problem(status, message="no", headers=()):
    return status, json.dumps({"error": {"message": message}}), dict(headers)


@dataclass
class Endpoint:
    """Answers requests from `plan`, in turn, then as it should; a number in the plan is a pause in seconds."""

    plan: list[object] = field(default_factory=list)
    requests: list[dict] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def reply(self, request, authorization):
        with self.lock:
            self.requests.append(request)
            self.at.append(time.monotonic())
            step = self.plan.pop(0) if self.plan else None
        if authorization != f"Bearer {KEY}":
            return problem(401, f"Incorrect API key provided: {authorization}")
        if request["model"] != "m":
            return problem(404, "there is no such model")
        if isinstance(step, float):
            time.sleep(step)
            step = None
        return step or (200, json.dumps(completion()), {})


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.setenv("WEB_KEY", KEY)
    here = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            with here.lock:
                here.busy += 1
                here.most_busy = max(here.most_busy, here.busy)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, text, headers = here.reply(json.loads(body), self.headers["Authorization"])
            with here.lock:
                here.busy -= 1
            if status is None:
                self.close_connection = True
                return
            data = text.encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    here.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield here
    server.shutdown()
    server.server_close()


def engine(endpoint, **settings):
    return OpenAIEngine(**{"base_url": endpoint.url, "api_key_env": "WEB_KEY", "model": "m", "retries": 2, **settings})


def rows(endpoint, *plan, chunks=1, start=True, **settings):
    """The rows of some chunks, with `plan` in force once the engine has started."""
    config = engine(endpoint, **settings)
    books = {Task.BOTH: prompt_book(SchemaConfig(), config, Task.BOTH)}

    async def work():
        llm = make_llm(config, gpu_share=None, seed=3)
        await llm.start(list(books.values()))
        endpoint.requests.clear()
        endpoint.at.clear()
        endpoint.plan = list(plan)
        extractor = LlmExtractor(llm, books, True)
        texts = [Chunk(f"c{at}", "d", at, f"Ada {at}", 2) for at in range(chunks)]
        try:
            return await asyncio.gather(*(extractor.extract(STEP, it, None) for it in texts))
        finally:
            await llm.stop()

    return asyncio.run(work())


def test_a_good_answer_and_what_was_asked(endpoint):
    (row,) = rows(endpoint)
    assert (row.status, row.error, [it.text for it in row.entities]) == (Status.OK, None, ["Ada"])
    assert (row.prompt_tokens, row.cached_tokens, row.output_tokens) == (9, 4, 5)
    assert row.service_ms > 0
    assert row.batch_size == 1
    assert row.device == endpoint.url
    (request,) = endpoint.requests
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert request["messages"][1]["content"] == "Text:\nAda 0"
    assert (request["temperature"], request["max_tokens"], request["seed"]) == (0, 512, 3)
    assert request["response_format"]["json_schema"]["strict"] is True
    assert request["response_format"]["json_schema"]["schema"]["required"] == ["entities", "relations"]


@pytest.mark.parametrize(("form", "sent"), [("json_object", {"type": "json_object"}), ("none", None)])
def test_endpoints_without_schemas_are_asked_in_their_way(endpoint, form, sent):
    rows(endpoint, response_format=form)
    assert endpoint.requests[0].get("response_format") == sent


@pytest.mark.parametrize(
    "step",
    [problem(429), problem(500), problem(503), (None, "", {}), 1.0],
    ids=["429", "500", "503", "dropped", "slow"],
)
def test_what_passes_is_tried_again(endpoint, step):
    (row,) = rows(endpoint, step, timeout_s=0.5)
    assert row.status is Status.OK
    assert len(endpoint.requests) == 2


def test_retry_after_is_kept_to(endpoint):
    (row,) = rows(endpoint, problem(429, headers={"Retry-After": "1"}))
    assert row.status is Status.OK
    assert endpoint.at[1] - endpoint.at[0] >= 0.95


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (problem(429, "slow down"), "RateLimitError: .*slow down"),
        (problem(500, "it burns"), "InternalServerError: .*it burns"),
        (problem(400, "the prompt is too long"), "BadRequestError: .*the prompt is too long"),
        (1.0, "APITimeoutError: "),
        ((200, '{"choices": [{"mess', {}), "JSONDecodeError: "),
        ((200, "<html>busy</html>", {"Content-Type": "text/html"}), "ValueError: the endpoint sent no answer"),
        ((200, "{}", {}), "ValueError: the endpoint sent no answer"),
        ((200, '{"choices": []}', {}), "ValueError: the endpoint sent no answer"),
        ((200, '{"choices": [{"finish_reason": "stop"}]}', {}), "ValueError: the endpoint sent no answer"),
        ((200, "null", {}), "ValueError: the endpoint sent no answer"),
        ((200, json.dumps(completion(None)), {}), "not-json: ''"),
        ((200, json.dumps(completion("\ud83d no")), {}), "not-json: "),
    ],
)  # fmt: skip
def test_what_does_not_pass_costs_its_chunk_alone(endpoint, step, reason):
    bad, good = rows(endpoint, step, chunks=2, retries=0, timeout_s=0.5, concurrency=1)
    assert bad.status is Status.FAILED
    assert re.match(reason, bad.error), bad.error
    assert good.status is Status.OK


def test_an_answer_beside_the_content_is_read(endpoint):
    (row,) = rows(endpoint, (200, json.dumps(completion(None, reasoning_content=ANSWER)), {}))
    assert [it.text for it in row.entities] == ["Ada"]


def test_usage_need_not_be_told(endpoint):
    answer = completion()
    del answer["usage"]
    (row,) = rows(endpoint, (200, json.dumps(answer), {}))
    assert (row.status, row.prompt_tokens, row.output_tokens) == (Status.OK, None, None)


@pytest.mark.parametrize("step", [problem(401), problem(404), "gone"])
def test_an_endpoint_that_is_gone_is_a_broken_engine(endpoint, monkeypatch, step):
    async def refuse(*_arguments, **_options):
        raise openai.APIConnectionError(request=None)

    if step == "gone":
        config = engine(endpoint, retries=0)

        async def work():
            llm = make_llm(config, gpu_share=None, seed=0)
            book = prompt_book(SchemaConfig(), config, Task.BOTH)
            await llm.start([book])
            monkeypatch.setattr(llm._client.chat.completions, "create", refuse)
            await llm.complete(book, book.ask("x"))

        with pytest.raises(EngineBrokenError):
            asyncio.run(work())
    else:
        with pytest.raises(EngineBrokenError):
            rows(endpoint, step)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model": "other"}, "the endpoint does not answer: .*there is no such model"),
        ({"api_key_env": "WEB_KEY_2"}, "the endpoint does not answer: .*Incorrect API key"),
        ({"api_key_env": "WEB_KEY_3"}, "the environment variable WEB_KEY_3 is not set"),
        ({"base_url": "http://127.0.0.1:9/v1", "retries": 0}, "the endpoint does not answer: Connection error"),
    ],
)
def test_a_wrong_address_key_or_model_stops_the_engine_with_the_reason(endpoint, monkeypatch, settings, told):
    monkeypatch.setenv("WEB_KEY_2", "sk-wrong-but-secret-too")
    with pytest.raises(WorkError, match=told) as caught:
        rows(endpoint, **settings)
    assert "sk-wrong-but-secret-too" not in str(caught.value)


@pytest.mark.parametrize("answer", [(200, "{}", {}), (200, "no", {}), (200, "x", {"Content-Type": "text/plain"})])
def test_what_is_no_such_endpoint_stops_the_engine(endpoint, answer):
    endpoint.plan = [answer] * 5
    with pytest.raises(WorkError, match="the endpoint does not answer"):
        rows(endpoint)


def test_a_first_answer_of_any_content_is_good_enough(endpoint):
    endpoint.plan = [(200, json.dumps(completion("hm?")), {})]
    assert rows(endpoint)[0].status is Status.OK


def test_no_more_requests_at_once_than_allowed_and_the_wait_is_told(endpoint):
    found = rows(endpoint, *([0.1] * 6), chunks=6, concurrency=2)
    assert endpoint.most_busy == 2
    assert max(row.queue_ms for row in found) > 150
    assert all(90 < row.service_ms < 10_000 for row in found)
    assert all(1 <= row.batch_size <= 2 for row in found)


def test_the_key_is_nowhere_to_be_seen(endpoint, caplog):
    echo = [problem(status, f"bad header Authorization: Bearer {KEY}") for status in (400, 500)]
    with caplog.at_level(logging.DEBUG):
        found = rows(endpoint, *echo, (200, f'{{"x": "{KEY}"}}', {}), chunks=3, retries=0, concurrency=1)
    assert [row.status for row in found] == [Status.FAILED] * 3
    config = engine(endpoint)
    llm = make_llm(config, gpu_share=None, seed=0)
    for text in (caplog.text, *(row.error for row in found), repr(config), config.model_dump_json(), repr(llm)):
        assert KEY not in text


def test_long_texts_are_cut_by_words(endpoint):
    config = engine(endpoint, max_chunk_words=100)
    llm = make_llm(config, gpu_share=None, seed=0)
    pieces = llm.pieces(" ".join(f"w{at}" for at in range(250)), prompt_book(SchemaConfig(), config, Task.BOTH))
    assert pieces[0].startswith("w0 ")
    assert pieces[-1].endswith("w249")
    assert max(len(piece.split()) for piece in pieces) <= 100
    assert {word for piece in pieces for word in piece.split()} == {f"w{at}" for at in range(250)}

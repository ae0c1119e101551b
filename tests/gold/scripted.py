"""An OpenAI-compatible endpoint on this machine that answers from the text and misbehaves as its plan says."""

import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME = re.compile(r"\b[A-Z][a-z]{2,}\b")
Step = tuple[int, str, dict[str, str]] | float | str | None


def said(text: str) -> dict[str, Any]:
    """Names in capitals are persons, and each knows the next."""
    names = list(dict.fromkeys(NAME.findall(text)))
    return {
        "entities": [{"name": it, "type": "person"} for it in names],
        "relations": [{"source": a, "type": "partner_of", "target": b} for a, b in itertools.pairwise(names)],
    }


def problem(status: int, message: str = "no", **headers: str) -> Step:
    return status, json.dumps({"error": {"message": message}}), headers


@dataclass
class Scripted:
    """What the endpoint does to each request in turn: a reply, a pause in seconds, an answer's text; then as it should.

    `answer` makes the answer of a model from the text.
    """

    plan: list[Step] = field(default_factory=list)
    refuses: tuple[str, ...] = ()
    """Fields of a request that are answered with 400."""
    pause_s: float = 0.0
    answer: Any = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0
    url: str = ""
    gone_after: int | None = None
    """After so many requests connections break off."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def texts(self) -> list[str]:
        """The texts that were asked about, without the trial at the start."""
        texts = [it["messages"][-1]["content"].removeprefix("Text:\n") for it in self.requests]
        return [it for it in texts if it != "Nothing is said here."]

    def reply(self, body: dict[str, Any]) -> tuple[int, str, dict[str, str]]:
        trial = body["messages"][-1]["content"].endswith("Nothing is said here.")
        with self.lock:
            self.requests.append(body)
            self.at.append(time.monotonic())
            step = self.plan.pop(0) if self.plan and not trial else None
        for name in self.refuses:
            if name in body and (name != "response_format" or body[name]["type"] == "json_schema"):
                return problem(400, f"{name} is not supported")  # type: ignore[return-value]
        time.sleep(step if isinstance(step, float) else self.pause_s)
        if isinstance(step, tuple):
            return step
        text = body["messages"][-1]["content"].removeprefix("Text:\n")
        found = step if isinstance(step, str) else json.dumps((self.answer or said)(text) if not trial else said(""))
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": found}}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        whole = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return 200, json.dumps({**whole, "choices": [choice], "usage": usage}), {}


@contextmanager
def serving(here: Scripted) -> Iterator[Scripted]:
    """The endpoint at its `url`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            with here.lock:
                here.busy += 1
                here.most_busy = max(here.most_busy, here.busy)
                here.keys.append(self.headers["Authorization"])
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if here.gone_after is not None and len(here.requests) >= here.gone_after:
                self.close_connection = True
                return
            status, text, headers = here.reply(body)
            with here.lock:
                here.busy -= 1
            data = text.encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here.url = f"http://127.0.0.1:{server.server_port}/v1"

    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()

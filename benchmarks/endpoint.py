"""A scripted OpenAI-compatible endpoint: the same text always gets the same answer, after a pause.

`python benchmarks/endpoint.py PORT [PAUSE_MS]`. Names in capitals are its entities; neighbours are related.
"""

import asyncio
import itertools
import json
import re
import sys
from typing import Any

from aiohttp import web

NAME = re.compile(r"\b[A-Z][a-z]{3,}\b")


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """What the endpoint says to a request of kgscale's."""
    schema = body["response_format"]["json_schema"]["schema"]["properties"]
    text = body["messages"][-1]["content"].split("\n\nEntities:\n")[0].removeprefix("Text:\n")
    names = list(dict.fromkeys(NAME.findall(text)))[:8]
    said: dict[str, Any] = {}
    if "entities" in schema:
        kinds = schema["entities"]["items"]["properties"]["type"]["enum"]
        said["entities"] = [{"name": name, "type": kinds[len(name) % len(kinds)]} for name in names]
    if "relations" in schema:
        kinds = schema["relations"]["items"]["properties"]["type"]["enum"]
        pairs = itertools.pairwise(names)
        said["relations"] = [{"source": a, "type": kinds[len(a) % len(kinds)], "target": b} for a, b in pairs]
    return said


def application(pause_s: float) -> web.Application:
    """The server."""

    async def complete(request: web.Request) -> web.Response:
        try:
            body = await request.json()
        except ConnectionError:
            # Whoever asked has been killed meanwhile.
            return web.Response(status=400)
        await asyncio.sleep(pause_s)
        message = {"role": "assistant", "content": json.dumps(answer(body))}
        usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
        return web.json_response({**reply, "choices": [choice], "usage": usage})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    return app


if __name__ == "__main__":
    port, pause_ms = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    web.run_app(application(pause_ms / 1e3), host="127.0.0.1", port=port, print=None)

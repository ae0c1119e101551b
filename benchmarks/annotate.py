"""`kgscale gold annotate` against a real vLLM server behind a proxy that injects faults, with kills -9 in between.

The proxy answers every other request with 429, 500, an answer cut in half, a body that is no JSON, or not in time; the
rest goes to the server. The command is killed when a third and two thirds of the answers are there. Prints the machine,
what was injected, what came out, and one JSON line last; exits with 1 if an answer is lost or paid for twice.

`python benchmarks/annotate.py [--texts 12] [--server URL --model NAME]`; without `--server` it starts vLLM with the
default small model.
"""

import argparse
import asyncio
import itertools
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

from kgscale.formats import load_gold
from kgscale.pretrained import prepare

COMMAND = [sys.executable, "-c", "from kgscale.cli import main; main()", "gold", "annotate"]
CITIES = ["Oslo", "Bergen", "Lyon", "Kyoto", "Quito", "Tallinn", "Porto", "Ghent", "Turin", "Basel", "Malmo", "Cork"]
FAULTS = (None, "429", None, "500", None, "half", None, "no JSON", None, "stall")
TIMEOUT_S = 120.0


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--server", help="the address of a server that runs already, with /v1")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds; a stall lasts a little longer")
    parser.add_argument("--quick", action="store_true", help="4 texts")
    options = parser.parse_args()
    if options.quick:
        options.texts = 4
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name, serving(options.server, options.model, Path(name)) as server:
        found = annotate(Path(name), server, options.model, options.texts, options.timeout)
    print(json.dumps({"benchmark": "annotate", "model": options.model, **found}))
    sys.exit(0 if found["passed"] else 1)


def annotate(folder: Path, server: str, model: str, texts: int, timeout_s: float) -> dict[str, Any]:
    """Annotate through the proxy, killed twice; what came of it."""
    sample, out = folder / "sample.jsonl", folder / "gold.json"
    rows = [{"chunk_id": f"c{at}", "text": text_of(at)} for at in range(texts)]
    sample.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    answers = folder / "gold.json.answers.jsonl"
    with proxied(server, timeout_s + 30) as (address, injected):
        command = [*COMMAND, str(sample), "-o", str(out), "--yes", "--json", "--model", model, "--endpoint", address]
        command += ["--concurrency", "2", "--max-tokens", "200", "--answer", "arrays", "--timeout", str(timeout_s)]
        begun = time.monotonic()
        for share in (1 / 3, 2 / 3):
            kill_at(command, answers, round(share * texts))
            print(f"killed with {len(lines(answers))} of {texts} answers there")
        last = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        seconds = time.monotonic() - begun
    told = json.loads(last.stdout or "{}")
    kept = lines(answers)
    good = Counter(it["chunk_id"] for it in kept if it["status"] == "ok")
    gold = {it.chunk_id: it for it in load_gold(out).chunks} if out.exists() else {}
    found = {
        "texts": texts,
        "in_gold": len(gold),
        "failed": told.get("failed"),
        "reasons": told.get("reasons"),
        "paid_twice": sum(count > 1 for count in good.values()),
        "injected": dict(injected),
        "exit": last.returncode,
        "seconds": round(seconds, 1),
    }
    whole = set(gold) == set(good) and len(gold) + (told.get("failed") or 0) == texts
    pseudo = all(it.origin == "pseudo" and it.annotator == model and it.prompt for it in gold.values())
    for key, value in found.items():
        print(f"  {key:<12} {value}")
    return {**found, "passed": bool(gold) and whole and pseudo and not found["paid_twice"]}


def text_of(number: int) -> str:
    """A short text with a few names."""
    first, second = CITIES[number % len(CITIES)], CITIES[(number * 5 + 1) % len(CITIES)]
    return f"Company {number} was founded by Ada Smith in {first}. It uses Python and has an office in {second}."


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that may end in the middle of one."""
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(it) for it in data[: data.rfind(b"\n") + 1].splitlines()]


def kill_at(command: list[str], answers: Path, count: int) -> None:
    """Run the command and kill it once so many answers are there."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None and len(lines(answers)) < count:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()


@contextmanager
def serving(server: str | None, model: str, folder: Path) -> Iterator[str]:
    """The address of a server: the one that is given, or vLLM started here."""
    if server is not None:
        yield server
        return
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(prepare(model, say=print))]
    command += ["--served-model-name", model, "--port", str(port), "--max-model-len", "2048", "--enforce-eager"]
    # One thread: several that share busy cores spend their time waiting for each other.
    one = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    environment = {**one, **os.environ}
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        begun = time.monotonic()
        while not answers_to(f"http://127.0.0.1:{port}/health"):
            if process.poll() is not None or time.monotonic() - begun > 900:
                sys.exit((folder / "server.log").read_text()[-3000:])
            time.sleep(1)
        print(f"the server was ready after {time.monotonic() - begun:.0f} s")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(60)


def answers_to(address: str) -> bool:
    """Whether something answers there."""
    try:
        with urllib.request.urlopen(address, timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


@contextmanager
def proxied(server: str, stall_s: float) -> Iterator[tuple[str, Counter[str]]]:
    """The address of a proxy in front of a server, and how often it did what."""
    injected: Counter[str] = Counter()
    faults = itertools.cycle(FAULTS)

    async def pass_on(request: web.Request) -> web.Response:
        body = await request.json()
        trial = body["messages"][-1]["content"].endswith("Nothing is said here.")
        fault = None if trial else next(faults)
        injected[fault or "passed on"] += 1
        if fault == "429":
            return web.json_response({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "1"})
        if fault == "500":
            return web.json_response({"error": {"message": "oops"}}, status=500)
        if fault == "no JSON":
            return web.Response(text='{"choices": [', content_type="application/json")
        if fault == "stall":
            await asyncio.sleep(stall_s)
        async with ClientSession() as session, session.post(f"{server}/chat/completions", json=body) as reply:
            answer = await reply.json()
        if fault == "half":
            message = answer["choices"][0]["message"]
            message["content"] = message["content"][: len(message["content"]) // 2]
        return web.json_response(answer, status=reply.status)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", pass_on)
    loop = asyncio.new_event_loop()
    port = free_port()

    async def start() -> web.AppRunner:
        # A request that is being held back as a time-out is not waited for.
        runner = web.AppRunner(app, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return runner

    runner = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/v1", injected
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    main()

"""What one GPU gives, and how much of its ceiling: `python benchmarks/gpu.py [--out results.json]`.

Needs no weights: GLiNER and Qwen3-4B have their real architectures and random weights, and texts and tokenizers are
made up. Parts: `gliner` (batch size, processes on the GPU, model sizes); `llm` (chunks in the engine at once, grammar
on and off, then with two GLiNER processes beside it); `llm-fp8` (the same with an FP8 KV cache); `scorer`, which needs
no GPU and gets the time that is left. Each part has its deadline, and what there is stands in the JSON file after each
row, so that a time-out keeps it. What is not installed is left out and named. `--device cpu` runs the same parts with
tiny models.

A chunk is 384 words for GLiNER; for the LLM 700 tokens of instruction that all share, 540 of text and 185 of answer.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from threading import Timer
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.gpu_sides import ANSWER, Gliner, Llm, Row
from benchmarks.parts.sides import Child, Side, machine, serve

GLINER_CEILINGS = {"small": 2700.0, "medium": 1600.0, "large": 570.0}
"""Chunks/s that an H200 can compute with plain attention; the bar is 0.6 of it. Arithmetic from FLOPs and traffic."""
BESIDE_ROUNDS = 3
"""Rounds that GLiNER is given beside the LLM, so that it does not end first; the first of them is its figure."""
LLM_CEILINGS = {"auto": 85.0, "fp8": 170.0}
"""Chunks/s of Qwen3-4B on an H200 with a shared prefix: weights and KV cache read once a step at 4.8 TB/s."""


class Bench:
    """The parts, and where their results go."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._cpu = arguments.device == "cpu"
        self._quick = arguments.quick
        self.results: Row = {"benchmark": "gpu", "machine": machine(), "gpu": gpu_name(), "rows": [], "left_out": {}}

    def run(self) -> None:
        """Run the parts that were asked for, each until its deadline, within the time for all."""
        ends = time.monotonic() + self._arguments.total_s
        needs = {"scorer": ("polars",), "gliner": ("gliner",), "llm": ("vllm",), "llm-fp8": ("vllm",)}
        for name in self._arguments.parts:
            missing = [it for it in needs[name] if find_spec(it) is None]
            seconds = min(DEADLINES_S[name], ends - time.monotonic())
            if missing or seconds < 10:
                self.results["left_out"][name] = f"not installed: {', '.join(missing)}" if missing else "no time left"
            else:
                until = time.monotonic() + seconds
                try:
                    with ExitStack() as end:
                        PARTS[name](self, end, until)
                except (SystemExit, AssertionError, OSError, ValueError) as error:
                    # A child that is killed breaks off in the middle of whatever was said.
                    late = f"stopped after {seconds:.0f} s" if time.monotonic() >= until else None
                    self.results["left_out"][name] = late or str(error)[-1500:]
            if name in self.results["left_out"]:
                print(f"{name}: left out: {self.results['left_out'][name]}", flush=True)
            self._save()

    def scorer(self, end: ExitStack, until: float) -> None:
        """The scorer's own benchmark."""
        del end
        rows = ["--quick"] if self._quick else ["--rows", "5e6"]
        script = [sys.executable, str(Path(__file__).parent / "scorer.py"), *rows]
        try:
            done = subprocess.run(script, check=False, capture_output=True, text=True, timeout=until - time.monotonic())
        except subprocess.TimeoutExpired:
            raise SystemExit("past its deadline") from None
        if done.returncode:
            raise SystemExit(done.stderr[-1500:])
        for it in json.loads(done.stdout.splitlines()[-1])["results"]:
            self._add({"part": "scorer", **it}, "rows_per_s", None)

    def gliner(self, end: ExitStack, until: float) -> None:
        """Batch sizes in one process, then more processes, then the other sizes of model with the best of both."""
        batches, most = ([4096, 16384], 2) if self._cpu else ([8192, 32_768, 131_072], 3)
        first, *others = ["tiny"] if self._cpu else ["medium", "large", "small"]
        with ExitStack() as mine:
            children = self._gliners(mine, until, first, most)
            rates = {it: self._gliner_row(children[:1], first, it) for it in batches}
            best = max(rates, key=lambda it: rates[it])
            by_count = {it: self._gliner_row(children[:it], first, best) for it in range(2, most + 1)}
            by_count[1] = rates[best]
        count = max(by_count, key=lambda it: by_count[it])
        for size in others:
            self._gliner_row(self._gliners(end, until, size, count), size, best)

    def llm(self, end: ExitStack, until: float, kv: str = "auto") -> None:
        """How many at once, with and without a grammar; then the most of them beside two GLiNER processes."""
        size, sweep = ("tiny", [4, 8]) if self._cpu else ("4b", [64, 256, 512])
        child = self._child(end, until, "llm", size=size, kv=kv, most=sweep[-1])
        child.started()
        rates = {}
        for number in sweep if kv == "auto" else sweep[-2:]:
            for grammar in (False, True):
                found = child.measure(-number if grammar else number)
                rates[number, grammar] = self._llm_row(found, kv, number, grammar, None)
        number = max(sweep[-2:], key=lambda it: rates[it, True])
        if kv != "auto":
            return
        gliner, batch_tokens = ("tiny", 4096) if self._cpu else ("medium", 32_768)
        # As much memory as kgscale gives them there.
        children = self._gliners(end, until, gliner, 2, share=0.1)
        for it in children:
            it.measure(-batch_tokens)
        for it in children * BESIDE_ROUNDS:
            it.ask(batch_tokens)
        found = child.measure(-number)
        self._llm_row(found, kv, number, True, "two GLiNER processes")
        self._gliner_done(children, gliner, batch_tokens, "the LLM")
        llm_s, gliner_s = found["seconds"], self.results["rows"][-1]["seconds"]
        if not gliner_s <= llm_s <= gliner_s * BESIDE_ROUNDS:
            print(f"not side by side all the time: the LLM took {llm_s:.1f} s, a round of GLiNER {gliner_s:.1f} s")

    def _gliners(self, end: ExitStack, until: float, size: str, count: int, share: float = 0.25) -> list[Child]:
        """Processes that are ready, each with a share of the GPU's memory."""
        chunks = 32 if self._cpu else {"large": 1500}.get(size, 3000)
        # One after the other: the first makes the model.
        children = []
        for _ in range(count):
            children.append(self._child(end, until, "gliner", size=size, chunks=chunks, share=share))
            children[0].started()
        for it in children:
            it.started()
        return children

    def _gliner_row(self, children: list[Child], size: str, batch_tokens: int, beside: str | None = None) -> float:
        """Chunks/s of some processes at once."""
        for it in children:
            it.measure(-batch_tokens)
        for it in children:
            it.ask(batch_tokens)
        return self._gliner_done(children, size, batch_tokens, beside)

    def _gliner_done(self, children: list[Child], size: str, batch_tokens: int, beside: str | None) -> float:
        found = [it.answer() for it in children]
        seconds = float(max(it["seconds"] for it in found))
        rate = float(sum(it["chunks"] for it in found) / seconds)
        row = {"part": "gliner", "size": size, "batch_tokens": batch_tokens, "processes": len(children)}
        told = {"beside": beside, "seconds": seconds, "chunks_per_s": rate}
        self._add({**row, **told}, "chunks_per_s", GLINER_CEILINGS.get(size))
        return rate

    def _llm_row(self, found: Row, kv: str, at_once: int, grammar: bool, beside: str | None) -> float:
        row = {"part": "llm", "kv": kv, "at_once": at_once, "grammar": grammar, "beside": beside}
        row["seconds"] = float(found["seconds"])
        rate = float(found["tokens"] / found["seconds"])
        per_chunk = rate / ANSWER
        self._add({**row, "tokens_per_s": rate, "chunks_per_s": per_chunk}, "chunks_per_s", LLM_CEILINGS[kv])
        return rate

    def _child(self, end: ExitStack, until: float, kind: str, **values: Any) -> Child:
        given = {"device": self._arguments.device, "models": self._arguments.models, **values}
        options = [str(it) for key, value in given.items() for it in (f"--{key.replace('_', '-')}", value)]
        child = end.enter_context(Child(__file__, ["--child", kind, *options], self._environ()))
        end.enter_context(_deadline(child, until))
        return child

    def _environ(self) -> dict[str, str]:
        extra = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "VLLM_LOGGING_LEVEL": "WARNING"}
        # No network is asked for, and no kernel compiled that greedy decoding does not use.
        extra |= {"VLLM_NO_USAGE_STATS": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
        if self._cpu:
            extra |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
            extra |= {"VLLM_CPU_NUM_OF_RESERVED_CPU": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        return {**os.environ, **extra}

    def _add(self, row: Row, value: str, ceiling: float | None) -> None:
        """Note and print a row, and the share of the ceiling where the machine is the one that it was computed for."""
        if ceiling is not None and "H200" in (self.results["gpu"] or ""):
            row |= {"ceiling": ceiling, "share": row[value] / ceiling}
        self.results["rows"].append(row)
        rest = "  ".join(f"{key} {it:,.3g}" if isinstance(it, float) else f"{key} {it}" for key, it in row.items())
        print(rest, flush=True)
        self._save()

    def _save(self) -> None:
        path = Path(self._arguments.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.results, indent=1) + "\n")


@contextmanager
def _deadline(child: Child, until: float) -> Iterator[None]:
    """Kill a child that goes on too long; whoever waits for its answer gets `SystemExit`."""
    timer = Timer(max(0.0, until - time.monotonic()), child.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def gpu_name() -> str | None:
    """What the GPU calls itself; null where there is none."""
    import torch

    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if gpu_name() else "cpu")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--out", default=str(Path(gettempdir()) / "kgscale-gpu.json"))
    parser.add_argument("--models", default=str(Path(gettempdir()) / "kgscale-random-models"))
    parser.add_argument("--total-s", type=float, default=460.0, help="time for everything")
    parser.add_argument("--quick", action="store_true", help="without the FP8 cache, which needs another engine")
    parser.add_argument("--child", choices=["gliner", "llm"], help=argparse.SUPPRESS)
    for name in ("--chunks", "--most"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--share", type=float, help=argparse.SUPPRESS)
    for name in ("--size", "--kv"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        sides: dict[str, Callable[[argparse.Namespace], Side]] = {"gliner": Gliner, "llm": Llm}
        serve(partial(sides[arguments.child], arguments))
        return
    if arguments.quick and "llm-fp8" in arguments.parts:
        arguments.parts.remove("llm-fp8")
    print(machine())
    print(f"GPU: {gpu_name()}")
    print(f"ceilings on an H200, chunks/s: GLiNER {GLINER_CEILINGS}, Qwen3-4B by KV cache {LLM_CEILINGS}", flush=True)
    bench = Bench(arguments)
    bench.run()
    print(f"written to {arguments.out}")
    print(json.dumps(bench.results))


Part = Callable[[Bench, ExitStack, float], None]
PARTS: dict[str, Part] = {
    "gliner": Bench.gliner,
    "llm": Bench.llm,
    "llm-fp8": partial(Bench.llm, kv="fp8"),
    "scorer": Bench.scorer,
}
DEADLINES_S = {"gliner": 150.0, "llm": 200.0, "llm-fp8": 120.0, "scorer": 60.0}

if __name__ == "__main__":
    main()

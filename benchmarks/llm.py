"""The LLM as kgscale runs it, beside vLLM's own `LLM.generate` on the very same prompts: `python benchmarks/llm.py`.

Each engine runs in a process of its own, with the same settings, sampling and token ids; starting it and one warm-up
prompt are not counted. They take turns. `LLM.generate` gets all prompts of a round at once, tokenised before the clock
runs, and its answers stay tokens: the ceiling. kgscale's worker reads the same chunks shard by shard, tokenises, and
parses, grounds and commits the answers. Each round begins its texts with its own number, so that no cache but that of
the instruction helps.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.common import (
    DEMO,
    demo_config,
    read_chunks,
    worker_environment,
    write_corpus,
)
from benchmarks.parts.sides import Child, machine, serve
from kgscale.config import Config, VllmEngine
from kgscale.extract.llm_vllm import VllmLlm
from kgscale.extract.opening import open_run, resolve
from kgscale.extract.placement import Node, Placement, place
from kgscale.extract.prompt import Task, prompt_book
from kgscale.extract.workers import LlmWorker, WorkerSpec
from kgscale.lock import driver_lock
from kgscale.records import Chunk
from kgscale.shards import Shard
from kgscale.store import Store


@dataclass(frozen=True)
class Result:
    model: str
    threads: int
    chunks: int
    output_tokens: int
    """In one round."""
    ceiling_chunks_per_s: float
    kgscale_chunks_per_s: float
    ratio: float
    """kgscale's chunks/s over `LLM.generate`'s, median of the pairs."""
    ratios: list[float]
    same_tokens: bool


def main() -> None:
    arguments = parsed()
    if arguments.child:
        serve(partial(SIDES[arguments.child], arguments))
        return
    print(machine())
    engine = engine_of(arguments)
    environ = worker_environment(engine, arguments.threads)
    given = sys.argv[1:]
    with (
        Child(__file__, [*given, "--child", "generate"], environ) as raw,
        Child(__file__, [*given, "--child", "kgscale"], environ) as ours,
    ):
        starts = raw.started()["start_s"], ours.started()["start_s"]
        pairs = []
        for number in range(arguments.pairs):
            order = (raw, ours) if number % 2 == 0 else (ours, raw)
            found = {side: side.measure(number) for side in order}
            pairs.append((found[raw], found[ours]))
            print(f"pair {number + 1}: {found[raw]['seconds']:.1f} s and {found[ours]['seconds']:.1f} s", flush=True)
        show(arguments, pairs, {"LLM.generate": (starts[0], raw), "kgscale": (starts[1], ours)})


def show(
    arguments: argparse.Namespace,
    pairs: list[tuple[dict[str, Any], dict[str, Any]]],
    sides: dict[str, tuple[float, Child]],
) -> None:
    ceiling, seconds = (statistics.median(it["seconds"] for it in side) for side in zip(*pairs, strict=True))
    ratios = [a["seconds"] / b["seconds"] for a, b in pairs]
    result = Result(
        arguments.model,
        arguments.threads,
        pairs[0][0]["chunks"],
        pairs[0][0]["tokens"],
        pairs[0][0]["chunks"] / ceiling,
        pairs[0][0]["chunks"] / seconds,
        statistics.median(ratios),
        ratios,
        all(a["tokens"] == b["tokens"] for a, b in pairs),
    )
    print(
        f"{result.model}: {result.chunks} chunks, {result.output_tokens:,} tokens of answers, {result.threads} threads"
    )
    print(f"{'':12} {'chunks/s':>9} {'tokens/s':>9} {'start':>7} {'peak memory':>12}")
    rates = (result.ceiling_chunks_per_s, result.kgscale_chunks_per_s)
    for rate, (name, (start, child)) in zip(rates, sides.items(), strict=True):
        tokens = rate * result.output_tokens / result.chunks
        print(f"{name:12} {rate:>9.2f} {tokens:>9.0f} {start:>5.0f} s {child.memory.peak_gib:>8.1f} GiB")
    same = "the same" if result.same_tokens else "another"
    print(f"{result.ratio:.3f} of the ceiling (median of {arguments.pairs} pairs); {same} number of tokens")
    print(json.dumps({"benchmark": "llm", **asdict(result)}))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="?", default=DEMO, type=Path)
    parser.add_argument("--model", default=VllmEngine().model)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--chunks", type=int, default=96, help="in one round")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of each engine; by default those that kgscale gives it")
    parser.add_argument("--quick", action="store_true", help="32 chunks of at most 32 tokens of answer, one pair")
    parser.add_argument("--child", choices=list(SIDES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.threads = arguments.threads or placed(engine_of(arguments)).of("llm")[0].threads
    if arguments.quick:
        arguments.chunks, arguments.max_tokens, arguments.pairs = 32, 32, 1
    return arguments


def engine_of(arguments: argparse.Namespace) -> VllmEngine:
    return VllmEngine(model=arguments.model, max_tokens=arguments.max_tokens)


def placed(engine: VllmEngine) -> Placement:
    """Where kgscale seats the engine on this machine."""
    return place(config_of(engine, "-", "-"), ["llm"], [Node(os.cpu_count() or 1)])


def config_of(engine: VllmEngine, run: str, corpus: str) -> Config:
    """One method that asks the engine for everything."""
    values: dict[str, Any] = {
        "run": run,
        "corpus": {"path": corpus},
        "schema": demo_config().schema_.model_dump(),
        "engines": {"llm": engine},
        "methods": {"llm": {"entities": "llm", "relations": "llm"}},
    }
    return Config.model_validate(values)


def rounds(arguments: argparse.Namespace) -> list[list[Chunk]]:
    """The chunks of each round: the same texts, each behind the number of its round."""
    chunks = read_chunks(arguments.documents, arguments.chunks)
    return [
        [replace(it, chunk_id=f"{number}-{it.chunk_id}", text=f"({number}) {it.text}") for it in chunks]
        for number in range(arguments.pairs)
    ]


class Generate:
    """All prompts of a round in one call of `LLM.generate`."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from vllm import LLM

        engine = engine_of(arguments)
        book = prompt_book(demo_config().schema_, engine, Task.BOTH)
        like = VllmLlm(engine, gpu_share=None, seed=0)
        # Statistics are what kgscale's rows need; `LLM` alone goes without.
        self._llm = LLM(**{**like.settings([book]), "disable_log_stats": True})
        self._sampling = like.sampling(book, engine.max_tokens)
        warm = like.tokens(book, book.ask("Nothing is said here."))
        self._llm.generate([{"prompt_token_ids": warm}], like.sampling(book, 8), use_tqdm=False)
        self._rounds = [
            [
                {"prompt_token_ids": like.tokens(book, book.ask(piece))}
                for it in chunks
                for piece in like.pieces(it.text, book)
            ]
            for chunks in rounds(arguments)
        ]
        self._chunks = arguments.chunks

    def measure(self, number: int) -> dict[str, Any]:
        started = time.perf_counter()
        found = self._llm.generate(self._rounds[number], self._sampling, use_tqdm=False)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "chunks": self._chunks, "tokens": sum(len(it.outputs[0].token_ids) for it in found)}

    def close(self) -> None:
        """The engine ends with the process."""


class Kgscale:
    """The worker of a run, without Ray around it: shards in, committed files out."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._end = ExitStack()
        folder = Path(self._end.enter_context(TemporaryDirectory()))
        chunks = [it for chunks in rounds(arguments) for it in chunks]
        write_corpus(chunks, folder / "corpus.jsonl")
        config = resolve(config_of(engine_of(arguments), str(folder / "run"), str(folder / "corpus.jsonl")))
        token = self._end.enter_context(driver_lock(Store(config.run), "benchmark"))
        self._planned = open_run(config, lambda _: None).planned
        self._worker = LlmWorker(WorkerSpec(config.run, "llm", token, arguments.threads))
        # As the drive loop does it: shards until the engine is full.
        shard_rows = self._planned[0][1] - self._planned[0][0]
        fill = placed(engine_of(arguments)).pools[0].at_once // shard_rows + 1
        self._inflight = max(config.cluster.inflight, fill)
        self._runner = self._end.enter_context(asyncio.Runner())
        self._runner.run(self._worker.start())
        self._chunks = len(chunks) // arguments.pairs

    def measure(self, number: int) -> dict[str, Any]:
        return self._runner.run(self._measure(number))

    async def _measure(self, number: int) -> dict[str, Any]:
        first, last = number * self._chunks, (number + 1) * self._chunks
        # A shard that two rounds share is cut in two.
        shards = [
            Shard("llm", max(start, first), min(stop, last))
            for start, stop in self._planned
            if start < last and stop > first
        ]
        slots = asyncio.Semaphore(self._inflight)

        async def run(shard: Shard) -> int:
            async with slots:
                return (await self._worker.run(shard, 1)).output_tokens

        started = time.perf_counter()
        tokens = sum(await asyncio.gather(*map(run, shards)))
        return {"seconds": time.perf_counter() - started, "chunks": self._chunks, "tokens": tokens}

    def close(self) -> None:
        self._end.close()


SIDES: dict[str, type[Generate] | type[Kgscale]] = {"generate": Generate, "kgscale": Kgscale}

if __name__ == "__main__":
    main()

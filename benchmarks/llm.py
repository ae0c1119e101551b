"""The LLM as kgscale runs it, beside vLLM's own `LLM.generate` on the very same prompts: `python benchmarks/llm.py`.

Each engine runs in a process of its own, with the same settings, sampling and token ids; starting it and one warm-up
prompt are not counted. `LLM.generate` gets all prompts at once, which is the most that vLLM can be given: the ceiling.
kgscale extracts the same chunks shard by shard, two shards in flight, and parses, grounds and writes down the answers.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from kgscale.config import Config, CorpusConfig, VllmEngine
from kgscale.corpus.notices import Faults, Notices
from kgscale.corpus.prepare import chunks_of, read_corpus
from kgscale.extract.llm_extract import LlmExtractor
from kgscale.extract.llm_vllm import VllmLlm
from kgscale.extract.methods import Step
from kgscale.extract.prompt import PromptBook, Task, prompt_book
from kgscale.records import Chunk

JOBS = Path(__file__).resolve().parent.parent / "jobs"
SHARD, IN_FLIGHT = 32, 2


@dataclass(frozen=True)
class Result:
    model: str
    chunks: int
    output_tokens: int
    ceiling_chunks_per_s: float
    kgscale_chunks_per_s: float
    ratio: float
    """kgscale's chunks/s over `LLM.generate`'s, median of the pairs."""
    same_tokens: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="?", default=JOBS / "demo" / "corpus.jsonl", type=Path)
    parser.add_argument("--model", default=VllmEngine().model)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--chunks", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="48 chunks of at most 48 tokens of answer")
    parser.add_argument("--child", choices=list(CHILDREN), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.chunks, arguments.max_tokens = 48, 48
    if arguments.child:
        work = Work.of(arguments)
        print(json.dumps(CHILDREN[arguments.child](work)))
        return
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    pairs = [(in_child("generate", arguments), in_child("kgscale", arguments)) for _ in range(arguments.pairs)]
    ceiling, ours = (statistics.median(it["seconds"] for it in side) for side in zip(*pairs, strict=True))
    raw, done = pairs[0]
    result = Result(
        arguments.model,
        raw["chunks"],
        raw["tokens"],
        raw["chunks"] / ceiling,
        raw["chunks"] / ours,
        statistics.median(a["seconds"] / b["seconds"] for a, b in pairs),
        raw["tokens"] == done["tokens"],
    )
    print(f"{result.model}: {result.chunks} chunks, {result.output_tokens:,} tokens of answers on {raw['device']}")
    print(f"LLM.generate {result.ceiling_chunks_per_s:8.2f} chunks/s  (started in {raw['start_s']:.0f} s)")
    print(f"kgscale      {result.kgscale_chunks_per_s:8.2f} chunks/s  (started in {done['start_s']:.0f} s)")
    same = "the same" if result.same_tokens else "another"
    print(f"{result.ratio:.3f} of the ceiling (median of {arguments.pairs}); {same} number of tokens")
    print(json.dumps({"benchmark": "llm", **asdict(result)}))


@dataclass(frozen=True)
class Work:
    """The same for both: an engine that is not started, and what it is asked."""

    llm: VllmLlm
    book: PromptBook
    chunks: Sequence[Chunk]
    max_tokens: int

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "Work":
        engine = VllmEngine(model=arguments.model, max_tokens=arguments.max_tokens)
        schema = Config.model_validate(yaml.safe_load((JOBS / "demo.yaml").read_text())).schema_
        config = CorpusConfig(path=str(arguments.documents))
        chunks = list(
            islice(chunks_of(read_corpus(arguments.documents, Faults(), Notices()), config), arguments.chunks)
        )
        book = prompt_book(schema, engine, Task.BOTH)
        return cls(VllmLlm(engine, gpu_share=None, seed=0), book, chunks, arguments.max_tokens)


def generate(work: Work) -> dict[str, Any]:
    """All prompts in one call."""
    begun = time.perf_counter()
    from vllm import LLM

    llm = LLM(**work.llm.settings([work.book]))
    sampling = work.llm.sampling(work.book, work.max_tokens)
    warm = work.llm.tokens(work.book, work.book.ask("Nothing is said here."))
    llm.generate([{"prompt_token_ids": warm}], work.llm.sampling(work.book, 8), use_tqdm=False)
    prompts = [
        {"prompt_token_ids": work.llm.tokens(work.book, work.book.ask(piece))}
        for chunk in work.chunks
        for piece in work.llm.pieces(chunk.text, work.book)
    ]
    started = time.perf_counter()
    found = llm.generate(prompts, sampling, use_tqdm=False)
    seconds = time.perf_counter() - started
    return told(work, begun, started, seconds, sum(len(it.outputs[0].token_ids) for it in found))


def kgscale(work: Work) -> dict[str, Any]:
    """Shard by shard, as a worker does it."""
    return asyncio.run(_kgscale(work))


async def _kgscale(work: Work) -> dict[str, Any]:
    begun = time.perf_counter()
    await work.llm.start([work.book])
    extractor = LlmExtractor(work.llm, {Task.BOTH: work.book}, keep_raw=False)
    step, slots = Step("llm", "llm", Task.BOTH), asyncio.Semaphore(IN_FLIGHT)

    async def shard(chunks: Sequence[Chunk]) -> int:
        async with slots:
            rows = await asyncio.gather(*(extractor.extract(step, it, None) for it in chunks))
        return sum(it.output_tokens or 0 for it in rows)

    started = time.perf_counter()
    shards = [work.chunks[at : at + SHARD] for at in range(0, len(work.chunks), SHARD)]
    tokens = sum(await asyncio.gather(*map(shard, shards)))
    seconds = time.perf_counter() - started
    await work.llm.stop()
    return told(work, begun, started, seconds, tokens)


def told(work: Work, begun: float, started: float, seconds: float, tokens: int) -> dict[str, Any]:
    return {
        "chunks": len(work.chunks),
        "start_s": started - begun,
        "seconds": seconds,
        "tokens": tokens,
        "device": work.llm.device,
    }


def in_child(what: str, arguments: argparse.Namespace) -> dict[str, Any]:
    options = {
        "--model": arguments.model,
        "--max-tokens": arguments.max_tokens,
        "--chunks": arguments.chunks,
        "--child": what,
    }
    given = [str(it) for pair in options.items() for it in pair]
    command = [sys.executable, __file__, str(arguments.documents), *given]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{what} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


CHILDREN = {"generate": generate, "kgscale": kgscale}

if __name__ == "__main__":
    main()

"""What runs inside an actor: one engine that turns shards into committed files."""

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from kgscale.config import GlinerEngine
from kgscale.errors import KgscaleError, WorkError
from kgscale.extract.ends import Ends
from kgscale.extract.family import leave_none_behind
from kgscale.extract.llm import EngineBrokenError, make_llm
from kgscale.extract.llm_extract import LlmExtractor
from kgscale.extract.methods import plan_steps
from kgscale.extract.prompt import Task, prompt_book
from kgscale.records import Chunk, Extraction, Status
from kgscale.retries import BAD, current_rows
from kgscale.runs import Run
from kgscale.shards import Shard
from kgscale.store import patiently

LOG_TAIL_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker needs to know; small enough to travel with each start."""

    run: str
    engine: str
    token: str
    """The driver's token: a worker that outlived its driver may not commit."""
    threads: int | None = None
    gpu_share: float | None = None
    """Share of a GPU's memory that the worker may take; null on a CPU."""
    retry: bool = False
    """Whether shards are there already, and only their failed and dead rows are to be done anew."""
    own_process: bool = False
    """Whether the worker has its process to itself, and what it starts is to end with it."""


@dataclass(frozen=True, slots=True)
class ShardResult:
    """What a committed shard amounted to: what the driver tells of it, and only a worker knows."""

    statuses: dict[str, int] = field(default_factory=dict)
    output_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    """Those of the prompt tokens that the engine had in its cache; null where it does not tell."""
    engine_ms: float = 0.0
    """How long the shard kept the engine busy; the shards of an engine add up to the time in which it was busy."""
    service_ms: tuple[float, ...] = ()
    """The service time of each chunk."""


class GlinerWorker:
    """Runs the steps of one GLiNER engine; one model, one thread."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._run = Run(spec.run)
        self._steps = {name: it for name, it in plan_steps(self._run.config).items() if it.engine == spec.engine}

    def start(self) -> str:
        """Load the model; returns the device it runs on."""
        from kgscale.extract.gliner import GlinerModel

        schema = self._run.config.schema_
        engine = self._run.config.engines[self._spec.engine]
        assert isinstance(engine, GlinerEngine)
        if self._spec.gpu_share is not None:
            import torch

            torch.cuda.set_per_process_memory_fraction(self._spec.gpu_share)
        types = list(schema.entity_types)
        self._models: dict[Task, GlinerModel] = {}
        for task in dict.fromkeys(it.task for it in self._steps.values()):
            relations = None if task is Task.ENTITIES else schema.relation_types
            first = next(iter(self._models.values()), None)
            self._models[task] = (
                first.asking(types, relations)
                if first
                else GlinerModel(engine, types, relations, threads=self._spec.threads)
            )
        return next(it.device for it in self._models.values())

    def ping(self) -> None:
        """Show that this worker lives."""

    def run(self, shard: Shard, attempt: int) -> ShardResult:
        """Extract and commit a shard."""
        chunks, kept = _to_do(self._run, shard, self._spec.retry)
        model = self._models[self._steps[shard.method].task]
        found = model.extract([chunk.text for chunk in chunks])
        rows = [
            Extraction(
                chunk.chunk_id,
                chunk.row,
                chunk.doc_id,
                shard.method,
                Status.FAILED if it.error else Status.OK,
                error=it.error,
                entities=[] if it.error else it.entities,
                relations=[] if it.error else it.relations,
                entities_by=self._spec.engine,
                windows=it.windows,
                queue_ms=0.0,
                service_ms=it.batch_ms,
                batch_ms=it.batch_ms,
                batch_size=it.batch_size,
                device=model.device,
            )
            for chunk, it in zip(chunks, found, strict=True)
        ]
        return _commit(self._run, shard, kept, rows, attempt, self._spec)


class LlmWorker:
    """Runs the steps of one LLM engine; all its shards share the engine, so that none waits for another's tail."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._run = Run(spec.run)
        self._steps = {name: it for name, it in plan_steps(self._run.config).items() if it.engine == spec.engine}

    async def start(self) -> str:
        """Load the model and warm it up; returns the device it runs on."""
        if self._spec.own_process:
            leave_none_behind()
        config = self._run.config
        engine = config.engines[self._spec.engine]
        assert not isinstance(engine, GlinerEngine)
        tasks = dict.fromkeys(task for step in self._steps.values() for task in step.tasks)
        books = {task: prompt_book(config.schema_, engine, task) for task in tasks}
        self._llm = make_llm(engine, gpu_share=self._spec.gpu_share, seed=config.seed)
        try:
            await self._llm.start(list(books.values()))
        except KgscaleError:
            raise
        except Exception as error:
            raise WorkError(_root_cause(error)) from error
        self._extractor = LlmExtractor(self._llm, books, config.keep_raw)
        return self._llm.device

    async def ping(self) -> None:
        """Show that this worker lives."""

    async def run(self, shard: Shard, attempt: int) -> ShardResult:
        """Extract and commit a shard; a dead engine takes the process with it, so that the driver replaces both."""
        step = self._steps[shard.method]
        chunks, kept, given = await asyncio.to_thread(self._read, shard, step.upstream)
        try:
            rows = await asyncio.gather(
                *(self._extractor.extract(step, chunk, it) for chunk, it in zip(chunks, given, strict=True))
            )
        except EngineBrokenError:
            os._exit(1)
        return await asyncio.to_thread(_commit, self._run, shard, kept, rows, attempt, self._spec, given)

    def _read(
        self, shard: Shard, upstream: str | None
    ) -> tuple[list[Chunk], list[Extraction], Sequence[Extraction | None]]:
        chunks, kept = _to_do(self._run, shard, self._spec.retry)
        if upstream is None or not chunks:
            return chunks, kept, [None] * len(chunks)
        source = Shard(upstream, shard.start, shard.stop)
        read = partial(current_rows if self._spec.retry else Run.read_rows, self._run, source)
        given = {row.row: row for row in patiently(read)}
        return chunks, kept, [given[chunk.row] for chunk in chunks]


def _to_do(run: Run, shard: Shard, retry: bool) -> tuple[list[Chunk], list[Extraction]]:
    """The chunks of a shard that are to be done, and the rows that are kept: the good ones of a shard tried again."""
    chunks = patiently(partial(run.read_chunks, shard.start, shard.stop))
    if not retry:
        return chunks, []
    kept = [row for row in patiently(partial(current_rows, run, shard)) if row.status not in BAD]
    good = {row.row for row in kept}
    return [chunk for chunk in chunks if chunk.row not in good], kept


def _commit(
    run: Run,
    shard: Shard,
    kept: Sequence[Extraction],
    rows: Sequence[Extraction],
    attempt: int,
    spec: WorkerSpec,
    given: Iterable[Extraction | None] = (),
) -> ShardResult:
    worker = f"{socket.gethostname()}:{os.getpid()}"
    ends = Ends.of(run.config.schema_)
    signed = [replace(ends.without_misfits(row), attempts=attempt, worker=worker) for row in rows]
    whole = sorted([*kept, *signed], key=lambda it: it.row)
    if not patiently(partial(run.commit, shard, whole, spec.token, retry=spec.retry)):
        raise WorkError("another driver has taken over this run", where=run.store.uri)
    cached = [row.cached_tokens for row in signed if row.cached_tokens is not None]
    return ShardResult(
        statuses=dict(Counter(str(row.status) for row in signed)),
        output_tokens=sum(row.output_tokens or 0 for row in signed),
        prompt_tokens=sum(row.prompt_tokens or 0 for row in signed),
        cached_tokens=sum(cached) if cached else None,
        # A row that builds on another engine's holds the cost of both.
        engine_ms=sum(max(0.0, _cost(row) - _cost(it)) for row, it in zip_longest(signed, given)),
        service_ms=tuple(row.service_ms for row in signed if row.service_ms is not None),
    )


def _cost(row: Extraction | None) -> float:
    """The amortised milliseconds of a row."""
    return (row.batch_ms or 0.0) / row.batch_size if row is not None and row.batch_size else 0.0


def _root_cause(error: Exception) -> str:
    """The engine's own message; vLLM tells it in the log of a child process, which ends up in this process's log."""
    message = f"{type(error).__name__}: {error}"
    if "root cause" not in message.lower():
        return message
    for stream in ("/proc/self/fd/2", "/proc/self/fd/1"):
        path = Path(stream).resolve()
        if path.is_file():
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
            causes = [line for line in lines if _is_error_line(line) and "root cause" not in line.lower()]
            if causes:
                return _without_prefix(causes[-1])
    return message


def _is_error_line(line: str) -> bool:
    head, colon, _ = _without_prefix(line).partition(": ")
    return bool(colon) and head.split(".")[-1].endswith(("Error", "Exception")) and " " not in head


def _without_prefix(line: str) -> str:
    """The message of a log line that may start with `(EngineCore pid=…) ERROR 11-29 12:00:00 [core.py:1] `."""
    return line.rsplit("] ", 1)[-1].strip() if "] " in line else line.split(") ", 1)[-1].strip()

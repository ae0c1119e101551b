"""Adds up what a drive tells, until it is over and its summary is asked for."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgscale.extract.forecast import Forecast
from kgscale.summary import DriveSummary, EngineUse, MethodSpeed


@dataclass
class _Method:
    chunks: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int | None = None
    begun_at: float | None = None
    ended_at: float = 0.0


@dataclass
class _Engine:
    start_s: float | None = None
    busy_ms: float = 0.0
    workers: int = 0
    """The most that were there at once."""
    ready_at: dict[int, float] = field(default_factory=dict)
    worker_s: float = 0.0
    """Of workers that are gone."""
    committed_at: float = 0.0


class Tally:
    """An observer of a drive."""

    def __init__(self, engine_of: Mapping[str, str], now: Callable[[], float] = time.monotonic) -> None:
        """`engine_of` names the engine of each method."""
        self._engine_of = engine_of
        self._now = now
        self._begun_at = now()
        self._methods = {method: _Method() for method in engine_of}
        self._engines = {engine: _Engine() for engine in engine_of.values()}
        self._count: Counter[str] = Counter()

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Add an event."""
        self._count[event] += 1
        match event:
            case "shard_started":
                method = self._methods[fields["method"]]
                method.begun_at = self._now() if method.begun_at is None else method.begun_at
            case "shard_committed":
                self._committed(**fields)
            case "worker_ready":
                engine = self._engines[fields["engine"]]
                engine.start_s = max(engine.start_s or 0.0, fields["seconds"])
                engine.ready_at[fields["worker"]] = self._now()
                engine.workers = max(engine.workers, len(engine.ready_at))
            case "worker_died" | "worker_stopped":
                engine = self._engines[fields["engine"]]
                ready_at = engine.ready_at.pop(fields["worker"], None)
                if ready_at is not None:
                    # One that is stopped for want of work was done with the engine's last commit.
                    until = self._now() if event == "worker_died" else max(ready_at, engine.committed_at)
                    engine.worker_s += until - ready_at

    def _committed(self, method: str, start: int, stop: int, statuses: Mapping[str, int], **amounts: Any) -> None:
        it, engine = self._methods[method], self._engines[self._engine_of[method]]
        # Of a shard whose reply was lost nothing is known but that it is there.
        it.chunks += sum(statuses.values()) or stop - start
        it.prompt_tokens += amounts["prompt_tokens"]
        it.output_tokens += amounts["output_tokens"]
        if amounts["cached_tokens"] is not None:
            it.cached_tokens = (it.cached_tokens or 0) + amounts["cached_tokens"]
        engine.busy_ms += amounts["engine_ms"]
        it.ended_at = engine.committed_at = self._now()

    def summary(self, predicted: Forecast | None, gpus: int, gpu_hour_price: float | None) -> DriveSummary:
        """What it comes to by now; `predicted` is what was expected of the whole, `gpus` how many were booked."""
        took_s = self._now() - self._begun_at
        gpu_hours = gpus * took_s / 3600
        chunks = sum(it.chunks for it in self._methods.values())
        expected_s = predicted.wall_s if predicted is not None and predicted.wall_s > 0 else None
        return DriveSummary(
            took_s=took_s,
            predicted_s=expected_s,
            off=took_s / expected_s - 1 if expected_s is not None else None,
            gpu_hours=gpu_hours,
            gpu_hours_per_million_chunks=gpu_hours / chunks * 1e6 if gpus and chunks else None,
            cost=gpu_hours * gpu_hour_price if gpus and gpu_hour_price is not None else None,
            shards_retried=self._count["shard_retried"],
            workers_lost=self._count["worker_died"],
            methods=[self._speed(name, it) for name, it in self._methods.items() if it.chunks],
            engines=[self._use(name, it, predicted) for name, it in self._engines.items() if it.committed_at],
        )

    def _speed(self, name: str, it: _Method) -> MethodSpeed:
        seconds = it.ended_at - (self._begun_at if it.begun_at is None else it.begun_at)

        def rate(count: int) -> float | None:
            return count / seconds if count and seconds > 0 else None

        return MethodSpeed(
            method=name,
            engine=self._engine_of[name],
            chunks=it.chunks,
            seconds=seconds,
            chunks_per_s=rate(it.chunks),
            prompt_tokens_per_s=rate(it.prompt_tokens),
            output_tokens_per_s=rate(it.output_tokens),
            cached_share=it.cached_tokens / it.prompt_tokens
            if it.cached_tokens is not None and it.prompt_tokens
            else None,
        )

    def _use(self, name: str, it: _Engine, predicted: Forecast | None) -> EngineUse:
        worker_s = it.worker_s + sum(max(0.0, it.committed_at - ready_at) for ready_at in it.ready_at.values())
        known = predicted.engines.get(name) if predicted is not None else None
        return EngineUse(
            engine=name,
            workers=it.workers,
            start_s=it.start_s,
            worker_s=worker_s,
            busy_share=it.busy_ms / 1e3 / worker_s if it.busy_ms and worker_s > 0 else None,
            ceiling_share=known.engine_s / worker_s if known is not None and worker_s > 0 else None,
            ceiling=known.source if known is not None else None,
        )

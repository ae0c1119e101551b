"""What the last drive of a run amounted to, as its event log tells: speed, use of the engines, what was predicted."""

import json
from dataclasses import dataclass
from typing import Any

from kgscale.runs import EVENTS_FILE, Run

FINISHED = "drive_finished"
"""The event whose fields are those of `DriveSummary`."""


@dataclass(frozen=True, slots=True)
class MethodSpeed:
    """How fast one method went, from its first shard to its last commit; rates are per second."""

    method: str
    engine: str
    chunks: int
    seconds: float
    chunks_per_s: float | None
    prompt_tokens_per_s: float | None
    """Null for engines without prompts, or that do not count."""
    output_tokens_per_s: float | None
    cached_share: float | None
    """Share of the prompt tokens that came from the engine's cache; null where it does not tell."""


@dataclass(frozen=True, slots=True)
class EngineUse:
    """What one engine's workers did, from ready to their last commit."""

    engine: str
    workers: int
    start_s: float | None
    """The longest start of a worker; null where all were there before."""
    worker_s: float
    """Summed over the workers."""
    busy_share: float | None
    """Share of that in which a worker had work in its engine."""
    ceiling_share: float | None
    """Share of the speed that was known before (`ceiling`); null where none was."""
    ceiling: str | None


@dataclass(frozen=True, slots=True)
class DriveSummary:
    """One drive over what was left of a run; a chunk counts once for each method."""

    took_s: float
    predicted_s: float | None
    off: float | None
    """How much longer it took than was predicted, as a share of the prediction: 0.1 is a tenth more."""
    gpu_hours: float
    gpu_hours_per_million_chunks: float | None
    """Null without GPUs."""
    cost: float | None
    """At the configured price of a GPU-hour; null where there is none."""
    shards_retried: int
    workers_lost: int
    methods: list[MethodSpeed]
    engines: list[EngineUse]

    def __str__(self) -> str:
        return "\n".join([self._head(), *map(_method_line, self.methods), *map(_engine_line, self.engines)])

    def _head(self) -> str:
        parts = [f"took {duration(self.took_s)}"]
        if self.predicted_s is not None and self.off is not None:
            parts[0] += f", predicted {duration(self.predicted_s)} ({self.off:+.0%})"
        if self.gpu_hours_per_million_chunks is not None:
            per_million = f"{self.gpu_hours_per_million_chunks:,.2f} for a million chunks"
            cost = f", {self.cost:,.2f} at the configured price" if self.cost is not None else ""
            parts.append(f"{self.gpu_hours:,.2f} GPU-hours, {per_million}{cost}")
        if self.workers_lost or self.shards_retried:
            parts.append(f"{self.workers_lost} workers lost, {self.shards_retried} shards tried again")
        return "; ".join(parts)


def _method_line(it: MethodSpeed) -> str:
    parts = [f"{it.chunks:,} chunks in {duration(it.seconds)}"]
    if it.chunks_per_s is not None:
        parts.append(f"{_figure(it.chunks_per_s)} chunks/s")
    if it.prompt_tokens_per_s is not None:
        cached = f" ({it.cached_share:.0%} from the cache)" if it.cached_share is not None else ""
        parts.append(f"{_figure(it.prompt_tokens_per_s)} prompt tokens/s{cached}")
    if it.output_tokens_per_s is not None:
        parts.append(f"{_figure(it.output_tokens_per_s)} output tokens/s")
    return f"  {it.method:<16} {'; '.join(parts)}"


def _engine_line(it: EngineUse) -> str:
    parts = [f"{it.workers} worker{'s' if it.workers != 1 else ''}"]
    if it.start_s is not None:
        parts.append(f"ready after {it.start_s:.1f} s")
    if it.busy_share is not None:
        parts.append(f"busy {it.busy_share:.0%} of the time")
    if it.ceiling_share is not None:
        parts.append(f"{it.ceiling_share:.0%} of the known speed ({it.ceiling})")
    return f"  engine {it.engine:<9} {'; '.join(parts)}"


def _figure(value: float) -> str:
    """Three digits at least where they tell, none behind the point where they do not."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def last_summary(run: Run) -> DriveSummary | None:
    """The summary of the last drive that came to its end; null where there is none, or another version wrote it."""
    if not run.store.exists(EVENTS_FILE):
        return None
    for line in reversed(run.store.read(EVENTS_FILE).decode(errors="replace").splitlines()):
        if f'"{FINISHED}"' in line:
            try:
                return _summary_from(json.loads(line))
            except (ValueError, KeyError, TypeError):
                return None
    return None


def _summary_from(event: dict[str, Any]) -> DriveSummary:
    fields = {key: value for key, value in event.items() if key not in ("at", "event")}
    fields["methods"] = [MethodSpeed(**it) for it in fields["methods"]]
    fields["engines"] = [EngineUse(**it) for it in fields["engines"]]
    return DriveSummary(**fields)


def duration(seconds: float) -> str:
    """A time in words, to the second."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"

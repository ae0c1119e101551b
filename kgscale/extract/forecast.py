"""What a run will take: wall time, GPU hours and cost, from rates that were measured or published."""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from kgscale.config import Config, OpenAIEngine
from kgscale.extract.methods import Step
from kgscale.extract.placement import Placement
from kgscale.runs import EVENTS_FILE, Run
from kgscale.shards import Shard
from kgscale.summary import duration

FILES_READ = 50
"""Of an earlier run so many files of each method tell its rate."""
WORDS_PER_CHUNK = 300

PUBLISHED = {
    # Chunks of 300 words a second on one H200 in bf16, from a roofline: 45 % of its FLOPs, 75 % of its bandwidth.
    "Qwen/Qwen3-4B-Instruct-2507": 38.0,
    "urchade/gliner_small-v2.1": 2700.0,
    "urchade/gliner_medium-v2.1": 1600.0,
    "urchade/gliner_large-v2.1": 570.0,
}


@dataclass(frozen=True, slots=True)
class Rate:
    """What a method costs: seconds of one worker per 1,000 words, and where that is known from."""

    seconds_per_1000_words: float
    source: str


@dataclass(frozen=True, slots=True)
class EngineForecast:
    """What an engine has to do."""

    ready_s: float
    """From the begin of the drive until its workers take shards; with the engines that it waits for."""
    engine_s: float
    """Seconds for which the work keeps one worker's engine busy."""
    source: str
    """Where the rates are known from."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is left of a run on a given cluster; times in seconds, the cost in the currency of the configured price."""

    wall_s: float
    start_s: float
    """The part of it before the engine that ends last is ready."""
    gpu_hours: float
    cost: float | None
    engines: dict[str, EngineForecast]

    def __str__(self) -> str:
        start = f", of which {duration(self.start_s)} to start" if self.start_s else ""
        cost = f", {self.cost:,.2f} at the configured price" if self.cost is not None else ""
        hours = f"; {self.gpu_hours:,.2f} GPU-hours{cost}" if self.gpu_hours else ""
        sources = dict.fromkeys(it.source for it in self.engines.values())
        return f"about {duration(self.wall_s)}{start}{hours} ({'; '.join(sources)})"


def forecast(
    config: Config, steps: Mapping[str, Step], words_left: Mapping[str, float], placement: Placement, run: Run | None
) -> Forecast | None:
    """Predict what is left; null where some method has no known rate.

    Engines work side by side: the run takes as long as the one with the most to do. `run` is the run itself, whose own
    rows tell best; after it `cluster.rates_from`, then what is published.
    """
    before = [it for it in (run, _earlier(config)) if it is not None]
    rates: dict[str, Rate] = {}
    for name, step in steps.items():
        if not words_left.get(name):
            continue
        measured = (_measured(it, name, step) for it in before)
        rate = next((it for it in measured if it is not None), None) or _published(config, step, placement)
        if rate is None:
            return None
        rates[name] = rate
    engine_s: dict[str, float] = {}
    sources: dict[str, dict[str, None]] = {}
    for name, rate in rates.items():
        engine = steps[name].engine
        engine_s[engine] = engine_s.get(engine, 0.0) + words_left[name] / 1000 * rate.seconds_per_1000_words
        sources.setdefault(engine, {})[rate.source] = None
    ready_s = _ready_s(placement, engine_s, [_starts(it) for it in before])
    engines = {it: EngineForecast(ready_s[it], seconds, " and ".join(sources[it])) for it, seconds in engine_s.items()}
    ends = {name: it.ready_s + it.engine_s / max(1, len(placement.of(name))) for name, it in engines.items()}
    wall_s = max(ends.values(), default=0.0)
    gpu_hours = placement.gpus * wall_s / 3600
    price = config.cluster.gpu_hour_price
    return Forecast(
        wall_s=wall_s,
        start_s=engines[max(ends, key=lambda it: ends[it])].ready_s if ends else 0.0,
        gpu_hours=gpu_hours,
        cost=None if price is None else price * gpu_hours,
        engines=engines,
    )


def _earlier(config: Config) -> Run | None:
    return None if config.cluster.rates_from is None else Run(config.cluster.rates_from)


def _measured(run: Run, method: str, step: Step) -> Rate | None:
    """The amortised cost of the chunks: `batch_ms / batch_size` adds up to the time in which a worker was busy."""
    if method not in run.methods:
        return None
    ms = _ms_and_words(run, method)
    if step.upstream is not None and step.upstream in run.methods:
        # The row of a method that builds on another's entities holds the sum over both engines.
        upstream = _ms_and_words(run, step.upstream)
        own = (ms[0] / ms[1] if ms[1] else 0.0) - (upstream[0] / upstream[1] if upstream[1] else 0.0)
        ms = (max(0.0, own) * ms[1], ms[1])
    if not ms[0] or not ms[1]:
        return None
    return Rate(ms[0] / ms[1], f"measured in {run.store.uri}")


def _ms_and_words(run: Run, method: str) -> tuple[float, float]:
    committed = run.committed(method)
    some = committed[:: max(1, len(committed) // FILES_READ)]
    total_ms = words = 0.0
    for start, stop in some:
        table = run.table(Shard(method, start, stop).file, ["batch_ms", "batch_size"])
        each = pc.sum(pc.divide(table["batch_ms"], table["batch_size"])).as_py()
        if each is not None:
            plan = run.plan_of(start)
            first, last = run.planned[plan]
            total_ms += each
            words += run.shard_words[plan] * (stop - start) / (last - first)
    return total_ms, words


def _published(config: Config, step: Step, placement: Placement) -> Rate | None:
    engine = config.engines[step.engine]
    if isinstance(engine, OpenAIEngine) or engine.model not in PUBLISHED or not placement.gpus:
        return None
    per_gpu = len(placement.of(step.engine)) / placement.gpus
    seconds = 1000 / WORDS_PER_CHUNK / PUBLISHED[engine.model] * per_gpu
    return Rate(seconds, f"an estimate for {engine.model} on an H200, not measured here")


def _ready_s(placement: Placement, wanted: Container[str], known: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """When the workers of each wanted engine are ready; one that was never seen starts in no time."""
    ready: dict[str, float] = {}
    for pool in placement.pools:
        if pool.engine in wanted:
            start = next((it[pool.engine] for it in known if pool.engine in it), 0.0)
            ready[pool.engine] = start + max((ready.get(it, 0.0) for it in pool.after), default=0.0)
    return ready


def _starts(run: Run) -> dict[str, float]:
    """The longest start of each engine's workers in the last drive that started one, as the run's log tells."""
    if not run.store.exists(EVENTS_FILE):
        return {}
    starts: dict[str, float] = {}
    now = set[str]()
    for line in run.store.read(EVENTS_FILE).decode(errors="replace").splitlines():
        if '"drive_started"' in line:
            now.clear()
        elif '"worker_ready"' in line:
            try:
                event = json.loads(line)
                engine, seconds = str(event["engine"]), float(event["seconds"])
            except (ValueError, KeyError, TypeError):
                continue
            starts[engine] = max(seconds, starts[engine]) if engine in now else seconds
            now.add(engine)
    return starts

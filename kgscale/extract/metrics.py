"""Numbers for Prometheus: an observer that hands the events of a drive to Ray, whose agents export them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

EXPORT_PREFIX = "ray_"
"""What Ray puts before each name; behind that of a counter it puts `_total`."""
COUNTERS = {
    "kgscale_chunks": ("Chunks committed; 'unknown' where the worker's reply was lost.", ("method", "status")),
    "kgscale_prompt_tokens": ("Tokens of prompts.", ("method",)),
    "kgscale_cached_tokens": ("Those of them that the engine had in its cache.", ("method",)),
    "kgscale_output_tokens": ("Tokens of answers.", ("method",)),
    "kgscale_engine_seconds": ("Time in which a worker had work in its engine.", ("engine", "method")),
    "kgscale_shards_retried": ("Shards that are tried again.", ("method",)),
    "kgscale_workers_lost": ("Workers that died.", ("engine",)),
}
GAUGES = {
    "kgscale_chunks_left": ("Chunks that are not committed yet.", ("method",)),
    "kgscale_shards_in_flight": ("Shards that wait or run in a worker.", ("method",)),
    "kgscale_workers": ("Workers that take shards.", ("engine",)),
    "kgscale_start_seconds": ("How long the last worker took to start.", ("engine",)),
}
HISTOGRAMS = {"kgscale_chunk_seconds": ("Service time of a chunk.", ("method",))}
BOUNDARIES_S = [0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 180.0]


def exported_names() -> set[str]:
    """The names under which Prometheus sees the metrics."""
    parts = ("bucket", "sum", "count")
    return {
        *(f"{EXPORT_PREFIX}{name}_total" for name in COUNTERS),
        *(f"{EXPORT_PREFIX}{name}" for name in GAUGES),
        *(f"{EXPORT_PREFIX}{name}_{part}" for name in HISTOGRAMS for part in parts),
    }


def metrics_address() -> str | None:
    """Where this process's node exports its metrics; null where Ray does not say."""
    import ray

    try:
        here = ray.get_runtime_context().get_node_id()
        node = next(it for it in ray.nodes() if it["NodeID"] == here)
        return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    except Exception:  # noqa: BLE001  # a convenience: without it the run goes on
        return None


class RayMetrics:
    """Counts what happens; whatever goes wrong with that is no matter of the run's, which goes on without it."""

    def __init__(self, engine_of: Mapping[str, str], left: Mapping[str, int]) -> None:
        """`engine_of` names the engine of each method, `left` says how many of its chunks are not committed."""
        self._engine_of = engine_of
        self._left = Counter(left)
        self._in_flight: dict[tuple[str, int, int], int] = {}
        self._ready: dict[int, str] = {}
        self._metrics: dict[str, Any] = {}
        try:
            from ray.util.metrics import Counter as RayCounter
            from ray.util.metrics import Gauge, Histogram

            for name, (meaning, tags) in COUNTERS.items():
                self._metrics[name] = RayCounter(name, meaning, tags)
            for name, (meaning, tags) in GAUGES.items():
                self._metrics[name] = Gauge(name, meaning, tags)
            for name, (meaning, tags) in HISTOGRAMS.items():
                self._metrics[name] = Histogram(name, meaning, BOUNDARIES_S, tags)
            self._show()
        except Exception:  # noqa: BLE001  # see the class
            self._metrics = {}

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Count an event."""
        if not self._metrics:
            return
        try:
            self._take(event, fields)
        except Exception:  # noqa: BLE001  # see the class
            self._metrics = {}

    def close(self) -> None:
        """Show that nobody works any more."""
        self._in_flight.clear()
        self._ready.clear()
        self("closed")

    def _take(self, event: str, fields: Mapping[str, Any]) -> None:
        match event:
            case "shard_started":
                self._in_flight[_key(fields)] = fields["worker"]
            case "shard_committed":
                self._in_flight.pop(_key(fields), None)
                self._committed(**fields)
            case "shard_retried":
                self._in_flight.pop(_key(fields), None)
                self._count("kgscale_shards_retried", 1, method=fields["method"])
            case "worker_ready":
                self._ready[fields["worker"]] = fields["engine"]
                self._set("kgscale_start_seconds", fields["seconds"], engine=fields["engine"])
            case "worker_died" | "worker_stopped":
                self._ready.pop(fields["worker"], None)
                # Those that a lost node had go back into the queue without a word.
                self._in_flight = {key: it for key, it in self._in_flight.items() if it != fields["worker"]}
                if event == "worker_died":
                    self._count("kgscale_workers_lost", 1, engine=fields["engine"])
        self._show()

    def _committed(self, method: str, start: int, stop: int, statuses: Mapping[str, int], **amounts: Any) -> None:
        for status, count in (statuses or {"unknown": stop - start}).items():
            self._count("kgscale_chunks", count, method=method, status=status)
        self._left[method] -= stop - start
        for name in ("prompt_tokens", "cached_tokens", "output_tokens"):
            self._count(f"kgscale_{name}", amounts[name], method=method)
        engine = self._engine_of[method]
        self._count("kgscale_engine_seconds", amounts["engine_ms"] / 1e3, engine=engine, method=method)
        latency, tags = self._metrics["kgscale_chunk_seconds"], {"method": method}
        for ms in amounts["service_ms"]:
            latency.observe(ms / 1e3, tags)

    def _show(self) -> None:
        in_flight = Counter(method for method, _, _ in self._in_flight)
        ready = Counter(self._ready.values())
        for method, engine in self._engine_of.items():
            self._set("kgscale_chunks_left", max(0, self._left[method]), method=method)
            self._set("kgscale_shards_in_flight", in_flight[method], method=method)
            self._set("kgscale_workers", ready[engine], engine=engine)

    def _count(self, name: str, amount: float | None, **tags: str) -> None:
        if amount:
            self._metrics[name].inc(amount, tags)

    def _set(self, name: str, value: float, **tags: str) -> None:
        self._metrics[name].set(value, tags)


def _key(fields: Mapping[str, Any]) -> tuple[str, int, int]:
    return fields["method"], fields["start"], fields["stop"]

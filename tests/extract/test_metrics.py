"""What Prometheus is told of a run equals its rows, on a real Ray; and nothing that goes wrong there ends a run."""

import json
import re
import sys
import time
import urllib.request
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from kgscale.extract.metrics import (
    BOUNDARIES_S,
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    RayMetrics,
    exported_names,
    metrics_address,
)
from kgscale.extract.prompt import Task
from kgscale.shards import Shard
from kgscale.summary import FINISHED
from tests.extract.test_on_ray import ONLY_GLINER, FakeModel, FakeWorker, drive
from tests.making import make_run

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "docs" / "examples" / "grafana.json"
EVENT = {"prompt_tokens": 0, "cached_tokens": None, "output_tokens": 0, "engine_ms": 0.0, "service_ms": ()}


class TimedModel(FakeModel):
    """Says how long a chunk took, of which half was its own."""

    def extract(self, texts):
        return [replace(it, batch_ms=800.0, own_ms=400.0) for it in super().extract(texts)]


class TimedWorker(FakeWorker):
    def start(self):
        self._models = dict.fromkeys(Task, TimedModel())
        return TimedModel.device


@pytest.fixture
def ray():
    """A local Ray whose metrics leave every half second; only the model is fake."""
    import ray
    from ray import cloudpickle

    from tests.extract import test_on_ray

    for module in (test_on_ray, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(module)
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _system_config={"metrics_report_interval_ms": 500},
    )
    yield ray
    ray.shutdown()


def scraped():
    """Every sample of kgscale's that the node exports, as {name: {tags: value}}."""
    with urllib.request.urlopen(metrics_address(), timeout=10) as answer:
        text = answer.read().decode()
    found = defaultdict(dict)
    for name, labels, value in re.findall(r"^(ray_kgscale_\w+)\{(.*)\} (\S+)$", text, flags=re.MULTILINE):
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        key = tuple(pairs[it] for it in ("engine", "method", "status", "le") if it in pairs)
        found[name][key] = found[name].get(key, 0.0) + float(value)
    return found


def settled(wanted, *, within_s=60):
    """What is exported once it has `wanted` chunks and nothing in flight."""
    until = time.monotonic() + within_s
    found = {}
    while time.monotonic() < until:
        time.sleep(0.5)
        try:
            found = scraped()
        except OSError:
            continue
        there = sum(found["ray_kgscale_chunks_total"].values())
        if there >= wanted and not any(found["ray_kgscale_workers"].values()):
            return found
    return found


@pytest.mark.engines
def test_the_exported_counters_equal_the_rows(ray, tmp_path):
    texts = [f"Ada {at}" for at in range(40)]
    texts[5], texts[17] = "POISON", "RAISE"
    run = make_run(tmp_path, texts, shard=8, methods=ONLY_GLINER)
    RayMetrics({"gliner": "gliner"}, {"gliner": 7}).close()
    # One process may drive several times.
    metrics = RayMetrics({"gliner": "gliner"}, {"gliner": 40})
    told = []

    def watching(event, /, **fields):
        told.append(event)
        metrics(event, **fields)

    drive(run, worker=TimedWorker, watching=watching, attempts=1)
    metrics.close()
    found = settled(40)
    assert found["ray_kgscale_chunks_total"] == {
        ("gliner", "ok"): 38.0,
        ("gliner", "dead"): 1.0,
        ("gliner", "failed"): 1.0,
    }
    assert found["ray_kgscale_shards_retried_total"] == {("gliner",): told.count("shard_retried")}
    assert found["ray_kgscale_workers_lost_total"] == {("gliner",): told.count("worker_died")}
    for gauge in ("chunks_left", "shards_in_flight", "workers"):
        assert found[f"ray_kgscale_{gauge}"] == {("gliner",): 0.0}
    rows = [row for start, stop in run.planned for row in run.read_rows(Shard("gliner", start, stop))]
    ok = [row for row in rows if row.status == "ok"]
    # Half of a batch of two chunks each.
    assert found["ray_kgscale_engine_seconds_total"] == {("gliner", "gliner"): pytest.approx(38 * 0.4)}
    assert found["ray_kgscale_chunk_seconds_count"] == {("gliner",): 38}
    for boundary in BOUNDARIES_S:
        below = sum(row.service_ms / 1e3 <= boundary for row in ok)
        assert found["ray_kgscale_chunk_seconds_bucket"]["gliner", str(boundary)] == below
    assert found.keys() <= exported_names()


class Recorded:
    """Stands for Ray's metrics: holds what it was told."""

    def __init__(self, monkeypatch):
        self.values = {}

        def metric(name, _meaning, *rest):
            return Recording(self.values, name, rest[-1])

        for kind in ("Counter", "Gauge", "Histogram"):
            monkeypatch.setattr(f"ray.util.metrics.{kind}", metric)

    def __getitem__(self, key):
        return self.values.get(key)


class Recording:
    def __init__(self, values, name, tag_keys):
        self.values, self.name, self.tag_keys = values, name, tag_keys

    def _key(self, tags):
        assert set(tags) == set(self.tag_keys), "Ray refuses other tags"
        return (self.name, *(tags[it] for it in self.tag_keys))

    def inc(self, amount, tags):
        assert amount > 0, "Ray refuses nothing"
        self.values[self._key(tags)] = self.values.get(self._key(tags), 0) + amount

    def set(self, value, tags):
        self.values[self._key(tags)] = value

    def observe(self, value, tags):
        self.values.setdefault(self._key(tags), []).append(value)


def test_what_a_worker_had_in_hand_is_in_flight_until_it_ends_or_is_lost(monkeypatch):
    seen = Recorded(monkeypatch)
    metrics = RayMetrics({"llm": "llm", "hybrid": "llm"}, {"llm": 20, "hybrid": 20})
    assert seen["kgscale_chunks_left", "llm"] == 20
    metrics("worker_ready", worker=1, engine="llm", seconds=12.5, device="cuda")
    metrics("worker_ready", worker=2, engine="llm", seconds=13.5, device="cuda")
    for start, worker in ((0, 1), (4, 1), (8, 2)):
        metrics("shard_started", method="llm", start=start, stop=start + 4, worker=worker)
    assert (seen["kgscale_shards_in_flight", "llm"], seen["kgscale_workers", "llm"]) == (3, 2)
    amounts = {"prompt_tokens": 400, "cached_tokens": 300, "output_tokens": 50, "engine_ms": 1500.0}
    metrics("shard_committed", method="llm", start=0, stop=4, statuses={"ok": 3, "failed": 1}, **amounts,
            service_ms=(700.0, 900.0))  # fmt: skip
    # The node is lost: no event tells of its other shard.
    metrics("worker_died", worker=1, engine="llm", error="its node is lost", shards=1)
    assert (seen["kgscale_shards_in_flight", "llm"], seen["kgscale_workers", "llm"]) == (1, 1)
    # The reply was lost, the file is there.
    metrics("shard_committed", method="llm", start=8, stop=12, statuses={}, **EVENT)
    assert seen["kgscale_chunks", "llm", "ok"] == 3
    assert seen["kgscale_chunks", "llm", "failed"] == 1
    assert seen["kgscale_chunks", "llm", "unknown"] == 4
    assert seen["kgscale_chunks_left", "llm"] == 12
    assert seen["kgscale_chunks_left", "hybrid"] == 20
    assert seen["kgscale_prompt_tokens", "llm"] == 400
    assert seen["kgscale_cached_tokens", "llm"] == 300
    assert seen["kgscale_output_tokens", "llm"] == 50
    assert seen["kgscale_engine_seconds", "llm", "llm"] == 1.5
    assert seen["kgscale_chunk_seconds", "llm"] == [0.7, 0.9]
    assert seen["kgscale_workers_lost", "llm"] == 1
    assert seen["kgscale_start_seconds", "llm"] == 13.5
    metrics.close()
    assert (seen["kgscale_shards_in_flight", "llm"], seen["kgscale_workers", "llm"]) == (0, 0)


def test_without_rays_metrics_a_run_goes_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.util.metrics", None)
    metrics = RayMetrics({"llm": "llm"}, {"llm": 4})
    metrics("worker_ready", worker=1, engine="llm", seconds=1.0)
    metrics.close()


def test_a_metric_that_breaks_in_mid_run_ends_nothing(monkeypatch):
    seen = Recorded(monkeypatch)
    metrics = RayMetrics({"llm": "llm"}, {"llm": 4})
    monkeypatch.setattr(Recording, "inc", lambda *_a: 1 / 0)
    metrics("shard_committed", method="llm", start=0, stop=4, statuses={"ok": 4}, **EVENT)
    metrics.close()
    assert seen["kgscale_chunks_left", "llm"] == 4


def test_the_dashboard_asks_only_for_metrics_that_there_are():
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [it["query"]["query"] for it in dashboard["templating"]["list"] if it["type"] == "query"]
    names = {name for expression in asked for name in re.findall(r"\bray_\w+", expression)}
    assert names <= exported_names()
    # And shows each of them.
    shown = {re.sub("_(total|bucket|sum|count)$", "", name) for name in names}
    assert shown == {f"ray_{name}" for name in (*COUNTERS, *GAUGES, *HISTOGRAMS)}
    for expression in asked:
        for labels in re.findall(r"by \(([^)]*)\)", expression):
            tags = {it.strip() for it in labels.split(",")}
            for name in re.findall(r"\bray_(\w+?)(?:_total|_bucket|_sum|_count)?\b(?=\{)", expression):
                known = next(of[name][1] for of in (COUNTERS, GAUGES, HISTOGRAMS) if name in of)
                assert tags <= {*known, "le"}, f"{name} has no such label: {tags}"


def test_the_docs_name_every_metric_and_every_event():
    page = (ROOT / "docs" / "observing.md").read_text()
    counters = {f"ray_{name}_total" for name in COUNTERS}
    assert set(re.findall(r"`(ray_kgscale_\w+)`", page)) == {
        *counters,
        *(f"ray_{name}" for name in GAUGES),
        *(f"ray_{name}_bucket" for name in HISTOGRAMS),
    }
    sources = "".join((ROOT / "kgscale" / "extract" / name).read_text() for name in ("drive.py", "job.py"))
    told = set(re.findall(r'(?:_observe|tell|log)\(\s*"(\w+)"', sources)) | {FINISHED}
    assert len(told) > 5
    assert set(re.findall(r"`((?:drive|worker|shard)_\w+)`", page)) >= told

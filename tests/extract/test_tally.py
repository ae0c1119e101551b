"""The summary of a drive adds up what was told of it, and is read back from the log alone."""

import json
from dataclasses import asdict, replace

import pytest

from kgscale.config import Config
from kgscale.events import EventLog
from kgscale.extract import seating
from kgscale.extract.forecast import EngineForecast, Forecast
from kgscale.extract.job import extract
from kgscale.extract.methods import chosen_steps, plan_steps
from kgscale.extract.tally import Tally
from kgscale.lock import driver_lock
from kgscale.runs import EVENTS_FILE
from kgscale.status import run_status
from kgscale.summary import FINISHED, last_summary
from tests.extract.test_metrics import TimedWorker, ray  # noqa: F401  # a fixture
from tests.extract.test_on_ray import ONLY_GLINER
from tests.making import make_run
from tests.test_cli import call

NOTHING = {"prompt_tokens": 0, "cached_tokens": None, "output_tokens": 0, "engine_ms": 0.0}
PREDICTED = Forecast(
    wall_s=100.0,
    start_s=20.0,
    gpu_hours=0.1,
    cost=None,
    engines={"llm": EngineForecast(ready_s=20.0, engine_s=120.0, source="measured in runs/x")},
)


class Clock:
    def __init__(self):
        self.s = 1000.0

    def __call__(self):
        return self.s


@pytest.fixture
def tally():
    """A drive of 120 s in which two LLM workers work for 90 and 40 s, and one GLiNER worker for 60."""
    clock = Clock()
    it = Tally({"llm": "llm", "hybrid": "llm", "gliner": "gliner"}, clock)

    def at(second, event, /, **fields):
        clock.s = 1000.0 + second
        it(event, **fields)

    def commit(seconds, method, statuses, **amounts):
        at(seconds, "shard_committed", method=method, start=0, stop=4, statuses=statuses, service_ms=(), **amounts)

    at(10, "worker_ready", engine="gliner", worker=1, seconds=10.0)
    at(10, "shard_started", method="gliner", start=0, stop=4, worker=1)
    at(20, "worker_ready", engine="llm", worker=2, seconds=20.0)
    at(30, "worker_ready", engine="llm", worker=3, seconds=25.0)
    at(30, "shard_started", method="llm", start=0, stop=4, worker=2)
    at(50, "shard_started", method="llm", start=4, stop=8, worker=3)
    commit(70, "gliner", {"ok": 3, "failed": 1}, **{**NOTHING, "engine_ms": 30_000.0})
    at(70, "worker_died", engine="llm", worker=3, shards=1, error="gone")
    at(70, "shard_retried", method="llm", start=4, stop=8, error="gone")
    # Idle and no longer wanted, it was done with the engine's last commit.
    at(75, "worker_stopped", engine="gliner", worker=1)
    llm = {"prompt_tokens": 4000, "cached_tokens": 3000, "output_tokens": 400, "engine_ms": 30_000.0}
    commit(80, "llm", {"ok": 4}, **llm)
    commit(110, "llm", {"ok": 3, "truncated": 1}, **{**llm, "engine_ms": 35_000.0})
    commit(110, "hybrid", {}, **NOTHING)
    clock.s = 1120.0
    return it


def test_what_a_drive_came_to(tally):
    found = tally.summary(PREDICTED, gpus=2, gpu_hour_price=3.0)
    assert (found.took_s, found.predicted_s, found.off) == (120.0, 100.0, pytest.approx(0.2))
    assert found.gpu_hours == pytest.approx(2 * 120 / 3600)
    assert found.gpu_hours_per_million_chunks == pytest.approx(found.gpu_hours / 16 * 1e6)
    assert found.cost == pytest.approx(3 * found.gpu_hours)
    assert (found.workers_lost, found.shards_retried) == (1, 1)
    methods = {it.method: it for it in found.methods}
    llm = methods["llm"]
    assert (llm.chunks, llm.seconds, llm.chunks_per_s) == (8, 80.0, 0.1)
    assert (llm.prompt_tokens_per_s, llm.output_tokens_per_s, llm.cached_share) == (100.0, 10.0, 0.75)
    assert (methods["gliner"].chunks, methods["gliner"].seconds) == (4, 60.0)
    assert methods["gliner"].prompt_tokens_per_s is methods["gliner"].cached_share is None
    assert methods["hybrid"].chunks == 4, "the reply was lost, the rows are there"
    engines = {it.engine: it for it in found.engines}
    # From ready to the last commit, or to death: 90 and 40 s.
    assert (engines["llm"].workers, engines["llm"].start_s, engines["llm"].worker_s) == (2, 25.0, 130.0)
    assert engines["llm"].busy_share == pytest.approx(65 / 130)
    assert engines["llm"].ceiling_share == pytest.approx(120 / 130)
    assert (engines["gliner"].worker_s, engines["gliner"].busy_share) == (60.0, 0.5)
    assert engines["gliner"].ceiling_share is None
    text = str(found)
    assert "took 2 min 0 s, predicted 1 min 40 s (+20%)" in text
    assert "0.07 GPU-hours, 4,166.67 for a million chunks, 0.20 at the configured price" in text
    assert "8 chunks in 1 min 20 s; 0.1 chunks/s; 100 prompt tokens/s (75% from the cache); 10 output tokens/s" in text
    assert "2 workers; ready after 25.0 s; busy 50% of the time; 92% of the known speed (measured in runs/x)" in text


def test_what_is_not_known_is_not_told(tally):
    found = tally.summary(None, gpus=0, gpu_hour_price=3.0)
    assert found.predicted_s is found.off is found.gpu_hours_per_million_chunks is found.cost is None
    assert "predicted" not in str(found)
    assert "GPU" not in str(found)


def test_the_log_alone_tells_it_again(tally, tmp_path, capsys):
    run = make_run(tmp_path, 4)
    assert last_summary(run) is None
    found = tally.summary(PREDICTED, gpus=2, gpu_hour_price=3.0)
    log = EventLog(run.store)
    log(FINISHED, **asdict(replace(found, took_s=1.0)))
    log(FINISHED, **asdict(found))
    log("drive_started")
    log.close()
    assert last_summary(run) == run_status(run).last_drive == found
    assert f"last drive: {found}" in call(capsys, "status", run.store.uri)[1]
    assert json.loads(call(capsys, "status", run.store.uri, "--json")[1])["last_drive"] == asdict(found)
    log = EventLog(run.store)
    log(FINISHED, took_s=1.0, gpu_hours=0.0)
    log.close()
    assert last_summary(run) is None, "another version wrote it"


@pytest.mark.engines
def test_a_second_run_is_predicted_from_the_first(ray, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(seating, "GlinerWorker", TimedWorker)
    runs = [
        make_run(tmp_path / name, [f"Ada {at} word word" for at in range(30)], methods=ONLY_GLINER) for name in "ab"
    ]

    def extracted(run, config):
        told = []

        def observe(event, /, **fields):
            if event == "drive_started":
                told.append(run.store.read(EVENTS_FILE).decode().count('"drive_started"'))

        steps = chosen_steps(plan_steps(config), ["gliner"])
        with driver_lock(run.store, "test") as token:
            summary = extract(run, steps, config, token, observe)
        assert told == [1], "the prediction is in the log before the work begins"
        assert summary == last_summary(run)
        return summary

    first = extracted(runs[0], runs[0].config)
    assert (first.predicted_s, first.methods[0].chunks) == (None, 30)
    config = Config.model_validate(
        {**runs[1].config.model_dump(by_alias=True), "cluster": {"rates_from": str(tmp_path / "a")}}
    )
    second = extracted(runs[1], config)
    # The rows say 0.4 s each; the start is that of the first run.
    (engine,) = first.engines
    assert second.predicted_s == pytest.approx(engine.start_s + 30 * 0.4 / second.engines[0].workers)
    assert second.off == pytest.approx(second.took_s / second.predicted_s - 1)
    assert second.engines[0].ceiling == f"measured in {runs[0].store.uri}"
    assert extract(runs[1], {}, config, "token", lambda *_a, **_f: None) is None, "nothing was left"

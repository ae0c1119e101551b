"""A worker that Ray ends because the machine is full is replaced, and what it had in hand is not blamed for it."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.engines
ROOM_BYTES = 1 << 30
"""What Ray leaves to its workers beyond what is in use when it starts; the greedy one takes twice that."""

SCRIPT = """
import json, sys, time
from pathlib import Path
import psutil, ray
from ray import cloudpickle
from tests.extract import test_on_ray
from tests.extract.test_on_ray import FakeModel, FakeWorker, Watching, drive, statuses
from tests.making import make_run

folder, room = Path(sys.argv[1]), int(sys.argv[2])
cloudpickle.register_pickle_by_value(test_on_ray)

class Greedy(FakeModel):
    def extract(self, texts):
        once = folder / "greedy"
        if any("GREEDY" in it for it in texts) and not once.exists():
            once.touch()
            taken = bytearray(2 * room)
            taken[::4096] = b"x" * (2 * room // 4096)
            time.sleep(120)
        return super().extract(texts)

class Worker(FakeWorker):
    def start(self):
        super().start()
        self._models = dict.fromkeys(self._models, Greedy())
        return "fake"

memory = psutil.virtual_memory()
share = (memory.total - memory.available + room) / memory.total
ray.init(
    num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
    _system_config={"memory_usage_threshold": share, "memory_monitor_refresh_ms": 100},
)
run = make_run(folder / "run", ["calm", "GREEDY", "calm"], shard=1, methods={"gliner": {"entities": "gliner"}})
watching = Watching()
drive(run, worker=Worker, replicas=1, watching=watching)
deaths = [it["error"] for it in watching["worker_died"]]
rows = [row.status for _, row in sorted(statuses(run).items())]
print(json.dumps({"deaths": deaths, "retried": len(watching["shard_retried"]), "rows": rows}))
"""


def test_a_full_machine_costs_a_worker_and_no_chunk(tmp_path):
    psutil = pytest.importorskip("psutil")
    if psutil.virtual_memory().available < 6 * ROOM_BYTES:
        pytest.skip("too little memory is free to fill some")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(ROOM_BYTES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(told["deaths"]) >= 1
    assert all(it.startswith("ended by Ray, since its machine ran short of memory (") for it in told["deaths"])
    assert told["retried"] == 0
    assert told["rows"] == ["ok"] * 3

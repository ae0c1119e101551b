"""A cluster of several nodes: one is killed in the middle, one comes later, and GLiNER works where the LLM cannot."""

import sys
import time
from collections import Counter, defaultdict

import pytest

from kgscale.config import Config
from kgscale.errors import WorkError
from kgscale.extract import seating
from kgscale.extract.directory import Driven
from kgscale.extract.drive import Drive, Policy
from kgscale.extract.gliner import Found
from kgscale.extract.methods import plan_steps
from kgscale.extract.prompt import Task
from kgscale.extract.ray_cluster import RayCluster, refuse_orphanhood
from kgscale.extract.seating import Seating
from kgscale.extract.workers import GlinerWorker
from kgscale.lock import driver_lock
from kgscale.records import Entity, Status
from kgscale.shards import Shard
from kgscale.verify import verify
from tests.making import make_run

pytestmark = pytest.mark.engines


class OnNode(GlinerWorker):
    """Takes a while for each chunk, and says as its device on which node it was."""

    def start(self):
        import ray

        self._models = dict.fromkeys(Task, self)
        self.device = ray.get_runtime_context().get_node_id()
        return self.device

    def extract(self, texts):
        time.sleep(0.03 * len(texts))
        return [Found([Entity("Ada", "person", 0, 3, 0.9)], windows=1) for _ in texts]


class LlmOnNode(OnNode):
    async def start(self):
        return super().start()


def add_node(cluster, **has):
    """Ray gives a node 30 seconds to start, which a busy machine may not have."""
    for _ in range(3):
        try:
            return cluster.add_node(**has)
        except Exception as error:  # noqa: BLE001  # Ray raises no other
            late = error
    raise late


@pytest.fixture
def cluster(monkeypatch):
    """A head that only drives, two nodes with a GPU each, and one without."""
    import ray
    from ray import cloudpickle
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setattr(seating, "GlinerWorker", OnNode)
    monkeypatch.setattr(seating, "LlmWorker", LlmOnNode)
    monkeypatch.setattr(seating, "LOOK_EVERY_S", 0.5)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    quick = {"health_check_period_ms": 1000, "health_check_failure_threshold": 8}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": quick})
    nodes = {name: add_node(cluster, num_cpus=4, num_gpus=gpus) for name, gpus in (("a", 1), ("b", 1), ("bare", 0))}
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster, nodes
    ray.shutdown()
    cluster.shutdown()


def test_nodes_go_and_come_and_each_engine_takes_those_it_can_use(cluster, tmp_path):
    ray_nodes, nodes = cluster
    run = make_run(tmp_path, 320, shard=8)
    config = Config.model_validate({"corpus": {"path": "x"}, "run": str(tmp_path)})
    started = defaultdict(set)
    counts = Counter()

    def observe(event, /, **fields):
        counts[event] += 1
        if event == "worker_ready":
            started[fields["engine"]].add(fields["device"])
        if event == "shard_committed" and counts[event] == 12:
            ray_nodes.remove_node(nodes["a"], allow_graceful=False)
        if event == "shard_committed" and counts[event] == 24:
            nodes["late"] = add_node(ray_nodes, num_cpus=4, num_gpus=1)

    with driver_lock(run.store, "test") as token:
        seats = Seating(config, ["llm", "gliner"], run.store.uri, token)
        seats.wait_for_gpus()
        try:
            steps = plan_steps(config)
            workers, policy = RayCluster(seats), Policy(start_timeout_s=120)
            Drive(steps, seats.placement.pools, Driven(run, token), workers, policy, observe).run()
        finally:
            seats.close()
    assert verify(run).passed
    rows = [row for method in run.methods for row in run.read_rows(Shard(method, 0, run.rows))]
    # A lost node is no chunk's fault.
    assert {row.status for row in rows} == {Status.OK}
    assert counts["worker_died"] >= 1
    devices = {engine: {row.device for row in rows if row.method == engine} for engine in ("llm", "gliner")}
    assert nodes["late"].node_id in started["llm"], "a node that comes later is used"
    assert nodes["bare"].node_id in devices["gliner"], "GLiNER uses what the LLM cannot"
    assert nodes["bare"].node_id not in devices["llm"]


def test_a_driver_whose_own_node_is_lost_ends_instead_of_waiting():
    with pytest.raises(WorkError, match="on this machine has died"):
        refuse_orphanhood(RuntimeError("The actor is dead because its owner has died. Owner Id: 01"))
    refuse_orphanhood(RuntimeError("The actor died because its node has died."))

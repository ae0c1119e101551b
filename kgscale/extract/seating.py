"""Ray's side of the placement: nodes looked up again and again, GPUs booked one by one, actors started in their seats.

Each GPU is a placement group of its own. A GPU that is lost is booked anew wherever one is free, and one that is added
while the run goes on gets a group and is used.
"""

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kgscale.config import Config, GlinerEngine, OpenAIEngine, VllmEngine
from kgscale.errors import UserError, WorkError
from kgscale.extract.placement import Node, Placement, Seat, place
from kgscale.extract.workers import GlinerWorker, LlmWorker, WorkerSpec

LOOK_EVERY_S = 5.0
PATIENCE_S = 5.0
CORES_PER_GPU = 4
"""Cores that a GPU node to come has at least: an LLM, its front end and two GLiNER workers want one each."""


def cluster_nodes(config: Config) -> list[Node]:
    """The nodes that Ray has, and those it is to be asked for: one that grows on demand starts with less."""
    import ray

    nodes = []
    for it in ray.nodes():
        has = it["Resources"]
        if it["Alive"] and (has.get("CPU") or has.get("GPU")):
            nodes.append(Node(has.get("CPU", 0.0), int(has.get("GPU", 0)), it["NodeID"]))
    to_come = (config.cluster.num_gpus or 0) - sum(node.gpus for node in nodes)
    if to_come > 0:
        nodes.append(Node(to_come * CORES_PER_GPU, to_come, "to come"))
    return nodes


class Seating:
    """The seats of a run's workers on Ray, kept up to date with the nodes that there are."""

    def __init__(self, config: Config, engines: Sequence[str], run: str, token: str, *, retry: bool = False) -> None:
        self._config = config
        self._engine_names = list(engines)
        self._run = run
        self._token = token
        self._retry = retry
        self._taken: Counter[Seat] = Counter()
        self._groups: list[Any] = []
        """A placement group for each GPU, by its number; where a group is, is Ray's affair."""
        self._booked: set[int] = set()
        """GPUs whose group holds one now."""
        self._bundle: dict[str, float] | None = None
        self._cpus: dict[str, float] = {}
        """Cores that a worker of an engine books beside a GPU: each group is booked once and must go on holding it."""
        self._nodes: list[Node] = []
        self._looked_at = -math.inf
        self.placement: Placement = self._placed()

    def wait_for_gpus(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Wait for the GPUs: a moment for all of them, as long as a start may take for the first, or until `stop`.

        Raises `WorkError` when there is none by then. Those that come later are used when they come.
        """
        import ray

        self._look()
        begun = time.monotonic()
        until = begun + self._config.limits.start_timeout_s
        while len(self._booked) < len(self._groups) and not stop():
            if self._booked and time.monotonic() - begun > PATIENCE_S:
                return
            if time.monotonic() > until:
                free = {key: ray.available_resources().get(key, 0) for key in ("CPU", "GPU")}
                raise WorkError(
                    f"the cluster does not give any bundle of {self._bundle}; free: {free}",
                    hint="wait for other jobs to end, or set cluster.num_gpus",
                )
            time.sleep(0.1)
            self._look()

    def room(self, engine: str) -> int:
        """How many seats an engine has now, taken or not."""
        if time.monotonic() - self._looked_at > LOOK_EVERY_S:
            self._look()
        return sum(not self.is_gone(seat) for seat in self.placement.of(engine))

    def start(self, engine: str) -> tuple[Seat, Any]:
        """Start an actor in the first free seat of its engine.

        Where there is none, whoever sits there is being killed, and Ray starts the new one when the other is gone.
        """
        seats = [seat for seat in self.placement.of(engine) if not self.is_gone(seat)] or self.placement.of(engine)
        seat = min(seats, key=lambda it: self._taken[it])
        self._taken[seat] += 1
        return seat, self._actor(seat)

    def leave(self, engine: str, place: Seat) -> None:  # noqa: ARG002  # a seat knows its engine
        """Free a seat; whoever left it may have left with its node."""
        self._taken[place] -= 1
        self._looked_at = -math.inf

    def is_gone(self, place: Seat) -> bool:
        """Whether a seat's GPU or node is not there now."""
        if place.gpu is not None:
            return place.gpu not in self._booked
        return place.node is not None and all(node.name != place.node for node in self._nodes)

    def close(self) -> None:
        """Give the GPUs back, for a cluster that lives on."""
        from ray.util.placement_group import remove_placement_group

        for group in self._groups:
            remove_placement_group(group)
        self._groups = []

    def _placed(self) -> Placement:
        self._nodes = cluster_nodes(self._config)
        missing = len(self._groups) - sum(node.gpus for node in self._nodes)
        # A lost GPU keeps its seats: its group is booked anew as soon as there is one.
        lost = [Node(missing * CORES_PER_GPU, missing, "lost")] if missing > 0 else []
        return place(self._config, self._engine_names, [*self._nodes, *lost])

    def _look(self) -> None:
        from ray.util import placement_group_table
        from ray.util.placement_group import placement_group

        try:
            self.placement = self._placed()
        except UserError:
            # What could be seated once is not refused in the middle of the work.
            self._looked_at = time.monotonic()
            return
        self._bundle = self._bundle or self.placement.bundle
        while len(self._groups) < self.placement.gpus:
            self._groups.append(placement_group([self._bundle]))
        states = placement_group_table() if self._groups else {}
        self._booked = {
            gpu for gpu, it in enumerate(self._groups) if states.get(it.id.hex(), {}).get("state") == "CREATED"
        }
        self._looked_at = time.monotonic()

    def _actor(self, seat: Seat) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

        engine = self._config.engines[seat.engine]
        gliner = isinstance(engine, GlinerEngine)
        options: dict[str, Any] = {
            "num_cpus": seat.cpus if seat.gpu is None else self._cpus.setdefault(seat.engine, seat.cpus),
            "num_gpus": seat.gpus,
            "max_restarts": 0,
            "runtime_env": {"env_vars": environment(seat, engine)},
        }
        if seat.gpu is not None:
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                self._groups[seat.gpu], placement_group_bundle_index=0, placement_group_capture_child_tasks=True
            )
        elif seat.node is not None:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(seat.node, soft=False)
        spec = WorkerSpec(
            self._run,
            seat.engine,
            self._token,
            seat.threads,
            gpu_share=seat.gpus or None,
            retry=self._retry,
            own_process=True,
        )
        return ray.remote(GlinerWorker if gliner else LlmWorker).options(**options).remote(spec)


def environment(seat: Seat, engine: GlinerEngine | VllmEngine | OpenAIEngine) -> dict[str, str]:
    """The environment variables of a worker; no secrets, since Ray shows them."""
    variables = {
        "OMP_NUM_THREADS": str(seat.threads),
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
    }
    if isinstance(engine, VllmEngine) and not seat.gpus:
        variables |= {
            "VLLM_CPU_KVCACHE_SPACE": str(math.ceil(engine.kv_cache_gib or 1)),
            # vLLM would set cores aside and pin its threads to physical ones, which a small machine does not have.
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }
    if seat.gpus:
        variables["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    handed_on = ("HF_HUB_OFFLINE", "KGSCALE_CACHE", "AWS_ENDPOINT_URL", "AWS_REGION")
    return variables | {name: os.environ[name] for name in handed_on if name in os.environ}

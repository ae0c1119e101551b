"""Which worker goes where: pure arithmetic on what the cluster has, and Ray's actors made from it."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kgscale.config import Config, GlinerEngine, OpenAIEngine, VllmEngine
from kgscale.errors import UserError, WorkError
from kgscale.extract.drive import Pool
from kgscale.extract.workers import GlinerWorker, LlmWorker, WorkerSpec

GLINER_PER_GPU = 2


@dataclass(frozen=True, slots=True)
class Resources:
    """What the cluster has in all."""

    cpus: float
    gpus: int


@dataclass(frozen=True, slots=True)
class Seat:
    """What one worker of an engine books, and the bundles (one per GPU) that its workers sit in, in turn."""

    engine: str
    cpus: float
    gpus: float
    threads: int
    bundles: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """The workers of a job; `bundles` is empty without GPUs, and else books one GPU each."""

    pools: tuple[Pool, ...]
    seats: dict[str, Seat]
    bundles: tuple[dict[str, float], ...]

    def lines(self) -> list[str]:
        """The placement in words, an engine a line."""
        told = []
        for pool in self.pools:
            seat = self.seats[pool.engine]
            where = f"GPUs {', '.join(map(str, seat.bundles))}" if seat.bundles else "CPU"
            booked = f"{seat.gpus:g} GPU and {seat.cpus:g} cores each" if seat.gpus else f"{seat.cpus:g} cores each"
            told.append(f"{pool.engine}: {pool.replicas} on {where}, {booked}, {seat.threads} threads")
        return told


def place(config: Config, engines: list[str], has: Resources) -> Placement:
    """Seat the workers of `engines`: on each GPU one LLM and its GLiNER workers, or all on the cores.

    Raises `UserError` when the GPUs cannot hold what the config asks for.
    """
    llms = [name for name in engines if isinstance(config.engines[name], VllmEngine)]
    gliners = [name for name in engines if isinstance(config.engines[name], GlinerEngine)]
    remote = [name for name in engines if isinstance(config.engines[name], OpenAIEngine)]
    local = _place_on_gpus(config, llms, gliners, has) if has.gpus else _place_on_cores(config, llms, gliners, has)
    pools, seats, bundles = local
    pools += [Pool(name, 1) for name in remote]
    seats |= {name: Seat(name, cpus=0.0, gpus=0.0, threads=1) for name in remote}
    return Placement(tuple(pools), seats, tuple(bundles))


def _place_on_gpus(
    config: Config, llms: list[str], gliners: list[str], has: Resources
) -> tuple[list[Pool], dict[str, Seat], list[dict[str, float]]]:
    cluster = config.cluster
    if not (llms or gliners):
        return [], {}, []
    if len(llms) > has.gpus:
        raise UserError(
            f"{len(llms)} LLM engines ({', '.join(llms)}) need a GPU each, the cluster has {has.gpus}",
            hint="extract their methods one after the other: `kgscale extract CONFIG --method NAME`",
        )
    per_gpu = math.ceil(cluster.gliner_replicas / has.gpus) if cluster.gliner_replicas else GLINER_PER_GPU
    booked = (cluster.llm_gpu_share if llms else 0) + per_gpu * cluster.gliner_gpu_share * len(gliners)
    if booked > 1.0 + 1e-9:
        raise UserError(
            f"the workers of one GPU would book {booked:.2f} of it",
            hint="lower cluster.llm_gpu_share, cluster.gliner_gpu_share or cluster.gliner_replicas",
        )
    cores = has.cpus / has.gpus
    in_bundle = (1 if llms else 0) + per_gpu * len(gliners)
    cpus = min(cluster.cpus_per_worker, _rounded_down(cores / in_bundle))
    pools, seats = [], {}
    for index, name in enumerate(llms):
        bundles = tuple(range(index, has.gpus, len(llms)))
        bundles = bundles[: cluster.llm_replicas or len(bundles)]
        pools.append(Pool(name, len(bundles)))
        seats[name] = Seat(name, cpus, cluster.llm_gpu_share, max(1, int(cores) // 2), bundles)
    for name in gliners:
        # vLLM measures free memory while it starts: whatever shares its GPU comes after.
        pools.append(Pool(name, cluster.gliner_replicas or per_gpu * has.gpus, after=tuple(llms)))
        seats[name] = Seat(name, cpus, cluster.gliner_gpu_share, 1, tuple(range(has.gpus)))
    return pools, seats, [{"GPU": 1.0, "CPU": cpus * in_bundle}] * has.gpus


def _place_on_cores(
    config: Config, llms: list[str], gliners: list[str], has: Resources
) -> tuple[list[Pool], dict[str, Seat], list[dict[str, float]]]:
    cluster = config.cluster
    pools = [Pool(name, cluster.llm_replicas or 1) for name in llms]
    pools += [Pool(name, cluster.gliner_replicas or 1) for name in gliners]
    workers = max(1, sum(pool.replicas for pool in pools))
    # Two processes with as many threads each as there are cores collapse: the cores are divided.
    threads = max(1, int(has.cpus // workers))
    cpus = min(cluster.cpus_per_worker, _rounded_down(has.cpus / workers))
    return pools, {pool.engine: Seat(pool.engine, cpus, 0.0, threads) for pool in pools}, []


def _rounded_down(cpus: float) -> float:
    """Ray counts cores in ten-thousandths: rounded up, the last worker would find none left and never start."""
    return math.floor(cpus * 10_000) / 10_000


def ray_starters(placement: Placement, config: Config, run: str, token: str) -> dict[str, Callable[[int], Any]]:
    """For each engine a function that starts one of its actors in its seat.

    Raises `WorkError` when the cluster does not give the booked GPUs within `limits.start_timeout_s`.
    """
    import ray
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = None
    if placement.bundles:
        group = placement_group(list(placement.bundles), strategy="SPREAD")
        if not group.wait(config.limits.start_timeout_s):
            free = {key: ray.available_resources().get(key, 0) for key in ("CPU", "GPU")}
            raise WorkError(
                f"the cluster does not give {len(placement.bundles)} bundles of {placement.bundles[0]}; free: {free}",
                hint="wait for other jobs to end, or set cluster.num_gpus",
            )

    def start(seat: Seat, slot: int) -> Any:
        engine = config.engines[seat.engine]
        gliner = isinstance(engine, GlinerEngine)
        options: dict[str, Any] = {
            "num_cpus": seat.cpus,
            "num_gpus": seat.gpus,
            "max_restarts": 0,
            "runtime_env": {"env_vars": _environment(seat, engine)},
        }
        if not gliner:
            options["max_concurrency"] = config.cluster.inflight + 2
        if group is not None and seat.bundles:
            bundle = seat.bundles[slot % len(seat.bundles)]
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=bundle, placement_group_capture_child_tasks=True
            )
        spec = WorkerSpec(run, seat.engine, token, threads=seat.threads, gpu_share=seat.gpus or None)
        return ray.remote(GlinerWorker if gliner else LlmWorker).options(**options).remote(spec)

    return {name: partial(start, seat) for name, seat in placement.seats.items()}


def _environment(seat: Seat, engine: GlinerEngine | VllmEngine | OpenAIEngine) -> dict[str, str]:
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
    handed_on = ("HF_HUB_OFFLINE", "KGSCALE_CACHE")
    return variables | {name: os.environ[name] for name in handed_on if name in os.environ}

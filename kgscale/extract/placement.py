"""Which worker goes where: pure arithmetic on the nodes that the cluster has."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kgscale.config import Config, Engine, GlinerEngine, OpenAIEngine, VllmEngine
from kgscale.errors import UserError

GLINER_PER_GPU = 2
"""Workers beside an LLM; where there are several GLiNER engines they share them out, one each at least."""
CORES_PER_GLINER = 4
"""On a node without GPUs: more threads than that bring a small encoder little."""


@dataclass(frozen=True, slots=True)
class Node:
    """What one node of the cluster has; `name` is the cluster's own for it, null where there is only one."""

    cpus: float
    gpus: int = 0
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of one worker, on a GPU (counted over the cluster) or a node without one, and what it books there.

    A seat is the same one when other nodes come or go and its share of the cores changes.
    """

    engine: str
    cpus: float = field(compare=False)
    gpus: float = field(compare=False)
    threads: int = field(compare=False)
    gpu: int | None = None
    node: str | None = None
    number: int = 0
    """Tells apart the seats of an engine in the same place."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The workers of an engine; they start when those of the engines in `after` are ready."""

    engine: str
    after: tuple[str, ...] = ()
    at_once: int = 0
    """Chunks that a worker can have in its engine at once: it is given shards until it holds more than that."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The seats of a job in the order in which they are taken; `bundle` is what is booked with each GPU."""

    pools: tuple[Pool, ...]
    seats: tuple[Seat, ...]
    bundle: dict[str, float]
    gpus: int

    def of(self, engine: str) -> list[Seat]:
        """The seats of one engine."""
        return [seat for seat in self.seats if seat.engine == engine]

    def lines(self) -> list[str]:
        """The placement in words, one line for each engine and kind of place."""
        told = []
        for pool in self.pools:
            seats = self.of(pool.engine)
            for kind in (True, False):
                some = [seat for seat in seats if (seat.gpu is not None) == kind]
                if some:
                    told.append(f"{pool.engine}: {_line(some)}")
        return told


def _line(seats: Sequence[Seat]) -> str:
    first = seats[0]
    threads = f"{first.threads} thread{'s' if first.threads > 1 else ''}"
    if first.gpu is not None:
        gpus = ", ".join(map(str, sorted({seat.gpu for seat in seats if seat.gpu is not None})))
        return f"{len(seats)} on GPUs {gpus}, {first.gpus:g} GPU and {first.cpus:g} cores each, {threads}"
    nodes = len({seat.node for seat in seats})
    where = f"the cores of {nodes} nodes" if nodes > 1 else "CPU"
    return f"{len(seats)} on {where}, {first.cpus:g} cores each, {threads}"


def place(config: Config, engines: Sequence[str], nodes: Sequence[Node]) -> Placement:
    """Seat the workers of `engines`: on each GPU one LLM and its GLiNER workers, or all on the cores.

    In a cluster that has both, GLiNER also takes the nodes without a GPU. Raises `UserError` when the GPUs cannot hold
    what the config asks for.
    """
    llms = [name for name in engines if isinstance(config.engines[name], VllmEngine)]
    gliners = [name for name in engines if isinstance(config.engines[name], GlinerEngine)]
    remote = [name for name in engines if isinstance(config.engines[name], OpenAIEngine)]
    with_gpu = [node for node in nodes if node.gpus]
    bare = [node for node in nodes if not node.gpus and node.cpus >= 1]
    seats: list[Seat] = []
    bundle: dict[str, float] = {}
    after: tuple[str, ...] = ()
    if with_gpu and (llms or gliners):
        seats, bundle = _on_gpus(config, llms, gliners, with_gpu)
        # vLLM measures free memory while it starts: whatever shares its GPU comes after.
        after = tuple(llms)
        if config.cluster.cpu_nodes and config.cluster.gliner_replicas is None:
            seats += [seat for node in bare for seat in _gliner_on_cores(config, gliners, node)]
    elif llms or gliners:
        seats = _on_cores(config, llms, gliners, bare or list(nodes))
    pools = [Pool(name, at_once=at_once(config.engines[name], bool(with_gpu))) for name in (*llms, *remote)]
    pools += [Pool(name, after) for name in gliners]
    seats += [Seat(name, cpus=0.0, gpus=0.0, threads=1) for name in remote]
    return Placement(tuple(pools), tuple(seats), bundle, sum(node.gpus for node in with_gpu) if bundle else 0)


def at_once(engine: Engine, on_gpu: bool) -> int:
    """How many chunks an engine works on at the same time; 0 where its batches are cut from one shard."""
    match engine:
        case VllmEngine():
            return engine.max_num_seqs or (512 if on_gpu else 16)
        case OpenAIEngine():
            return engine.concurrency
    return 0


def _on_gpus(
    config: Config, llms: Sequence[str], gliners: Sequence[str], nodes: Sequence[Node]
) -> tuple[list[Seat], dict[str, float]]:
    cluster = config.cluster
    gpus = sum(node.gpus for node in nodes)
    if len(llms) > gpus:
        raise UserError(
            f"{len(llms)} LLM engines ({', '.join(llms)}) need a GPU each, the cluster has {gpus}",
            hint="extract their methods one after the other: `kgscale extract CONFIG --method NAME`",
        )
    each = max(1, GLINER_PER_GPU // max(1, len(gliners)))
    per_gpu = math.ceil(cluster.gliner_replicas / gpus) if cluster.gliner_replicas else each
    booked = (cluster.llm_gpu_share if llms else 0) + per_gpu * cluster.gliner_gpu_share * len(gliners)
    if booked > 1.0 + 1e-9:
        raise UserError(
            f"the workers of one GPU would book {booked:.2f} of it",
            hint="lower cluster.llm_gpu_share, cluster.gliner_gpu_share or cluster.gliner_replicas",
        )
    # A bundle must fit beside any of the GPUs.
    cores = min(node.cpus / node.gpus for node in nodes)
    in_bundle = (1 if llms else 0) + per_gpu * len(gliners)
    cpus = min(cluster.cpus_per_worker, _rounded_down(cores / in_bundle))
    seats = []
    for index, name in enumerate(llms):
        mine = list(range(index, gpus, len(llms)))[: cluster.llm_replicas]
        seats += [Seat(name, cpus, cluster.llm_gpu_share, max(1, int(cores) // 2), gpu) for gpu in mine]
    for name in gliners:
        turns = [(turn, gpu) for turn in range(per_gpu) for gpu in range(gpus)][: cluster.gliner_replicas]
        seats += [Seat(name, cpus, cluster.gliner_gpu_share, 1, gpu, number=turn) for turn, gpu in turns]
    return seats, {"GPU": 1.0, "CPU": cpus * in_bundle}


def _gliner_on_cores(config: Config, gliners: Sequence[str], node: Node) -> list[Seat]:
    workers = max(1, int(node.cpus) // (CORES_PER_GLINER * len(gliners))) if gliners else 0
    every = [(name, number) for name in gliners for number in range(workers)]
    return _divided(config, every, node)


def _on_cores(config: Config, llms: Sequence[str], gliners: Sequence[str], nodes: Sequence[Node]) -> list[Seat]:
    """By default one worker of each engine on every node; a fixed number of replicas is dealt out."""
    seats = []
    for index, node in enumerate(nodes):
        counts = Counter({name: _share(config.cluster.llm_replicas, index, len(nodes)) for name in llms})
        counts.update({name: _share(config.cluster.gliner_replicas, index, len(nodes)) for name in gliners})
        every = [(name, number) for name in (*llms, *gliners) for number in range(counts[name])]
        seats += _divided(config, every, node)
    return seats


def _divided(config: Config, workers: Sequence[tuple[str, int]], node: Node) -> list[Seat]:
    """Two processes with as many threads each as there are cores collapse: the cores of a node are divided.

    An LLM leaves one of its own to vLLM's scheduler, which spins on it while the model computes. On two cores, two
    threads beside it gave between a third and all of the speed of one, from one minute to the next.
    """
    count = max(1, len(workers))
    share = int(node.cpus // count)
    threads = {name: share - isinstance(config.engines[name], VllmEngine) for name, _ in workers}
    cpus = min(config.cluster.cpus_per_worker, _rounded_down(node.cpus / count))
    return [Seat(name, cpus, 0.0, max(1, threads[name]), node=node.name, number=number) for name, number in workers]


def _share(replicas: int | None, index: int, nodes: int) -> int:
    return 1 if replicas is None else replicas // nodes + (index < replicas % nodes)


def _rounded_down(cpus: float) -> float:
    """Ray counts cores in ten-thousandths: rounded up, the last worker would find none left and never start."""
    return math.floor(cpus * 10_000) / 10_000

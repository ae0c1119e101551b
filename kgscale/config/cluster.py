"""Where the work runs, and when to give up on it."""

from typing import Annotated

from pydantic import Field

from kgscale.config.section import NonNegative, Positive, Section, Share


class LimitsConfig(Section):
    """When to give up on a chunk, a worker or the job."""

    failed_share: Share = 0.05
    """More failed and dead rows than this share of a method make the command exit with 1."""
    deadline_s: Annotated[float, Field(gt=0)] | None = None
    """Longest time without a finished shard before a worker is replaced; by default 10 times the median (least 120)."""
    attempts: Positive = 2
    """Tries of a shard before it is halved, and of a single chunk before it is `dead`."""
    start_timeout_s: Annotated[float, Field(gt=0)] = 900.0
    """Longest start of an engine."""


class ClusterConfig(Section):
    """Where the work runs: by default on this machine, with every core and GPU it has."""

    address: str | None = None
    """Ray cluster to join (`auto`, `ray://host:port`); by default the one of a submitted job, else a local one."""
    num_cpus: Positive | None = None
    """Cores of a local cluster."""
    num_gpus: NonNegative | None = None
    """GPUs of a local cluster; on one that grows on demand, how many to ask for."""
    llm_replicas: Positive | None = None
    """Copies of each vLLM engine; by default one per GPU, or one on a CPU."""
    gliner_replicas: Positive | None = None
    """Copies of each GLiNER engine; by default two per GPU, or one on a CPU."""
    llm_gpu_share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of a GPU that a vLLM engine books."""
    gliner_gpu_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of a GPU that a GLiNER engine books."""
    cpu_nodes: bool = True
    """Whether, in a cluster with GPUs, GLiNER also works on the nodes that have none."""
    cpus_per_worker: Annotated[float, Field(gt=0)] = 1.0
    """Cores that each worker books."""
    rates_from: str | None = None
    """An earlier run on the same hardware: `plan` and `extract` predict from the rates that were measured in it."""
    gpu_hour_price: Annotated[float, Field(ge=0)] | None = None
    """What an hour of one GPU costs: `plan` says what the run will cost, `status` what it did."""
    metrics_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port at which a local cluster exports its metrics; by default a free one, which is told."""
    inflight: Positive = 2
    """Shards that wait or run in a worker at once; more of them where an LLM's engine would not be full."""

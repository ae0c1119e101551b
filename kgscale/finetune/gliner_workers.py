"""A GLiNER trained by several processes of Ray Train, each on a part of every batch."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgscale.errors import UserError, WorkError

if TYPE_CHECKING:
    from kgscale.finetune.gliner_job import Job


def train_on_workers(job: Job, say: Callable[[str], None]) -> None:
    """Train with one process for each of the job's workers, on a GPU each where the cluster has any.

    All workers read the job's files and write beside its result, so these must lie where every node sees them. Raises
    `UserError` if Ray Train is not installed.
    """
    import ray

    try:
        from ray.train import RunConfig, ScalingConfig, TrainingFailedError
        from ray.train.torch import TorchTrainer
    except ImportError as error:
        raise UserError(f"several workers need Ray Train: {error}", hint="pip install pandas") from error

    whole = replace(
        job,
        train=[it.absolute() for it in job.train],
        evaluate=[it.absolute() for it in job.evaluate],
        out=job.out.absolute(),
        base=str(Path(job.base).absolute()) if Path(job.base).is_dir() else job.base,
    )
    address = os.environ.get("RAY_ADDRESS")
    mine = not ray.is_initialized()
    if mine:
        ray.init(address=address or "local", logging_level="ERROR")
    try:
        TorchTrainer(
            _worker,
            train_loop_config={"job": whole, "say": say},
            scaling_config=ScalingConfig(num_workers=job.workers, use_gpu=bool(ray.cluster_resources().get("GPU"))),
            run_config=RunConfig(name="ray", storage_path=str(whole.out.with_name(f"{job.out.name}.training"))),
        ).fit()
    except TrainingFailedError as error:
        raise WorkError(f"a worker failed: {error}") from error
    finally:
        if mine:
            ray.shutdown()


def _worker(settings: dict[str, Any]) -> None:
    import torch
    from ray.train.torch import get_device

    from kgscale.finetune.gliner_base import find_base
    from kgscale.finetune.gliner_job import train
    from kgscale.finetune.own import read_own

    # The processes of a node see each other's GPUs too.
    if torch.cuda.is_available():
        torch.cuda.set_device(get_device())
    job, say = settings["job"], settings["say"]
    train(job, find_base(job.base, say), read_own(job.train, job.schema), say)

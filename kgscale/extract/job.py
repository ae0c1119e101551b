"""Extracting a run: Ray joined or started, the drive loop run, everything told to who listens."""

import difflib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from kgscale.config import Config
from kgscale.errors import UserError, WorkError
from kgscale.events import EventLog
from kgscale.extract.cluster import RayCluster
from kgscale.extract.drive import Drive, Observer, Policy
from kgscale.extract.methods import Step, chosen_steps, plan_steps
from kgscale.extract.opening import Say, open_run, prepare_models, refuse_foreign, take_gold
from kgscale.extract.placement import Placement, Resources, place, ray_starters
from kgscale.extract.progress import ExtractionProgress
from kgscale.lock import driver_lock
from kgscale.records import Extraction, Status
from kgscale.runs import Range, Run, Shard
from kgscale.status import run_status
from kgscale.store import Store


def extract_run(config: Config, methods: Sequence[str] | None, say: Say, *, command: str) -> Run:
    """Make or resume the run of a resolved config and extract what is left, with progress on stderr.

    Raises `UserError` for a run made from something else or held by another driver, `WorkError` when the work cannot
    be done.
    """
    steps = steps_for(config, methods)
    refuse_foreign(config.run)
    prepare_models(config, list(dict.fromkeys(step.engine for step in steps.values())), say)
    with driver_lock(Store(config.run), command) as token:
        run = open_run(config, say)
        run.clean()
        run.refuse_faults(steps)
        take_gold(run, config.gold, say)
        done = {name: run.rows - sum(shard.rows for shard in run.remaining(name)) for name in steps}
        say(f"run {run.store.uri}: " + ", ".join(f"{name} {count}/{run.rows} done" for name, count in done.items()))
        with ExtractionProgress(Console(stderr=True), done, run.rows) as progress:
            extract(run, steps, config, token, progress)
    return run


def check_limits(run: Run, config: Config) -> None:
    """Raise `WorkError` if more rows of a method failed than `limits.failed_share` allows."""
    for method in run_status(run).methods:
        bad = method.statuses.get(Status.FAILED, 0) + method.statuses.get(Status.DEAD, 0)
        if bad > config.limits.failed_share * run.rows:
            raise WorkError(
                f"{bad} of {run.rows} rows of {method.method} are failed or dead, "
                f"more than limits.failed_share ({config.limits.failed_share:.0%}) allows",
                where=run.store.uri,
                hint="`kgscale score` shows the reasons; the rows that are good are kept",
            )


@dataclass(frozen=True)
class _Driven:
    """A run directory as the drive loop sees it."""

    run: Run
    token: str

    @property
    def planned(self) -> list[Range]:
        return self.run.planned

    @property
    def shard_words(self) -> list[int]:
        return self.run.shard_words

    def remaining(self, method: str) -> list[Shard]:
        return self.run.remaining(method)

    def is_committed(self, shard: Shard) -> bool:
        return self.run.is_committed(shard)

    def commit_lost(self, shard: Shard, status: Status, error: str, attempts: int) -> None:
        reason = error if ": " in error else f"{status}: {error}"
        rows = [
            Extraction(it.chunk_id, it.row, it.doc_id, shard.method, status, error=reason, attempts=attempts)
            for it in self.run.read_chunks(shard.start, shard.stop)
        ]
        if not self.run.commit(shard, rows, self.token):
            raise WorkError("another driver has taken over this run", where=self.run.store.uri)


def steps_for(config: Config, methods: Sequence[str] | None) -> dict[str, Step]:
    """The steps of the named methods and of those they build on; all for null; `UserError` for an unknown name."""
    steps = plan_steps(config)
    for name in methods or ():
        if name not in steps:
            near = difflib.get_close_matches(name, steps, n=1)
            raise UserError(
                f"no method is named {name!r}",
                hint=f"did you mean {near[0]}?" if near else f"there are: {', '.join(steps)}",
            )
    return chosen_steps(steps, list(methods) if methods else None)


def extract(run: Run, steps: dict[str, Step], config: Config, token: str, observe: Observer) -> None:
    """Work off everything that the steps have left, on Ray.

    `config` gives the cluster and the limits, which may differ from one resume to the next. Raises `WorkError` when an
    engine does not start or nothing can be written, `Interrupted` after SIGINT or SIGTERM.
    """
    left = {name: step for name, step in steps.items() if run.remaining(name)}
    if not left:
        return
    engines = list(dict.fromkeys(step.engine for step in left.values()))
    log = EventLog(run.store)

    def tell(event: str, /, **fields: Any) -> None:
        log(event, **fields)
        observe(event, **fields)

    try:
        with _ray(config) as resources, _stop_signals() as stop:
            placement = place(config, engines, resources)
            tell("drive_started", methods=list(left), placement=placement.lines())
            cluster = RayCluster(ray_starters(placement, config, run.store.uri, token))
            policy = Policy(
                inflight=config.cluster.inflight,
                attempts=config.limits.attempts,
                deadline_s=config.limits.deadline_s,
                start_timeout_s=config.limits.start_timeout_s,
            )
            Drive(left, placement.pools, _Driven(run, token), cluster, policy, tell).run(stop)
            tell("drive_finished")
    except BaseException as error:
        log("drive_stopped", error=f"{type(error).__name__}: {error}")
        raise
    finally:
        log.close()


def placement_for(config: Config, engines: Sequence[str]) -> Placement:
    """Where the workers would go, told from this machine's hardware (or the cluster's, if the config names one)."""
    if cluster_address(config) is not None:
        with _ray(config) as resources:
            return place(config, list(engines), resources)
    gpus = config.cluster.num_gpus
    if gpus is None:
        import torch

        gpus = torch.cuda.device_count()
    return place(config, list(engines), Resources(config.cluster.num_cpus or os.cpu_count() or 1, gpus))


def cluster_address(config: Config) -> str | None:
    """The Ray cluster to join; null means a local one."""
    return config.cluster.address or os.environ.get("RAY_ADDRESS")


CORES_PER_GPU = 4
"""Cores that a GPU node has at least: an LLM, its front end and two GLiNER workers want one each."""


@contextmanager
def _ray(config: Config) -> Iterator[Resources]:
    """Join or start Ray, and leave it as it was found."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    address = cluster_address(config)
    mine = not ray.is_initialized()
    if mine:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            options |= {"num_cpus": config.cluster.num_cpus, "num_gpus": config.cluster.num_gpus}
            options["include_dashboard"] = False
        try:
            ray.init(address=address or "local", **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise WorkError(f"cannot join the Ray cluster {address}: {error}" if address else str(error)) from None
    try:
        has = ray.cluster_resources()
        cpus, gpus = has.get("CPU", 1.0), int(has.get("GPU", 0))
        # A cluster that grows on demand has not got its GPU nodes yet: it is asked for what the config says.
        to_come = max(0, (config.cluster.num_gpus or 0) - gpus)
        yield Resources(cpus + to_come * CORES_PER_GPU, gpus + to_come)
    finally:
        if mine:
            ray.shutdown()


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """The first SIGINT or SIGTERM asks the loop to stop; a second one stops at once."""
    asked: list[int] = []

    def ask(number: int, _frame: Any) -> None:
        if asked:
            os._exit(130)
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

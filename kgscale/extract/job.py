"""Extracting a run: Ray joined or started, the drive loop run, everything told to who listens."""

import difflib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Any

from kgscale.config import Config
from kgscale.errors import UserError, WorkError
from kgscale.events import EventLog
from kgscale.extract.directory import Driven, Retried
from kgscale.extract.drive import Drive, Interrupted, Observer, Policy
from kgscale.extract.forecast import forecast
from kgscale.extract.methods import Step, chosen_steps, plan_steps
from kgscale.extract.metrics import RayMetrics, metrics_address
from kgscale.extract.opening import Say, open_run, prepare_models, refuse_foreign, take_gold
from kgscale.extract.placement import Node, Placement, place
from kgscale.extract.progress import ExtractionProgress
from kgscale.extract.ray_cluster import RayCluster
from kgscale.extract.seating import Seating, cluster_nodes
from kgscale.extract.tally import Tally
from kgscale.lock import driver_lock
from kgscale.records import Status
from kgscale.retries import failed_shards, fold
from kgscale.runs import Run
from kgscale.status import run_status
from kgscale.store import Store
from kgscale.summary import FINISHED, DriveSummary
from kgscale.talk import console


def extract_run(
    config: Config, methods: Sequence[str] | None, say: Say, *, command: str, retry_failed: bool = False
) -> Run:
    """Make or resume the run of a resolved config and extract what is left, with progress on stderr.

    With `retry_failed`, failed and dead rows are tried again once everything is there. Raises `UserError` for a run
    made from something else or held by another driver, `WorkError` when the work cannot be done.
    """
    steps = steps_for(config, methods)
    refuse_foreign(config.run)
    prepare_models(config, steps, say)
    with driver_lock(Store(config.run), command) as token:
        run = open_run(config, say)
        run.clean()
        run.refuse_faults(steps)
        for name in run.methods:
            run.drop_doubles(name)
        fold(run)
        take_gold(run, config, say)
        left = {name: run.remaining(name) for name in steps}
        done = {name: run.rows - sum(shard.rows for shard in left[name]) for name in steps}
        say(f"run {run.store.uri}: " + ", ".join(f"{name} {count}/{run.rows} done" for name, count in done.items()))
        todo = {name: steps[name] for name, shards in left.items() if shards}
        with ExtractionProgress(console(stderr=True), done, run.rows) as progress:
            summary = extract(run, todo, config, token, progress)
        if retry_failed:
            if summary is not None:
                say(str(summary))
            _retry(run, steps, config, token, say)
    return run


def _retry(run: Run, steps: dict[str, Step], config: Config, token: str, say: Say) -> None:
    bad = {name: shards for name in steps if (shards := failed_shards(run, name))}
    rows = {name: sum(shard.rows for shard in shards) for name, shards in bad.items()}
    if not bad:
        say("no row is failed or dead")
        return
    say("trying failed rows again: " + ", ".join(f"{name} in {len(it)} shards" for name, it in bad.items()))
    done = {name: run.rows - count for name, count in rows.items()}
    with ExtractionProgress(console(stderr=True), done, run.rows) as progress:
        extract(run, {name: steps[name] for name in bad}, config, token, progress, retry=True)
    fold(run)


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


def extract(
    run: Run, steps: dict[str, Step], config: Config, token: str, observe: Observer, *, retry: bool = False
) -> DriveSummary | None:
    """Work off everything that the steps have left (with `retry`, their failed and dead rows), on Ray.

    Returns what it came to; null where nothing was left. `config` gives the cluster and the limits, which may differ
    from one resume to the next. Raises `WorkError` when an engine does not start or nothing can be written,
    `Interrupted` after SIGINT or SIGTERM.
    """
    if not steps:
        return None
    engine_of = {name: step.engine for name, step in steps.items()}
    engines = list(dict.fromkeys(engine_of.values()))
    directory = Retried(run, token) if retry else Driven(run, token)
    log = EventLog(run.store)
    try:
        with _stop_signals() as stop, _ray(config), _seating(run, engines, config, token, retry, stop) as seating:
            placement = seating.placement
            words = {name: _words_left(run, name) for name in steps}
            predicted = None if retry else forecast(config, steps, words, placement, run)
            left = {name: sum(shard.rows for shard in directory.remaining(name)) for name in steps}
            tally = Tally(engine_of)
            with closing(RayMetrics(engine_of, left)) as metrics:

                def tell(event: str, /, **fields: Any) -> None:
                    # The time of every chunk is in its row.
                    log(event, **{key: value for key, value in fields.items() if key != "service_ms"})
                    for it in (tally, metrics, observe):
                        it(event, **fields)

                tell(
                    "drive_started",
                    methods=list(steps),
                    placement=placement.lines(),
                    retry=retry,
                    predicted=predicted and asdict(predicted),
                    metrics=metrics_address(),
                )
                log.save()
                policy = Policy(
                    inflight=config.cluster.inflight,
                    attempts=config.limits.attempts,
                    deadline_s=config.limits.deadline_s,
                    start_timeout_s=config.limits.start_timeout_s,
                )
                Drive(steps, placement.pools, directory, RayCluster(seating), policy, tell).run(stop)
                summary = tally.summary(predicted, placement.gpus, config.cluster.gpu_hour_price)
                tell(FINISHED, **asdict(summary))
        log.close()
    except BaseException as error:
        log.give_up("drive_stopped", error=f"{type(error).__name__}: {error}")
        raise
    return summary


def _words_left(run: Run, method: str) -> float:
    left = 0.0
    for shard in run.remaining(method):
        plan = run.plan_of(shard.start)
        start, stop = run.planned[plan]
        left += run.shard_words[plan] * shard.rows / (stop - start)
    return left


@contextmanager
def _seating(
    run: Run, engines: list[str], config: Config, token: str, retry: bool, stop: Callable[[], bool]
) -> Iterator[Seating]:
    seating = Seating(config, engines, run.store.uri, token, retry=retry)
    try:
        seating.wait_for_gpus(stop)
        yield seating
    finally:
        seating.close()


def placement_for(config: Config, engines: Sequence[str]) -> Placement:
    """Where the workers would go, told from this machine's hardware (or the cluster's, if the config names one)."""
    if cluster_address(config) is not None:
        with _ray(config):
            return place(config, engines, cluster_nodes(config))
    gpus = config.cluster.num_gpus
    if gpus is None:
        import torch

        gpus = torch.cuda.device_count()
    return place(config, engines, [Node(config.cluster.num_cpus or os.cpu_count() or 1, gpus)])


def cluster_address(config: Config) -> str | None:
    """The Ray cluster to join; null means a local one."""
    return config.cluster.address or os.environ.get("RAY_ADDRESS")


@contextmanager
def _ray(config: Config) -> Iterator[None]:
    """Join or start Ray, and leave it as it was found."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    address = cluster_address(config)
    mine = not ray.is_initialized()
    if mine:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            options |= {"num_cpus": config.cluster.num_cpus, "num_gpus": config.cluster.num_gpus}
            options |= {"include_dashboard": False, "_metrics_export_port": config.cluster.metrics_port}
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=address or "local", **options)
            # Ray puts a handler of its own in the place of ours, which exits with 15 and says nothing.
            signal.signal(signal.SIGTERM, before)
        except SystemExit:
            raise Interrupted from None
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise WorkError(f"cannot join the Ray cluster {address}: {error}" if address else str(error)) from None
    try:
        yield
    finally:
        if mine:
            ray.shutdown()


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """The first SIGINT or SIGTERM stops whoever looks at what is yielded, and interrupts what does not; a second kills.

    While Ray is imported and starts, an exception out of a signal may be lost in a callback: it is found out later.
    """
    asked = looked_at = False

    def ask(_number: int, _frame: Any) -> None:
        nonlocal asked
        if asked:
            os._exit(130)
        asked = True
        if not looked_at:
            raise KeyboardInterrupt

    def stop() -> bool:
        nonlocal looked_at
        looked_at = True
        return asked

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

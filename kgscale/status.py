"""How far a run has come, told from its files alone, so that any machine can ask while it works."""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow.compute as pc

from kgscale.lock import current_driver
from kgscale.runs import EVENTS_FILE, Run, Shard
from kgscale.shards import doubled
from kgscale.store import StoreError
from kgscale.summary import DriveSummary, last_summary

RATE_FILES = 20
"""The rate is taken over so many of the latest files."""


@dataclass(frozen=True, slots=True)
class MethodStatus:
    """The progress of one method; the rate is of its latest commits, null where too few are there to tell."""

    method: str
    done: int
    total: int
    statuses: dict[str, int]
    chunks_per_s: float | None
    left_s: float | None
    last_commit_at: str | None
    """UTC, ISO 8601."""
    faults: list[str]
    """Committed files that are not what their names say; their rows are not counted."""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The progress of a run; `driver` says who works on it now, null if nobody does."""

    run: str
    driver: str | None
    methods: list[MethodStatus]
    last_event: str | None
    last_drive: DriveSummary | None
    """What the last work on it that came to its end amounted to."""


def run_status(run: Run) -> RunStatus:
    """Count what is committed, by method and status."""
    return RunStatus(
        run=run.store.uri,
        driver=current_driver(run.store),
        methods=[_method_status(run, method) for method in run.methods],
        last_event=_last_event(run),
        last_drive=last_summary(run),
    )


def _method_status(run: Run, method: str) -> MethodStatus:
    statuses: Counter[str] = Counter()
    commits: list[tuple[float, int]] = []
    faults = []
    ranges = run.committed(method)
    # What a killed driver left there twice counts once, as the next driver will have it.
    twice = set(doubled(ranges))
    for start, stop in (it for it in ranges if it not in twice):
        file = Shard(method, start, stop).file
        fault = run.fault(Shard(method, start, stop), quick=True)
        if fault is not None:
            faults.append(f"{file}: {fault}")
            continue
        try:
            column = run.table(file, ["status"])["status"]
        except StoreError as error:
            faults.append(f"{file}: {error.message}")
            continue
        statuses.update({it["values"]: it["counts"] for it in pc.value_counts(column).to_pylist()})
        commits.append((run.store.modified_s(file), stop - start))
    commits.sort()
    done = sum(statuses.values())
    recent = commits[-RATE_FILES:]
    seconds = recent[-1][0] - recent[0][0] if recent else 0.0
    # Files that were copied have all the same time, which tells nothing.
    rate = sum(rows for _, rows in recent[1:]) / seconds if seconds > 1 else None
    return MethodStatus(
        method=method,
        done=done,
        total=run.rows,
        statuses=dict(statuses),
        chunks_per_s=rate,
        left_s=(run.rows - done) / rate if rate else None,
        last_commit_at=datetime.fromtimestamp(commits[-1][0], UTC).isoformat(timespec="seconds") if commits else None,
        faults=faults,
    )


def _last_event(run: Run) -> str | None:
    if not run.store.exists(EVENTS_FILE):
        return None
    lines = run.store.read(EVENTS_FILE).decode(errors="replace").splitlines()
    for line in reversed(lines):
        try:
            event = json.loads(line)
            return f"{event['at']} {event['event']}"
        except (ValueError, KeyError, TypeError):
            continue
    return None

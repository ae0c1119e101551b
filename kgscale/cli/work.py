"""The commands that do the work of a run and look after it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgscale.cli.common import (
    AsJson,
    ConfigPath,
    Methods,
    NewRun,
    RunPath,
    Set,
    command_line,
    load,
    open_run,
    print_json,
    say,
    tell,
)
from kgscale.cli.judging import scores_of, show_scores, show_verdict, verdict_if_any, verdict_record

if TYPE_CHECKING:
    from kgscale.config import Config
    from kgscale.runs import Run


def run(config: ConfigPath, set_: Set = None, new_run: NewRun = False, as_json: AsJson = False) -> None:
    """Do all of it: prepare, extract, score, compare, report. What is done already is not done again."""
    from kgscale.report.html import write_report
    from kgscale.summary import last_summary

    opened, settings = _extract(config, set_, None, new_run=new_run)
    summary = last_summary(opened)
    scores = scores_of(opened)
    verdict = verdict_if_any(opened, scores)
    if as_json:
        found = {
            "run": opened.store.uri,
            "scores": json.loads(scores.to_json()),
            "verdict": verdict_record(verdict),
            "drive": asdict(summary) if summary is not None else None,
        }
        print_json(found)
    else:
        if summary is not None:
            tell(f"Extraction {summary}")
        show_scores(scores)
        if verdict is not None:
            show_verdict(verdict)
        tell(f"\nThe results are in {opened.store.uri}: scores.json, scores/*.parquet, extractions/*/*.parquet")
        tell(f"The report: {write_report(opened, scores, verdict)}")
    _check_limits(opened, settings)


def extract(
    config: ConfigPath,
    set_: Set = None,
    method: Methods = None,
    new_run: NewRun = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also try failed and dead rows again; good rows stay as they are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Extract what is not committed yet."""
    opened, settings = _extract(config, set_, method, new_run=new_run, retry_failed=retry_failed)
    _print_status(opened, as_json=as_json)
    _check_limits(opened, settings)


def plan(config: ConfigPath, set_: Set = None, method: Methods = None, as_json: AsJson = False) -> None:
    """Show what a run would do, where, and what is done already. Runs nothing, writes nothing."""
    from kgscale.extract.planning import plan_run

    planned = plan_run(load(config, set_), method, say)
    print_json(asdict(planned)) if as_json else tell(planned)


def status(run: RunPath, as_json: AsJson = False) -> None:
    """Show how far a run has come, from its files alone: any machine may ask, while the run works."""
    _print_status(open_run(run), as_json=as_json)


def verify(
    run: RunPath,
    repair: Annotated[
        bool, typer.Option("--repair", help="Set damaged files aside, so that `kgscale extract` does their rows anew.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check that every row is there once and every file is what it says. Exits with 1 if not."""
    from kgscale.lock import current_driver
    from kgscale.repair import set_aside
    from kgscale.verify import verify as check

    opened = open_run(run)
    found = check(opened)
    if repair and not found.passed:
        for name in set_aside(opened, found, command_line()):
            say(f"set aside: {name}")
        found = check(opened)
    if as_json:
        print_json({"passed": found.passed, **asdict(found)})
    else:
        for problem in found.problems:
            tell(f"✗ {problem}")
        rows = ", ".join(f"{method} {count}" for method, count in found.rows.items())
        result = "whole" if found.passed else f"{len(found.problems)} problems"
        if not found.passed:
            damaged = any(problem.damaged for problem in found.problems)
            if driver := current_driver(opened.store):
                tell(f"worked on by {driver}: what is missing may still come")
            hint = "`kgscale verify --repair` sets damaged files aside; then run" if damaged else "Run"
            tell(f"{hint} `kgscale extract` again: only the rows that are missing are done.")
        tell(f"{opened.store.uri}: {result}; {found.chunks} chunks; rows: {rows}; {found.files} files")
    if not found.passed:
        raise typer.Exit(1)


def _extract(
    path: Path, overrides: list[str] | None, methods: list[str] | None, *, new_run: bool, retry_failed: bool = False
) -> tuple["Run", "Config"]:
    from kgscale.extract.job import extract_run
    from kgscale.extract.opening import free_run_path
    from kgscale.runs import Run

    config = load(path, overrides)
    if new_run and Run.exists(config.run):
        config = config.model_copy(update={"run": free_run_path(config.run)})
        say(f"a fresh run: {config.run}")
    return extract_run(config, methods, say, command=command_line(), retry_failed=retry_failed), config


def _check_limits(run: "Run", config: "Config") -> None:
    from kgscale.extract.job import check_limits

    check_limits(run, config)


def _print_status(run: "Run", *, as_json: bool) -> None:
    from kgscale.status import run_status
    from kgscale.summary import duration

    found = run_status(run)
    if as_json:
        print_json(asdict(found))
        return
    tell(f"{found.run}: {'worked on by ' + found.driver if found.driver else 'no driver at work'}")
    for it in found.methods:
        statuses = ", ".join(f"{count} {name}" for name, count in sorted(it.statuses.items()))
        left = f", {duration(it.left_s)} left" if found.driver and it.left_s else ""
        rate = f"; {it.chunks_per_s:.1f} chunks/s{'' if found.driver else ' at last'}{left}" if it.chunks_per_s else ""
        tell(f"  {it.method:<16} {it.done}/{it.total} ({statuses or 'nothing yet'}){rate}")
        for fault in it.faults:
            tell(f"    ✗ {fault}")
    if found.last_drive:
        tell(f"  last drive: {found.last_drive}")
    if found.last_event:
        tell(f"  last event: {found.last_event}")

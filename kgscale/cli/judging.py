"""The commands that score, compare and report."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgscale.cli.common import AsJson, Methods, RunPath, choice, open_run, print_json, say, show, tell

if TYPE_CHECKING:
    from kgscale.config import CompareConfig
    from kgscale.runs import Run
    from kgscale.score.results import Scores
    from kgscale.score.verdict import Verdict


def score(run: RunPath, as_json: AsJson = False) -> None:
    """Score every method against the gold, and write scores.json and scores/*.parquet."""
    scores = scores_of(open_run(run))
    if as_json:
        print_json(json.loads(scores.to_json()))
    else:
        show_scores(scores)


def compare(
    run: RunPath,
    baseline: Annotated[str | None, typer.Option(help="The trusted method; by default the config's.")] = None,
    candidate: Annotated[str | None, typer.Option(help="The method that may replace it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether the candidate may replace the baseline. Exits with 3 if not: lost quality is never passed over."""
    opened = open_run(run)
    named = {"baseline": baseline, "candidate": candidate}
    rules = opened.config.compare.model_copy(update={key: name for key, name in named.items() if name is not None})
    scores_of(opened)
    verdict = verdict_of(opened, rules)
    if as_json:
        print_json(verdict_record(verdict))
    else:
        show_verdict(verdict)
    if not verdict.passed:
        raise typer.Exit(3)


def gate(
    run: RunPath,
    against: Annotated[str, typer.Option(help="The older run, or its config file.")],
    max_drop: Annotated[list[str], typer.Option(metavar="METRIC=SHARE", help="For example entity_f1=0.02.")],
    method: Methods = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a metric fell since an older run. Exits with 3 if a drop is significant and larger than allowed."""
    from kgscale.score.gate import gate as check
    from kgscale.score.gate import max_drop as parse

    now, then = open_run(run), open_run(against)
    for it in (now, then):
        scores_of(it)
    result = check(now, then, [parse(text) for text in max_drop], method or ())
    if as_json:
        print_json(asdict(result))
    else:
        from kgscale.report.terminal_verdict import gate_view

        show(gate_view(result))
    if not result.passed:
        raise typer.Exit(3)


def history(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A directory that holds scored runs.")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page with charts.")] = None,
    lang: Annotated[str, typer.Option(help="Of the page: en or zh.")] = "en",
    as_json: AsJson = False,
) -> None:
    """Show the metrics of many runs, newest last, and how far repeats of the same methods scatter."""
    from kgscale.score.history import history as read

    language = choice("--lang", lang, ("en", "zh"))
    found = read(folder)
    for it in found.damaged:
        say(f"left out: {it}")
    if as_json:
        print_json(asdict(found))
    else:
        from kgscale.report.terminal_verdict import history_view, spreads_view

        show(history_view(found.entries))
        if found.spreads:
            show(spreads_view(found.spreads))
    if html is not None:
        from kgscale.report.history import write_history

        say(f"The page: {write_history(found, html, lang=language)}")


def report(
    run: RunPath,
    form: Annotated[
        str, typer.Option("--format", help="html (a file in the run directory), md or json (printed).")
    ] = "html",
    lang: Annotated[str, typer.Option(help="en or zh.")] = "en",
) -> None:
    """Write the report: one HTML file that opens offline, or Markdown for a pull request."""
    from kgscale.report.html import write_report
    from kgscale.report.markdown import report_markdown

    opened = open_run(run)
    language = choice("--lang", lang, ("en", "zh"))
    shape = choice("--format", form, ("html", "md", "json"))
    scores = scores_of(opened)
    verdict = verdict_if_any(opened, scores)
    if shape == "html":
        tell(write_report(opened, scores, verdict, lang=language))
    elif shape == "md":
        tell(report_markdown(scores, verdict, lang=language))
    else:
        print_json({"scores": json.loads(scores.to_json()), "verdict": verdict_record(verdict)})


def scores_of(run: "Run") -> "Scores":
    """Score every method of a run; the files in it are written anew."""
    from kgscale.score.scorer import score_run

    return score_run(run)


def verdict_of(run: "Run", rules: "CompareConfig") -> "Verdict":
    """Whether the candidate of the rules may replace their baseline."""
    from kgscale.score.compare import compare_run

    return compare_run(run, rules)


def verdict_if_any(run: "Run", scores: "Scores") -> "Verdict | None":
    """Null where the run has not both methods."""
    rules = run.config.compare
    both = {rules.baseline, rules.candidate} <= {it.method for it in scores.methods}
    return verdict_of(run, rules) if both else None


def show_scores(scores: "Scores") -> None:
    """Print the scores as tables."""
    from kgscale.report.terminal import scores_view

    show(scores_view(scores))


def show_verdict(verdict: "Verdict") -> None:
    """Print the verdict, after what the samples behind it are."""
    from kgscale.report.terminal_verdict import samples_view, verdict_view

    if verdict.samples:
        show(samples_view(verdict.samples))
    show(verdict_view(verdict))


def verdict_record(verdict: "Verdict | None") -> dict[str, Any] | None:
    """The verdict for machines."""
    from kgscale.report.telling import verdict_json

    return verdict_json(verdict) if verdict else None

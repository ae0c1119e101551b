"""The commands; what they do is in the rooms that they import when they run."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgscale.errors import KgscaleError, UserError
from kgscale.finetune_cli import training
from kgscale.gold_cli import gold as gold_sets

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kgscale.config import CompareConfig, Config
    from kgscale.runs import Run
    from kgscale.score.results import Scores
    from kgscale.score.verdict import Verdict

app = typer.Typer(
    help="May a cheaper way of extracting a knowledge graph replace the one you trust? Decided on the whole corpus.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
models = typer.Typer(help="The small default models: what there is, and where they are.", no_args_is_help=True)
app.add_typer(models, name="models")
app.add_typer(gold_sets, name="gold")
app.add_typer(training, name="finetune")

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="The config file (YAML).")]
RunPath = Annotated[str, typer.Argument(metavar="RUN", help="A run directory, or the config file of the run.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a field of the config, e.g. llm.model=Qwen/Qwen3-4B."),
]
Methods = Annotated[
    list[str] | None, typer.Option("--method", "-m", metavar="NAME", help="Only this method; may be given again.")
]
NewRun = Annotated[bool, typer.Option("--new-run", help="Start a fresh run beside the one that is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.command()
def run(config: ConfigPath, set_: Set = None, new_run: NewRun = False, as_json: AsJson = False) -> None:
    """Do all of it: prepare, extract, score, compare, report. What is done already is not done again."""
    from kgscale.report.html import write_report

    opened, settings = _extract(config, set_, None, new_run=new_run)
    scores = _scores(opened)
    verdict = _verdict_if_any(opened, scores)
    if as_json:
        found = {
            "run": opened.store.uri,
            "scores": json.loads(scores.to_json()),
            "verdict": _verdict_json(verdict),
        }
        _print_json(found)
    else:
        _show_scores(scores)
        if verdict is not None:
            _show_verdict(verdict)
        typer.echo(f"\nThe results are in {opened.store.uri}: scores.json, scores/*.parquet, extractions/*/*.parquet")
        typer.echo(f"The report: {write_report(opened, scores, verdict)}")
    _check_limits(opened, settings)


@app.command()
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


@app.command()
def plan(config: ConfigPath, set_: Set = None, method: Methods = None, as_json: AsJson = False) -> None:
    """Show what a run would do, where, and what is done already. Runs nothing, writes nothing."""
    from kgscale.extract.planning import plan_run

    planned = plan_run(_load(config, set_), method, _say)
    typer.echo(json.dumps(asdict(planned), ensure_ascii=False) if as_json else str(planned))


@app.command()
def status(run: RunPath, as_json: AsJson = False) -> None:
    """Show how far a run has come, from its files alone: any machine may ask, while the run works."""
    _print_status(_open(run), as_json=as_json)


@app.command()
def verify(
    run: RunPath,
    repair: Annotated[
        bool, typer.Option("--repair", help="Set damaged files aside, so that `kgscale extract` does their rows anew.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check that every row is there once and every file is what it says. Exits with 1 if not."""
    from kgscale.repair import set_aside
    from kgscale.verify import verify as check

    opened = _open(run)
    found = check(opened)
    if repair and not found.passed:
        for name in set_aside(opened, found, _command()):
            _say(f"set aside: {name}")
        found = check(opened)
    if as_json:
        _print_json({"passed": found.passed, **asdict(found)})
    else:
        for problem in found.problems:
            typer.echo(f"✗ {problem}")
        rows = ", ".join(f"{method} {count}" for method, count in found.rows.items())
        result = "whole" if found.passed else f"{len(found.problems)} problems"
        if not found.passed:
            damaged = any(problem.damaged for problem in found.problems)
            hint = "`kgscale verify --repair` sets damaged files aside; then run" if damaged else "Run"
            typer.echo(f"{hint} `kgscale extract` again: only the rows that are missing are done.")
        typer.echo(f"{opened.store.uri}: {result}; {found.chunks} chunks; rows: {rows}; {found.files} files")
    if not found.passed:
        raise typer.Exit(1)


@app.command()
def score(run: RunPath, as_json: AsJson = False) -> None:
    """Score every method against the gold, and write scores.json and scores/*.parquet."""
    scores = _scores(_open(run))
    if as_json:
        typer.echo(scores.to_json())
    else:
        _show_scores(scores)


@app.command()
def compare(
    run: RunPath,
    baseline: Annotated[str | None, typer.Option(help="The trusted method; by default the config's.")] = None,
    candidate: Annotated[str | None, typer.Option(help="The method that may replace it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether the candidate may replace the baseline. Exits with 3 if not: lost quality is never passed over."""
    opened = _open(run)
    named = {"baseline": baseline, "candidate": candidate}
    rules = opened.config.compare.model_copy(update={key: name for key, name in named.items() if name is not None})
    _scores(opened)
    verdict = _verdict(opened, rules)
    if as_json:
        _print_json(_verdict_json(verdict))
    else:
        _show_verdict(verdict)
    if not verdict.passed:
        raise typer.Exit(3)


@app.command()
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

    now, then = _open(run), _open(against)
    for it in (now, then):
        _scores(it)
    result = check(now, then, [parse(text) for text in max_drop], method or ())
    if as_json:
        _print_json(asdict(result))
    else:
        from kgscale.report.terminal_verdict import gate_view

        _show(gate_view(result))
    if not result.passed:
        raise typer.Exit(3)


@app.command()
def history(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A directory that holds scored runs.")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page with charts.")] = None,
    lang: Annotated[str, typer.Option(help="Of the page: en or zh.")] = "en",
    as_json: AsJson = False,
) -> None:
    """Show the metrics of many runs, newest last, and how far repeats of the same methods scatter."""
    from kgscale.score.history import history as read

    language = _choice("--lang", lang, ("en", "zh"))
    found = read(folder)
    for it in found.damaged:
        _say(f"left out: {it}")
    if as_json:
        _print_json(asdict(found))
    else:
        from kgscale.report.terminal_verdict import history_view, spreads_view

        _show(history_view(found.entries))
        if found.spreads:
            _show(spreads_view(found.spreads))
    if html is not None:
        from kgscale.report.history import write_history

        _say(f"The page: {write_history(found, html, lang=language)}")


@app.command()
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

    opened = _open(run)
    language = _choice("--lang", lang, ("en", "zh"))
    shape = _choice("--format", form, ("html", "md", "json"))
    scores = _scores(opened)
    verdict = _verdict_if_any(opened, scores)
    if shape == "html":
        typer.echo(write_report(opened, scores, verdict, lang=language))
    elif shape == "md":
        typer.echo(report_markdown(scores, verdict, lang=language))
    else:
        _print_json({"scores": json.loads(scores.to_json()), "verdict": _verdict_json(verdict)})


@app.command()
def convert(
    src: Annotated[Path, typer.Argument(help="File or directory in another tool's format.")],
    dst: Annotated[Path, typer.Argument(help="Directory to write into, or the file where the format has just one.")],
    from_: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Format of SRC; by default guessed from its content.")
    ] = None,
    to: Annotated[
        str, typer.Option(metavar="FORMAT", help="Format of DST; `run` makes extractions a method that can be scored.")
    ] = "guide",
    method: Annotated[
        str | None, typer.Option(help="With --to run: name of the method; by default the format's.")
    ] = None,
    gold: Annotated[Path | None, typer.Option(help="With --to run: the gold to score against.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Make anything that does not fit an error.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn another tool's files into a corpus with gold, into a third tool's, or into a run. See docs/formats.md."""
    from kgscale.formats import convert_files

    report = convert_files(src, dst, from_, to, method=method, gold=gold, strict=strict, say=_say)
    for kind, count in report.problems.counts.items():
        shown = [it for it in report.problems.first if it.message.startswith(kind)][:5]
        for problem in shown:
            _say(str(problem))
        if count > len(shown):
            _say(f"… and {count - len(shown):,} more: {kind}")
    counts = {name: getattr(report, name) for name in ("chunks", "entities", "mentions", "relations", "skipped")}
    typer.echo(json.dumps(counts) if as_json else ", ".join(f"{count} {name}" for name, count in counts.items()))


@models.command("list")
def models_list(as_json: AsJson = False) -> None:
    """List the default models."""
    from kgscale.pretrained import available

    found = available()
    if as_json:
        _print_json([asdict(model) for model in found])
        return
    for model in found:
        typer.echo(f"{model.name:<16} {model.kind:<7} {model.summary} ({model.licence})")


@models.command("prepare")
def models_prepare(name: Annotated[str, typer.Argument(help="A name from `kgscale models list`.")]) -> None:
    """Prepare a default model and print its directory, which the plain libraries can load."""
    from kgscale.pretrained import prepare

    typer.echo(prepare(name, say=_say))


def main(arguments: list[str] | None = None) -> None:
    """Run a command; the exit codes are 0 done, 1 failed, 2 the user's mistake, 3 not passed, 130 interrupted."""
    try:
        app(arguments)
    except KgscaleError as error:
        typer.echo(f"kgscale: {error}", err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, InterruptedError):
        typer.echo("kgscale: interrupted; what was committed stays, run the same command to go on", err=True)
        sys.exit(130)


def _load(config: Path, overrides: list[str] | None) -> "Config":
    from kgscale.configfile import load_config
    from kgscale.extract.opening import resolve

    return resolve(load_config(config, overrides or ()))


def _open(path: str) -> "Run":
    from kgscale.runs import Run

    return Run(_load(Path(path), None).run if path.endswith((".yaml", ".yml")) else path)


def _extract(
    path: Path, overrides: list[str] | None, methods: list[str] | None, *, new_run: bool, retry_failed: bool = False
) -> tuple["Run", "Config"]:
    from kgscale.extract.job import extract_run
    from kgscale.extract.opening import free_run_path
    from kgscale.runs import Run

    config = _load(path, overrides)
    if new_run and Run.exists(config.run):
        config = config.model_copy(update={"run": free_run_path(config.run)})
        _say(f"a fresh run: {config.run}")
    return extract_run(config, methods, _say, command=_command(), retry_failed=retry_failed), config


def _command() -> str:
    """The command as it was typed, for whoever asks who holds a run."""
    return " ".join(["kgscale", *sys.argv[1:]])


def _check_limits(run: "Run", config: "Config") -> None:
    from kgscale.extract.job import check_limits

    check_limits(run, config)


def _scores(run: "Run") -> "Scores":
    from kgscale.score.scorer import score_run

    return score_run(run)


def _verdict(run: "Run", rules: "CompareConfig") -> "Verdict":
    from kgscale.score.compare import compare_run

    return compare_run(run, rules)


def _verdict_if_any(run: "Run", scores: "Scores") -> "Verdict | None":
    """Null where the run has not both methods."""
    rules = run.config.compare
    both = {rules.baseline, rules.candidate} <= {it.method for it in scores.methods}
    return _verdict(run, rules) if both else None


def _choice(option: str, value: str, allowed: tuple[str, ...]) -> Any:
    if value not in allowed:
        raise UserError(f"{option} {value}: it is one of {', '.join(allowed)}")
    return value


def _show_scores(scores: "Scores") -> None:
    from kgscale.report.terminal import scores_view

    _show(scores_view(scores))


def _show_verdict(verdict: "Verdict") -> None:
    from kgscale.report.terminal_verdict import samples_view, verdict_view

    if verdict.samples:
        _show(samples_view(verdict.samples))
    _show(verdict_view(verdict))


def _verdict_json(verdict: "Verdict | None") -> dict[str, Any] | None:
    from kgscale.report.telling import verdict_json

    return verdict_json(verdict) if verdict else None


def _show(view: "RenderableType") -> None:
    from rich.console import Console

    Console().print(view)


def _print_status(run: "Run", *, as_json: bool) -> None:
    from kgscale.status import run_status

    found = run_status(run)
    if as_json:
        _print_json(asdict(found))
        return
    typer.echo(f"{found.run}: {'worked on by ' + found.driver if found.driver else 'no driver at work'}")
    for it in found.methods:
        statuses = ", ".join(f"{count} {name}" for name, count in sorted(it.statuses.items()))
        rate = f"; {it.chunks_per_s:.1f} chunks/s, {it.left_s:.0f} s left" if it.chunks_per_s and it.left_s else ""
        typer.echo(f"  {it.method:<16} {it.done}/{it.total} ({statuses or 'nothing yet'}){rate}")
        for fault in it.faults:
            typer.echo(f"    ✗ {fault}")
    if found.last_event:
        typer.echo(f"  last event: {found.last_event}")


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


def _say(text: str) -> None:
    typer.echo(text, err=True)

"""The commands of `kgscale gold`; what they do is in `kgscale.gold`."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgscale.cli.common import AsJson, choice, print_json, say, show, tell
from kgscale.errors import UserError

if TYPE_CHECKING:
    from kgscale.gold.sets import Settings

gold = typer.Typer(help="Gold sets: sample, annotate, review, compare, check.", no_args_is_help=True)

Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write.")]
GoldPath = Annotated[Path, typer.Argument(metavar="GOLD", help="A gold file: the guide's JSON, or gold.parquet.")]
ConfigOrRun = Annotated[
    str | None, typer.Option("--config", metavar="CONFIG|RUN", help="A config file or a run, for its schema.")
]


@gold.command()
def sample(
    src: Annotated[
        str, typer.Argument(metavar="CORPUS|RUN", help="A run, a config file, or a corpus (cut into default chunks).")
    ],
    out: Out,
    size: Annotated[int, typer.Option("-n", min=1, help="How many chunks.")] = 100,
    by: Annotated[str, typer.Option(help="random, stratified, or informative (where a run's methods disagree).")] = (
        "random"
    ),
    seed: Annotated[int, typer.Option(help="The same seed draws the same chunks.")] = 0,
    exclude: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Draw nothing that is in this sample or gold; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw chunks to annotate, each at most once; the file is a corpus of its own."""
    from kgscale.gold.sample import By, write_sample

    drawn = write_sample(src, out, size, By(choice("--by", by, tuple(By))), seed, exclude or [], say)
    languages = ", ".join(f"{name} {count}" for name, count in drawn.languages.items())
    told = f"{out}: {drawn.chunks:,} of {drawn.pool:,} chunks, of {drawn.documents:,} documents"
    _tell(asdict(drawn), told + (f" ({languages})" if languages else ""), as_json=as_json)
    if drawn.by is By.INFORMATIVE:
        say("These chunks were picked for their difficulty: scores on them do not hold for the corpus.")


@gold.command()
def annotate(
    src: Annotated[Path, typer.Argument(metavar="SAMPLE", help="A sample, or a gold file to annotate anew.")],
    out: Out,
    model: Annotated[list[str], typer.Option(help="The model, as its endpoint names it; several vote.")],
    endpoint: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="OpenAI-compatible; once, or once per model.")
    ] = None,
    api_key_env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Environment variable with the endpoint's key; `none` for none."),
    ] = None,
    config: ConfigOrRun = None,
    price_in: Annotated[
        list[float] | None, typer.Option(help="Dollars per million tokens of prompt; once, or once per model.")
    ] = None,
    price_out: Annotated[
        list[float] | None, typer.Option(help="Dollars per million tokens of answer; once, or once per model.")
    ] = None,
    needed: Annotated[
        int | None, typer.Option(help="How many models must agree; by default more than half of them.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight at once, per model.")] = 8,
    retries: Annotated[int, typer.Option(min=0, help="Further tries after 429, 5xx and time-outs.")] = 8,
    timeout: Annotated[float, typer.Option(help="Longest wait for one answer, in seconds.")] = 120.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer; a longer one is no gold.")] = 4096,
    answer: Annotated[str, typer.Option(help="Form of the JSON: objects, or arrays (short; for small models).")] = (
        "objects"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the models' sampling.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make pseudo-gold with a strong model, or several that vote. The same command goes on after a stop.

    Exits with 1 if some chunks could not be annotated; those are left out.
    """
    from kgscale.gold.annotate import Panel, write_pseudo_gold
    from kgscale.gold.annotator import Annotator, annotating_engine

    settings = _settings(config)
    limits = {"concurrency": concurrency, "retries": retries, "timeout_s": timeout, "max_tokens": max_tokens}
    asked = {**limits, "answer": choice("--answer", answer, ("objects", "arrays"))}
    annotators: list[Annotator] = []
    for at, name in enumerate(model):
        engine = annotating_engine(
            name, _nth("--endpoint", endpoint, at, model), _nth("--api-key-env", api_key_env, at, model), asked
        )
        prices = (_nth("--price-in", price_in, at, model), _nth("--price-out", price_out, at, model))
        annotators.append(Annotator.of(engine, settings.schema, prices))
    panel = Panel.of(annotators, settings.schema, needed)
    made = write_pseudo_gold(src, out, panel, seed, agree=lambda told: _agree(told, yes=yes), say=say)
    for reason, count in made.reasons.items():
        say(f"{count:,} × {reason}")
    for cost in made.costs:
        say(f"took {cost}")
    told = f"{out}: {made.chunks:,} chunks, {made.entities:,} entities, {made.relations:,} relations"
    if made.failed:
        told += f"; {made.failed:,} chunks have no usable answer, run the same command to try them again"
    _tell(asdict(made), told, as_json=as_json)
    if made.failed:
        raise typer.Exit(1)


@gold.command()
def review(
    src: Annotated[Path, typer.Argument(metavar="GOLD", help="A gold file, or a sample without annotation.")],
    out: Out,
    tool: Annotated[str, typer.Option(help="html (a page that works offline) or label-studio (tasks and config).")] = (
        "html"
    ),
    config: ConfigOrRun = None,
    lang: Annotated[str, typer.Option(help="Of the page: en or zh.")] = "en",
    as_json: AsJson = False,
) -> None:
    """Write gold for people to review: one key each to accept, fix or reject."""
    from kgscale.formats.labelstudio import config_of
    from kgscale.gold.review import Tool, write_review

    chosen = Tool(choice("--tool", tool, tuple(Tool)))
    chunks = write_review(
        src, out, chosen, _settings(config).schema if config else None, say, lang=choice("--lang", lang, ("en", "zh"))
    )
    told = f"{out}: {chunks:,} chunks"
    if chosen is Tool.HTML:
        told += "; open it in a browser, and save reviewed.json"
    else:
        told += f"; {config_of(out).name} is its config; `kgscale gold import` reads the export (JSON)"
    _tell({"chunks": chunks}, told, as_json=as_json)


@gold.command("import")
def import_(
    src: Annotated[Path, typer.Argument(metavar="GOLD", help="The file that was sent for review.")],
    export: Annotated[Path, typer.Argument(help="Label Studio's export (JSON, not JSON-MIN).")],
    out: Out,
    as_json: AsJson = False,
) -> None:
    """Take what was reviewed in Label Studio back as gold."""
    from kgscale.gold.review import take_reviewed

    taken = take_reviewed(src, export, out, say)
    told = f"{out}: {taken.chunks:,} chunks reviewed; {taken.unreviewed:,} are not, and are left out"
    _tell(asdict(taken), told, as_json=as_json)


@gold.command()
def agreement(
    first: Annotated[Path, typer.Argument(help="A gold file: one annotator, or the pseudo-gold.")],
    second: Annotated[Path, typer.Argument(help="Another one of the same chunks.")],
    config: ConfigOrRun = None,
    as_json: AsJson = False,
) -> None:
    """Compare two annotations of the same chunks: F1, Cohen's kappa on aligned spans, every disagreement."""
    from kgscale.gold.agreement import agreement as compare
    from kgscale.gold.sets import read_annotation

    found = compare(read_annotation(first, say), read_annotation(second, say), _settings(config).schema)
    if as_json:
        print_json(asdict(found))
    else:
        from kgscale.report.gold import agreement_view

        show(agreement_view(found))


@gold.command()
def check(
    src: GoldPath,
    config: ConfigOrRun = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Training data, prompts, few-shot examples (file or directory); repeatable."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there is a fault.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look for what makes a gold set mean less than it seems to: contamination, duplicates, loose ends, gaps."""
    from kgscale.gold.check import check_gold

    found = check_gold(src, _settings(config), against or [], has_schema=config is not None)
    if as_json:
        print_json({**asdict(found), "faults": found.faults})
    else:
        from kgscale.report.gold import checked_view

        show(checked_view(found))
    if strict and found.faults:
        raise typer.Exit(1)


def _settings(path: str | None) -> "Settings":
    from kgscale.gold.sets import read_settings

    return read_settings(path)


def _nth(option: str, given: list[Any] | None, at: int, models: list[str]) -> Any:
    """The value for one model of an option that is given once, or once per model; null where it is not given."""
    if not given:
        return None
    if len(given) not in (1, len(models)):
        raise UserError(f"{option} stands {len(given)} times: give it once, or once for each of {len(models)} models")
    return given[at if len(given) > 1 else 0]


def _agree(told: str, *, yes: bool) -> bool:
    say(told)
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UserError("nobody is there to agree to the cost", hint="say --yes")
    return typer.confirm("Go on?", err=True)


def _tell(found: dict[str, Any], told: str, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        tell(told)

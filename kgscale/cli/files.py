"""The commands for other tools' files, and for the default models."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kgscale.cli.common import AsJson, print_json, say, tell

models = typer.Typer(help="The small default models: what there is, and where they are.", no_args_is_help=True)


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

    report = convert_files(src, dst, from_, to, method=method, gold=gold, strict=strict, say=say)
    for kind, count in report.problems.counts.items():
        shown = [it for it in report.problems.first if it.message.startswith(kind)][:5]
        for problem in shown:
            say(str(problem))
        if count > len(shown):
            say(f"… and {count - len(shown):,} more: {kind}")
    counts = {name: getattr(report, name) for name in ("chunks", "entities", "mentions", "relations", "skipped")}
    print_json(counts) if as_json else tell(", ".join(f"{count} {name}" for name, count in counts.items()))


@models.command("list")
def models_list(as_json: AsJson = False) -> None:
    """List the default models."""
    from kgscale.pretrained import available

    found = available()
    if as_json:
        print_json([asdict(model) for model in found])
        return
    for model in found:
        tell(f"{model.name:<20} {model.kind:<7} {model.summary} ({model.licence})")


@models.command("prepare")
def models_prepare(name: Annotated[str, typer.Argument(help="A name from `kgscale models list`.")]) -> None:
    """Prepare a default model and print its directory, which the plain libraries can load."""
    from kgscale.pretrained import prepare

    tell(prepare(name, say=say))

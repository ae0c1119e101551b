"""What the commands share: their arguments, and how results and talk are printed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgscale.errors import UserError
from kgscale.talk import console, json_line, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kgscale.config import Config
    from kgscale.runs import Run

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


def load(config: Path, overrides: list[str] | None) -> "Config":
    """The config of a file, with its models found and their settings resolved."""
    from kgscale.configfile import load_config
    from kgscale.extract.opening import resolve

    return resolve(load_config(config, overrides or ()))


def open_run(path: str) -> "Run":
    """The run of a run directory, or of a config file: then what that says of judging rows counts."""
    from kgscale.runs import Run

    if not path.endswith((".yaml", ".yml")):
        return Run(path)
    config = load(Path(path), None)
    run = Run(config.run)
    run.config = judged_by(run.config, config)
    return run


def judged_by(made: "Config", now: "Config") -> "Config":
    """The config that rows were made under, with another's `compare` and aliases, which only their scores depend on."""
    schema = made.schema_.model_copy(update={"aliases": now.schema_.aliases})
    return made.model_copy(update={"compare": now.compare, "schema_": schema})


def command_line() -> str:
    """The command as it was typed, for whoever asks who holds a run."""
    return " ".join(["kgscale", *sys.argv[1:]])


def choice(option: str, value: str, allowed: tuple[str, ...]) -> Any:
    """The value of an option, if it is one of those allowed; else a `UserError` that names them."""
    if value not in allowed:
        raise UserError(f"{option} {value}: it is one of {', '.join(allowed)}")
    return value


def show(view: "RenderableType") -> None:
    """Print tables and the like as results."""
    console().print(view)


def print_json(value: Any) -> None:
    """Print one JSON document for machines."""
    typer.echo(json_line(value))


def tell(text: object) -> None:
    """Print a result on stdout."""
    typer.echo(visible(str(text)))


def say(text: str) -> None:
    """Talk on stderr: stdout is for results."""
    typer.echo(visible(text), err=True)

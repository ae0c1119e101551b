"""Writes docs/reference.md from the code: every config field with its default and meaning, every command."""

from pathlib import Path
from typing import Any, get_args

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from kgscale.cli import app
from kgscale.config import ENGINE_KINDS, Config, Fallback, MethodConfig, RelationType

REFERENCE = Path(__file__).parent / "reference.md"


def reference() -> str:
    """The whole page."""
    parts = [
        "# Reference",
        "Made from the code by `make docs`; do not edit.",
        "## Config",
        "A YAML file. `--set KEY=VALUE` overrides a field; an engine's name may stand for `engines.<name>`.",
        *_section(Config, ""),
    ]
    for kind, engine in ENGINE_KINDS.items():
        parts += [f"### `engines.<name>` with `kind: {kind}`", _first_line(engine), _table(engine)]
    parts += ["### `methods.<name>`", _first_line(MethodConfig), _table(MethodConfig)]
    parts += ["### `methods.<name>.fallback`", _first_line(Fallback), _table(Fallback)]
    parts += ["### `schema.relation_types.<name>`", _first_line(RelationType), _table(RelationType)]
    parts += ["## Commands", *_commands(typer.main.get_command(app), "kgscale")]
    parts += ["## Exit codes", EXIT_CODES]
    return "\n\n".join(parts) + "\n"


EXIT_CODES = """| code | means |
|---|---|
| 0 | done; for `run` whatever the verdict |
| 1 | the work failed: an engine does not start, a disk is full, more rows failed than `limits` allow |
| 2 | a mistake of the user's: a wrong key, a missing file, a run made from something else |
| 3 | `compare` or `gate` not passed |
| 130 | interrupted; what was committed stays |"""


def _section(model: type[BaseModel], at: str) -> list[str]:
    parts = [_table(model)] if not at else [f"### `{at}`", _first_line(model), _table(model)]
    for name, field in model.model_fields.items():
        inner = _model_of(field)
        if inner is not None:
            parts += _section(inner, f"{at}.{field.alias or name}".lstrip("."))
    return parts


def _table(model: type[BaseModel]) -> str:
    rows = ["| field | default | meaning |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        meaning = " ".join((field.description or _described(field)).split()).replace("|", "\\|")
        rows.append(f"| `{field.alias or name}` | {_default(field)} | {meaning} |")
    return "\n".join(rows)


def _described(field: FieldInfo) -> str:
    inner = _model_of(field)
    return _first_line(inner) if inner else ""


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "needed"
    if isinstance(field.default, BaseModel):
        return "see below"
    if isinstance(field.default, dict) and field.default:
        return ", ".join(f"`{key}`" for key in field.default)
    return "" if field.default is None else f"`{field.default}`"


def _model_of(field: FieldInfo) -> type[BaseModel] | None:
    annotation: Any = field.annotation
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel) and part not in ENGINE_KINDS.values():
            return part if not get_args(annotation) or type(None) in get_args(annotation) else None
    return None


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def _commands(command: Any, name: str) -> list[str]:
    if hasattr(command, "commands"):
        return [part for it in command.commands.values() for part in _commands(it, f"{name} {it.name}")]
    lines = [f"### `{name}`", command.help or ""]
    options = []
    for parameter in command.params:
        label = (
            parameter.metavar or parameter.name
            if parameter.param_type_name == "argument"
            else ", ".join(parameter.opts)
        )
        options.append(f"| `{label}` | {getattr(parameter, 'help', '') or ''} |")
    if options:
        lines.append("\n".join(["| argument | meaning |", "|---|---|", *options]))
    return lines


if __name__ == "__main__":
    REFERENCE.write_text(reference(), encoding="utf-8")

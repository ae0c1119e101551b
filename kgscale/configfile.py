"""Reading a config file, so that a mistake is answered with its key, its line and the nearest valid name."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from kgscale.config import ENGINE_KINDS, Config, SchemaConfig, UnknownNameError
from kgscale.errors import UserError

Location = tuple[str | int, ...]


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Read a YAML config, apply `key=value` overrides and check it.

    An override names a field by its path (`engines.llm.model=…`), where the name of an engine may stand for
    `engines.<name>` (`llm.model=…`); the value is YAML. Raises `UserError` with key, line and the nearest valid name.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"there is no config file {path}", hint=_nearest_file(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the config file: {error}", where=str(path)) from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
        lines: dict[Location, int] = {}
        if node is not None:
            _collect_lines(node, (), lines, path)
    except RecursionError:
        raise UserError("a value contains itself, or is nested too deep", where=str(path)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UserError(f"not valid YAML: {getattr(error, 'problem', error)}", where=where) from None
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise UserError("a config is a mapping of keys to values", where=str(path))
    overridden = {_apply(values, override): override for override in overrides}
    return check_config(values, str(path), lines, overridden)


def check_config(
    values: dict[str, Any],
    name: str,
    lines: dict[Location, int] | None = None,
    overridden: dict[Location, str] | None = None,
) -> Config:
    """Validate plain values as a `Config`; `name`, `lines` and `overridden` say where they came from."""
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        problems = [_explain(problem, name, lines or {}, overridden or {}) for problem in error.errors()]
        raise UserError("\n".join(problems)) from None
    asked = values.get("compare") or {}
    if config.compare.baseline == config.compare.candidate:
        where = _place(("compare",), name, lines or {}, overridden or {})
        both = f"`compare`: `baseline` and `candidate` are both {config.compare.baseline!r}: name two methods"
        raise UserError(both, where=where)
    for role in ("baseline", "candidate"):
        method = getattr(config.compare, role)
        if role in asked and method not in config.methods:
            where = _place(("compare", role), name, lines or {}, overridden or {})
            raise UserError(
                f"`compare.{role}`: no method is named {method!r}; there are: {', '.join(config.methods)}", where=where
            )
    return config


def _collect_lines(node: yaml.Node, at: Location, lines: dict[Location, int], path: Path) -> None:
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            where = (*at, key.value)
            line = key.start_mark.line + 1
            if where in lines:
                raise UserError(
                    f"the key `{'.'.join(map(str, where))}` stands twice (first on line {lines[where]})",
                    where=f"{path}:{line}",
                )
            lines[where] = line
            _collect_lines(value, where, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _collect_lines(value, (*at, index), lines, path)


def _apply(values: dict[str, Any], override: str) -> Location:
    """Set the field that an override names; returns where that is."""
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise UserError(f"--set {override}: write it as key=value, for example --set llm.model=smollm2-135m")
    try:
        value = yaml.safe_load(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _collect_lines(node, (), {}, Path(f"--set {override}"))
    except (yaml.YAMLError, RecursionError):
        raise UserError(f"--set {override}: the value is not valid YAML") from None
    engines = values.get("engines") or dict.fromkeys(Config.model_fields["engines"].default)
    if parts[0] not in _field_names(Config) and parts[0] in engines:
        parts = ["engines", *parts]
    if parts[0] in ("engines", "methods") and not values.get(parts[0]):
        # Naming one engine must not take away the other default ones.
        default = Config.model_fields[parts[0]].default
        values[parts[0]] = {name: it.model_dump() for name, it in default.items()}
    at = values
    for number, part in enumerate(parts[:-1]):
        if at.get(part) is None:
            # Describing one type must not take away the other default ones.
            types = number == 1 and parts[0] == "schema" and part in ("entity_types", "relation_types")
            at[part] = SchemaConfig().model_dump()[part] if types else {}
        at = at[part]
        if not isinstance(at, dict):
            raise UserError(f"--set {override}: `{part}` has no fields of its own")
    at[parts[-1]] = value
    return tuple(parts)


def _place(location: Location, name: str, lines: dict[Location, int], overridden: dict[Location, str]) -> str:
    """Where a field was set: by an override, or on a line of the file (of the nearest section, if it is not there)."""
    for at, override in overridden.items():
        if location and (location[: len(at)] == at or at[: len(location)] == location):
            return f"--set {override}"
    line = next((lines[at] for stop in range(len(location), -1, -1) if (at := location[:stop]) in lines), None)
    return f"{name}:{line}" if line else name


def _explain(problem: Any, name: str, lines: dict[Location, int], overridden: dict[Location, str]) -> str:
    raw: Location = tuple(part for part in problem["loc"] if part != "[key]")
    # Below `engines.<name>` pydantic puts the engine's kind, which is no key of the file.
    location = (*raw[:2], *raw[3:]) if raw[:1] == ("engines",) else raw
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, UnknownNameError):
        location = cause.location
    where = _place(location, name, lines, overridden)
    key = ".".join(str(part) for part in location) or "the file"
    match problem["type"]:
        case "extra_forbidden":
            known = _field_names(_section_at(raw[:-1]))
            near = difflib.get_close_matches(str(raw[-1]), known, n=1, cutoff=0.5)
            hint = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
            return f"{where}: unknown key `{key}`; {hint}"
        case "missing":
            return f"{where}: `{key}` is needed"
        case "union_tag_invalid":
            return f"{where}: `{key}.kind` must be one of {', '.join(ENGINE_KINDS)}"
        case "value_error":
            return f"{where}: `{key}`: {cause}"
        case _:
            return f"{where}: `{key}`: {problem['msg'][0].lower()}{problem['msg'][1:]} (it is {problem['input']!r})"


def _section_at(location: Location) -> type[BaseModel]:
    """The section of the config that pydantic's error location leads to."""
    section: type[BaseModel] = Config
    for part in location:
        fields = {field.alias or name: field for name, field in section.model_fields.items()}
        if part in fields:
            annotation = fields[str(part)].annotation
            kinds = [it for it in _types_in(annotation) if issubclass(it, BaseModel)]
            section = kinds[0] if kinds else section
        elif part in ENGINE_KINDS and location[0] == "engines":
            section = ENGINE_KINDS[str(part)]
    return section


def _types_in(annotation: Any) -> list[type]:
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation]
    return [it for part in get_args(annotation) for it in _types_in(part)]


def _field_names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _nearest_file(path: Path) -> str | None:
    try:
        names = [it.name for it in path.parent.iterdir() if it.suffix in (".yaml", ".yml")]
    except OSError:
        return f"there is no directory {path.parent} either" if not path.parent.is_dir() else None
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean {path.parent / near[0]}?" if near else None

"""From what a config says about a model to what the libraries can load."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path

from kgscale.errors import UserError
from kgscale.pretrained.catalogue import Kind, available, find
from kgscale.pretrained.preparation import prepare
from kgscale.pretrained.safety import refuse_pickles

# One slash between an owner and a name, as Hugging Face spells its ids.
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def locate(name_or_path: str | Path, kind: Kind, *, say: Callable[[str], None] | None = None) -> Path | str:
    """What to load for `name_or_path`: a default model's directory (prepared if need be), the user's, or a hub id.

    Raises UserError if it is none of these, a default model of the other kind, or a directory with pickled weights.
    """
    name = str(name_or_path)
    entry = find(name)
    if entry is not None:
        if entry.model.kind != kind:
            raise UserError(
                f"{name} is a {entry.model.kind} model, but a {kind} model is wanted here", hint=_names(kind)
            )
        return prepare(name, say=say)
    path = Path(name).expanduser()
    if path.is_dir():
        refuse_pickles(path, kind)
        return path.resolve()
    if isinstance(name_or_path, str) and HUB_ID.fullmatch(name):
        return name
    near = difflib.get_close_matches(name, [model.name for model in available() if model.kind == kind], n=1, cutoff=0.4)
    guess = f"did you mean {near[0]}? " if near else ""
    raise UserError(
        f"no {kind} model {name!r}: neither a default model nor a directory nor a hub id", hint=guess + _names(kind)
    )


def _names(kind: Kind) -> str:
    names = ", ".join(model.name for model in available() if model.kind == kind)
    return f"the default {kind} models are: {names}; a directory or a Hugging Face id (owner/name) does as well"

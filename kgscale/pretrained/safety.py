"""Models are data: their weights are no pickles, and code that comes with them is not run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgscale.errors import UserError
from kgscale.pretrained.catalogue import Kind

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
"""Weights that torch and others unpickle, which can run whatever their author likes."""


def refuse_pickles(folder: Path, kind: Kind) -> None:
    """Raise `UserError` for a model directory whose weights would be read from a pickle."""
    # GLiNER looks for this one name, and else for its pickle; vLLM takes any safetensors before a pickle.
    safe = "model*.safetensors" if kind == "gliner" else "*.safetensors"
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles and not any(folder.glob(safe)):
        raise UserError(
            f"the weights are pickled ({', '.join(pickles[:3])}), and a pickle can run any code",
            where=str(folder),
            hint="save the model as safetensors, for example with its save_pretrained(folder, safe_serialization=True)",
        )


@contextmanager
def no_code(model: str) -> Iterator[None]:
    """Within it transformers loads no Python files of a model's; a model that wants to raises `UserError`.

    GLiNER always asks transformers to trust the code that a configuration names, and has no switch for it.
    """
    from transformers import dynamic_module_utils as modules

    def refuse(*_arguments: Any, **_options: Any) -> str:
        raise UserError(
            "this model wants to run code of its own, which kgscale does not do for GLiNER models",
            where=model,
            hint="use a model whose encoder is part of transformers",
        )

    original = modules.get_cached_module_file
    modules.get_cached_module_file = refuse
    try:
        yield
    finally:
        modules.get_cached_module_file = original

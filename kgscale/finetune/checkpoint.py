"""The folder of a training run: its checkpoint, which is whole or not there, and its log."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgscale.errors import UserError

CHECKPOINT, LOG = "checkpoint.pt", "log.jsonl"


def write_checkpoint(folder: Path, state: Mapping[str, Any]) -> None:
    """Write the state of a training run, which names its `identity`, over the one before."""
    import torch

    unfinished = folder / ".checkpoint.partial"
    with unfinished.open("wb") as file:
        torch.save(dict(state), file)
        os.fsync(file.fileno())
    unfinished.replace(folder / CHECKPOINT)


def read_checkpoint(folder: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state that was written last, null if there is none; `UserError` if it is of a run with another identity."""
    import torch

    path = folder / CHECKPOINT
    if not path.exists():
        return None
    state: dict[str, Any] = torch.load(path, weights_only=True)
    if state["identity"] != identity:
        raise UserError(
            "this folder holds a training run with another recipe or other data",
            where=str(folder),
            hint="name another folder, or remove this one",
        )
    return state


def write_log(folder: Path, line: Mapping[str, float]) -> None:
    """Add a line to the log."""
    with (folder / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(dict(line)) + "\n")

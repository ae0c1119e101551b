"""The directory of a trained model: there whole or not at all, with the record of how it was made and a card."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kgscale.errors import UserError


def write_result(target: Path, save: Callable[[Path], None], record: Mapping[str, Any], card: str) -> None:
    """Let `save` write the model into `target`, with `kgscale.json` (the record) and README.md (the card) beside it.

    Raises `UserError` if something is there already.
    """
    refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        save(work)
        (work / "kgscale.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (work / "README.md").write_text(card, encoding="utf-8")
        for path in (work, *work.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        os.rename(work, target)  # noqa: PTH104  # unlike shutil.move, never a copy
    finally:
        shutil.rmtree(work, ignore_errors=True)


def refuse_existing(target: Path) -> None:
    """Raise `UserError` if something is at the place of the result."""
    if target.exists():
        raise UserError("there is something already", where=str(target), hint="name another directory with --out")


def card_of_data(record: Mapping[str, Any], counts: str) -> list[str]:
    """The lines of a card on the data of a record: `counts` in words, what it is apart from, the files with hashes."""
    apart = ", ".join(record["apart_from"]) or "none was named"
    files = [
        f"| {role} | {name} | {digest[:16]}… |" for role in ("train", "eval") for name, digest in record[role].items()
    ]
    clear = f"None shares eight words in a row with the gold that was named: {apart}."
    return ["## Data", "", f"{counts} {clear}", "", "| role | file | sha256 |", "|---|---|---|", *files, ""]


def card_of_recipe(record: Mapping[str, Any]) -> str:
    """The recipe of a record in one line."""
    return ", ".join(f"{name} {value}" for name, value in record["recipe"].items())

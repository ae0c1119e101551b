"""Texts that a model has seen: prompts, few-shot examples, training files in any form that holds text."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgscale.errors import UserError
from kgscale.finetune.contamination import Named
from kgscale.formats.common import forbid_missing

SUFFIXES = (".json", ".jsonl", ".parquet", ".txt", ".md", ".gz", ".yaml", ".yml")
TOKENS = 4
"""A list of so many strings or more is a text cut into tokens."""


def other_files(path: Path) -> list[Path]:
    """The files below a directory that `seen_texts` passes over."""
    return sorted(it for it in path.rglob("*") if it.is_file() and it.suffix.lower() not in SUFFIXES)


def seen_texts(path: Path) -> Iterator[Named]:
    """Every text in a file, or in the files below a directory: strings in JSON, lists of tokens joined, plain lines.

    Raises `UserError` if a file cannot be read.
    """
    forbid_missing(path)
    files = [path]
    if path.is_dir():
        files = sorted(it for it in path.rglob("*") if it.is_file() and it.suffix.lower() in SUFFIXES)
    if not files:
        raise UserError(f"there is no file that may hold text ({', '.join(SUFFIXES)})", where=str(path))
    for file in files:
        try:
            yield from _texts(file)
        except (OSError, EOFError, UnicodeDecodeError, ValueError, RecursionError, pa.ArrowException) as error:
            raise UserError(f"cannot be read: {error}", where=str(file)) from None


def _texts(file: Path) -> Iterator[Named]:
    packed = file.suffix.lower() == ".gz"
    kind = (file.with_suffix("") if packed else file).suffix.lower()
    if kind == ".parquet":
        for batch in pq.ParquetFile(file).iter_batches(batch_size=256):
            for row in batch.to_pylist():
                yield from (Named(str(file), it) for it in _strings(row))
        return
    with gzip.open(file, "rt", encoding="utf-8-sig") if packed else file.open(encoding="utf-8-sig") as lines:
        if kind == ".json":
            yield from (Named(str(file), it) for it in _strings(json.load(lines)))
            return
        for number, line in enumerate(lines, start=1):
            where = f"{file}:{number}"
            found = _strings(json.loads(line)) if kind == ".jsonl" and line.strip() else iter([line])
            yield from (Named(where, it) for it in found)


def _strings(value: Any) -> Iterator[str]:
    """The strings in a value, whatever it is."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for it in value.values():
            yield from _strings(it)
    elif isinstance(value, list):
        if len(value) >= TOKENS and all(isinstance(it, str) for it in value):
            yield " ".join(value)
        else:
            for it in value:
                yield from _strings(it)

"""Files that appear whole under their names, or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from kgscale.errors import UserError, WorkError


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file to write that appears under its name when the block ends without an error, or not at all."""
    temporary = _beside(path)
    with _told(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                yield file
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """A directory to fill that appears under its name when the block ends without an error, or not at all.

    Raises `UserError` if there is something at `path` already, but an empty directory.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise UserError(f"{path} would be written over", hint="name a directory that is empty or not there yet")
    path = path.resolve()  # a link stays, and leads to what is written
    temporary = _beside(path)
    with _told(path):
        try:
            temporary.mkdir(parents=True)
            yield temporary
            if path.is_dir():
                path.rmdir()
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _beside(path: Path) -> Path:
    if path.parent.exists() and not path.parent.is_dir():
        raise UserError("is a file, but a directory is to be written here", where=str(path.parent))
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkError(f"cannot write: {error.strerror or error}", where=str(path)) from None

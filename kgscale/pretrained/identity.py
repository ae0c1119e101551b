"""A short name for a model's contents, so that a run can tell whether its models have changed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from kgscale.errors import UserError
from kgscale.pretrained.cache import MANIFEST, cache_root
from kgscale.pretrained.wheels import sha256_of

# Below this size a file is hashed every time: it takes milliseconds.
SMALL = 16 << 20


def fingerprint(model: Path | str) -> str:
    """A local directory's content identity (`sha256:` and 16 hexadecimal digits), or the hub id as it is.

    All files at the directory's top count but the card and the manifest. Hashes of large files are remembered in the
    cache by path, size and modification time. Raises UserError for a directory that is not there or has no config.
    """
    path = Path(model)
    if not path.is_dir():
        if isinstance(model, Path) or path.is_absolute():
            raise UserError("there is no such model directory", where=str(model))
        return model
    files = [file for file in path.iterdir() if file.is_file() and _matters(file)]
    if not any(file.suffix == ".json" for file in files):
        raise UserError("this directory holds no model: it has no configuration (.json)", where=str(path))
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        digest.update(f"{file.name} {_sha256_remembered(file)}\n".encode())
    return f"sha256:{digest.hexdigest()[:16]}"


def _matters(file: Path) -> bool:
    return file.suffix != ".md" and file.name != MANIFEST and not file.name.startswith(".")


def _sha256_remembered(file: Path) -> str:
    """The file's sha256, from the cache's note if size and modification time are those of the note."""
    stat = file.stat()
    if stat.st_size < SMALL:
        return sha256_of(file)
    key = hashlib.sha256(f"{file.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()
    note = cache_root() / "fingerprints" / key[:32]
    try:
        known = note.read_text(encoding="ascii")
        if len(known) == 64:
            return known
    except (OSError, ValueError):
        pass
    value = sha256_of(file)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        unfinished = note.with_name(f"{note.name}.{os.getpid()}.partial")
        unfinished.write_text(value, encoding="ascii")
        unfinished.replace(note)
    except OSError:
        pass  # An unwritable cache costs time here, not correctness.
    return value

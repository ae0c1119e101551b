"""The user's model cache: where it is, and what makes a directory in it count as done."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from kgscale.errors import UserError
from kgscale.pretrained.wheels import sha256_of

MANIFEST = "manifest.json"
HINT = "set KGSCALE_CACHE to a directory with room that you may write to"


def cache_root(cache: Path | None = None) -> Path:
    """The cache directory: `cache`, else the environment's KGSCALE_CACHE, else the platform's place for caches."""
    if cache is not None:
        return cache
    if named := os.environ.get("KGSCALE_CACHE"):
        return Path(named).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("kgscale"))


@contextmanager
def cache_errors(root: Path) -> Iterator[None]:
    """Turn the operating system's complaints about the cache into a UserError that names the directory."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        # safetensors reports a full disk as its own exception, with the system's words only in the message.
        number = error.errno if isinstance(error, OSError) else None
        full = number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        if not full and number is None:
            raise
        problem = "the disk is full" if full else f"the model cache cannot be written: {os.strerror(number or 0)}"
        raise UserError(problem, where=str(root), hint=HINT) from error


@dataclass(frozen=True)
class FileRecord:
    """One file of a prepared directory: its path there, its size in bytes and its sha256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a prepared directory should contain; written last, so that a directory without one is not done."""

    name: str
    recipe: str
    files: tuple[FileRecord, ...]

    @classmethod
    def of(cls, folder: Path, name: str, recipe: str) -> Manifest:
        """Describe the files that `folder` holds now."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
        return cls(
            name,
            recipe,
            tuple(FileRecord(p.relative_to(folder).as_posix(), p.stat().st_size, sha256_of(p)) for p in paths),
        )

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest stored in `folder`, or None if there is none that can be read."""
        try:
            stored = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            return cls(stored["name"], stored["recipe"], tuple(FileRecord(**record) for record in stored["files"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, folder: Path) -> None:
        """Store the manifest in `folder`."""
        (folder / MANIFEST).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def problem(self, folder: Path, *, full: bool = False) -> str | None:
        """The first difference between the manifest and `folder`: sizes always, contents too if `full`."""
        for record in self.files:
            path = folder / record.path
            if not path.is_file():
                return f"{record.path} is missing"
            if path.stat().st_size != record.size:
                return f"{record.path} has {path.stat().st_size} bytes instead of {record.size}"
            if full and sha256_of(path) != record.sha256:
                return f"{record.path} has other contents than when it was prepared"
        return None

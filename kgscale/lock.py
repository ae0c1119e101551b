"""One driver per run: the second is refused and told who holds it."""

import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from kgscale.errors import UserError, WorkError
from kgscale.lease import held_by, in_words, lease
from kgscale.store import Store, StoreError, write_error

LOCK_FILE = "driver.lock"
TRIES = 5


@contextmanager
def driver_lock(store: Store, command: str) -> Iterator[str]:
    """Hold the run for one driver; yields a token that its workers show when they commit.

    The operating system frees the lock when the process ends, however it ends; on an object store it ends with the
    lease (`kgscale.lease`). Raises `UserError` if another driver holds the run.
    """
    token = secrets.token_hex(8)
    holder = {
        "token": token,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "command": command,
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if not store.local:
        with lease(store, LOCK_FILE, holder):
            yield token
        return
    path = Path(store.path(LOCK_FILE))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without a buffer, which would be written once more when the file is closed.
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise WorkError(f"cannot write to the run directory: {error}", where=str(path.parent)) from None
    with file:
        if not _taken(file):
            raise UserError(
                f"another driver works on this run: {_holder(path)}",
                where=store.uri,
                hint="wait for it (`kgscale status` shows its progress), or stop it",
            )
        try:
            file.truncate(0)
            file.write(json.dumps(holder).encode())
            # Workers on other machines of a network file system must see the token.
            os.fsync(file.fileno())
        except OSError as error:
            raise write_error(error, str(path)) from None
        try:
            yield token
        finally:
            # A worker that was given up and lives on may not commit after its driver's end.
            file.truncate(0)


def _taken(file: IO[bytes]) -> bool:
    """Take the lock; a `status` that looks at it at this very moment is waited for."""
    for _ in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.1)
        else:
            return True
    return False


def holds(store: Store, token: str) -> bool:
    """Whether `token` still belongs to the run's driver: a worker that outlived its driver must not commit."""
    try:
        return bool(json.loads(store.read(LOCK_FILE))["token"] == token)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
    except OSError as error:
        raise StoreError(f"cannot tell who drives this run: {error}", where=store.url(LOCK_FILE)) from error


def current_driver(store: Store) -> str | None:
    """Who works on the run now, in words; null if nobody does."""
    if not store.local:
        holder = held_by(store, LOCK_FILE)
        return None if holder is None else in_words(holder)
    path = Path(store.path(LOCK_FILE))
    if not path.exists():
        return None
    with path.open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _holder(path)
    return None


def _holder(path: Path) -> str:
    try:
        return in_words(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return in_words({})

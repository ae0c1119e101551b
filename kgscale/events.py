"""The event log of a run: one JSON object a line, for people and programs that watch."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from kgscale.errors import WorkError
from kgscale.runs import EVENTS_FILE
from kgscale.store import Store, write_error
from kgscale.talk import json_line


class EventLog:
    """Appends to `events.jsonl`; an object store cannot be appended to, so there `save` and `close` write the lines.

    Raises `WorkError` where that is not possible.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lines: list[str] = []
        self._path = Path(store.path(EVENTS_FILE))
        self._file: IO[bytes] | None = None
        if store.local:
            with self._writing():
                self._file = self._path.open("ab")
                # A driver that was killed, or a disk that was full, may have left half a line.
                if self._file.tell() and store.tail(EVENTS_FILE, 1) != b"\n":
                    self._file.write(b"\n")

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Note an event with the time (UTC)."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json_line({"at": now, "event": event, **fields})
        if self._file is None:
            self._lines.append(line)
        else:
            with self._writing():
                self._file.write(f"{line}\n".encode())
                self._file.flush()

    def save(self) -> None:
        """See to it that what was noted so far outlives this process."""
        if self._file is None and self._lines:
            before = self._store.read(EVENTS_FILE) if self._store.exists(EVENTS_FILE) else b""
            self._store.write(EVENTS_FILE, before + ("\n".join(self._lines) + "\n").encode())
            self._lines.clear()

    def close(self) -> None:
        """Finish the log."""
        self.save()
        if self._file is not None:
            with self._writing():
                self._file.close()

    def give_up(self, event: str, /, **fields: Any) -> None:
        """Finish the log with what stopped the work, if there is room for it: why it stopped is not to be hidden."""
        for step in (partial(self, event, **fields), self.close):
            with suppress(WorkError, OSError):
                step()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise write_error(error, str(self._path)) from error

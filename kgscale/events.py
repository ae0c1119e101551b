"""The event log of a run: one JSON object a line, for people and programs that watch."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kgscale.runs import EVENTS_FILE
from kgscale.store import Store
from kgscale.talk import json_line


class EventLog:
    """Appends to `events.jsonl`; an object store cannot be appended to, so there `save` and `close` write the lines."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lines: list[str] = []
        self._file = Path(store.path(EVENTS_FILE)).open("a", encoding="utf-8") if store.local else None  # noqa: SIM115

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Note an event with the time (UTC)."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json_line({"at": now, "event": event, **fields})
        if self._file is None:
            self._lines.append(line)
        else:
            self._file.write(line + "\n")
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
            self._file.close()

"""What a person sees while the work goes on: bars on a terminal, a line now and then without one."""

import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from kgscale.summary import duration

LINE_EVERY_S = 10.0
RATE_WINDOW_S = 120.0


class ExtractionProgress(AbstractContextManager["ExtractionProgress"]):
    """Follows the events of a drive and shows, per method, rows done, rate, time left and failures."""

    def __init__(self, console: Console, done: Mapping[str, int], total: int) -> None:
        """`done` says per method how many of `total` rows were committed before."""
        self._console = console
        self._total = total
        self._done = Counter(done)
        self._bad: Counter[str] = Counter()
        self._recent: dict[str, deque[tuple[float, int]]] = {method: deque() for method in done}
        self._line_at = time.monotonic()
        self._bars: Progress | None = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        """Start the bars, if this is a terminal."""
        if self._console.is_terminal:
            self._bars = Progress(
                TextColumn("{task.description:<18}"),
                BarColumn(bar_width=30),
                TextColumn("{task.completed:>7.0f}/{task.total:.0f}"),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                console=self._console,
            )
            for method, done in self._done.items():
                self._tasks[method] = self._bars.add_task(method, total=self._total, completed=done, note="")
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bars away and say a last line."""
        if self._bars is not None:
            self._bars.stop()
        elif kind is None:
            self._say_line()

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Show an event."""
        match event:
            case "drive_started" if fields["metrics"]:
                self._say(f"metrics for Prometheus: {fields['metrics']}")
            case "worker_starting":
                self._say(f"starting {fields['engine']} …")
            case "worker_ready":
                self._say(f"{fields['engine']} is ready on {fields['device']} after {fields['seconds']:.0f} s")
            case "worker_start_failed" | "worker_died":
                self._say(f"{fields['engine']}: {event.replace('_', ' ')}: {fields['error']}")
            case "shard_retried":
                self._say(
                    f"{fields['method']} {fields['start']}-{fields['stop']} will be tried again: {fields['error']}"
                )
            case "shard_committed":
                self._committed(fields["method"], fields["stop"] - fields["start"], fields["statuses"])
        if self._bars is None and time.monotonic() - self._line_at > LINE_EVERY_S:
            self._say_line()

    def _committed(self, method: str, rows: int, statuses: Mapping[str, int]) -> None:
        self._done[method] += rows
        self._bad[method] += sum(count for status, count in statuses.items() if status in ("failed", "dead"))
        self._recent[method].append((time.monotonic(), rows))
        if self._bars is not None:
            self._bars.update(self._tasks[method], completed=self._done[method], note=self._note(method))

    def _note(self, method: str) -> str:
        recent, now = self._recent[method], time.monotonic()
        while recent and now - recent[0][0] > RATE_WINDOW_S:
            recent.popleft()
        notes = []
        left = self._total - self._done[method]
        # The first commit only starts the clock: what it took includes the start of the engine.
        rows = sum(count for _, count in list(recent)[1:])
        if rows and left:
            rate = rows / (now - recent[0][0])
            notes.append(f"{rate:.1f} chunks/s, {duration(left / rate)} left")
        if self._bad[method]:
            notes.append(f"{self._bad[method]} failed or dead")
        return "; ".join(notes)

    def _say(self, text: str) -> None:
        (self._bars.console if self._bars is not None else self._console).print(
            text, highlight=False, markup=False, soft_wrap=True
        )

    def _say_line(self) -> None:
        self._line_at = time.monotonic()
        parts = []
        for method, done in self._done.items():
            note = self._note(method)
            parts.append(f"{method} {done}/{self._total}" + (f" ({note})" if note else ""))
        self._say(" · ".join(parts))

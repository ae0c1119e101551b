"""Sides that are measured in turns, and the machine in words; needs nothing of kgscale's.

A side lives in a process of its own, is started once and then measured as often as asked. So two sides can take turns,
and what else the machine does hits both alike.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

import psutil

LOOK_EVERY_S = 0.5
GRACE_S = 10.0
STDERR_SHOWN = 3000


def machine() -> str:
    """The machine in one line, with what else it is doing."""
    gib = psutil.virtual_memory().total / (1 << 30)
    return (
        f"{platform.platform()}, {os.cpu_count()} cores, {gib:.0f} GiB, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


class Side(Protocol):
    """One of the things that are compared; making it starts it."""

    def measure(self, number: int) -> dict[str, Any]:
        """Do the work of a round and say how it went, at least in how many `seconds`."""

    def close(self) -> None:
        """End what was started."""


def serve(make: Callable[[], Side]) -> None:
    """Be a side: start, then measure a round for each line on stdin; what libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    begun = time.perf_counter()
    side = make()
    print(json.dumps({"start_s": time.perf_counter() - begun}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(side.measure(int(line))), file=answers, flush=True)
    side.close()


class Child:
    """A side in a process of its own, with the peak of what its whole family takes; a context manager."""

    def __init__(self, script: str, options: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        self.process = subprocess.Popen(
            [sys.executable, script, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environ,
        )
        self.memory = PeakMemory(self.process.pid)
        self._started: dict[str, Any] = {}

    def answer(self) -> dict[str, Any]:
        """The next answer; raises `SystemExit` with the end of the child's log when there is none."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self._log.seek(0)
            end = self._log.read()[-STDERR_SHOWN:].decode(errors="replace")
            raise SystemExit(f"{self.process.args!r} ended:\n{end}")
        found: dict[str, Any] = json.loads(line)
        return found

    def started(self) -> dict[str, Any]:
        """Wait until the side is ready; told once, however often it is asked."""
        if not self._started:
            self._started = self.answer()
        return self._started

    def ask(self, number: int) -> None:
        """Have a round begin."""
        assert self.process.stdin is not None
        print(number, file=self.process.stdin, flush=True)

    def measure(self, number: int) -> dict[str, Any]:
        """Have a round measured."""
        self.ask(number)
        return self.answer()

    def kill(self) -> None:
        """End the process and all its descendants at once."""
        with suppress(psutil.NoSuchProcess):
            for it in reversed(_family(psutil.Process(self.process.pid))):
                with suppress(psutil.NoSuchProcess):
                    it.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.memory.stop()
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.memory.leave_none_behind()
        self.process.wait()
        self._log.close()


class PeakMemory:
    """The largest memory of a process and all its descendants, looked at twice a second.

    Each one's own memory is added up; of what is shared (the text of libraries), the largest part is counted once.
    """

    def __init__(self, pid: int) -> None:
        self.peak_gib = 0.0
        self._seen: set[psutil.Process] = set()
        self._root = psutil.Process(pid)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Look no more; returns the peak in GiB."""
        self._stopped.set()
        self._thread.join()
        return self.peak_gib

    def leave_none_behind(self) -> None:
        """Wait for all that were seen to end, and end those that do not: the next side is to have the machine."""
        _, left = psutil.wait_procs(self._seen | set(_family(self._root)), GRACE_S)
        for it in left:
            with suppress(psutil.NoSuchProcess):
                it.kill()

    def _look(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            own, shared = 0, 0
            family = _family(self._root)
            self._seen.update(family)
            for it in family:
                try:
                    memory = it.memory_info()
                except psutil.Error:
                    continue
                own += memory.rss - memory.shared
                shared = max(shared, memory.shared)
            self.peak_gib = max(self.peak_gib, (own + shared) / (1 << 30))


def _family(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []

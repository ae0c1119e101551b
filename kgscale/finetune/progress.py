"""How training is told on a terminal: a line now and then with speed, F1 and the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

EVERY_S = 10.0


class Progress:
    """Counts the texts trained on since the start, and says how it goes."""

    def __init__(self, begun_at: int, steps: int, say: Callable[[str], None]) -> None:
        self._first, self._steps, self._say = begun_at, steps, say
        self._begun = self._said = time.monotonic()
        self._paused = 0.0
        self._texts = 0

    def count(self, texts: int) -> None:
        """Note a step's texts."""
        self._texts += texts

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Time within it is no time of training."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._paused += time.monotonic() - begun

    @property
    def speed(self) -> float:
        """Texts a second, evaluations and checkpoints aside."""
        return self._texts / max(1e-9, time.monotonic() - self._begun - self._paused)

    def tell(self, step: int, loss: float, curve: Sequence[dict[str, float]], *, at_once: bool) -> None:
        """Say where training stands, if it is time to."""
        now = time.monotonic()
        if not at_once and now - self._said < EVERY_S:
            return
        self._said = now
        line = f"step {step} of {self._steps} · loss {loss:.4f} · {self.speed:.1f} sentences/s"
        if curve:
            line += f" · F1 {curve[-1]['f1']:.3f} at step {curve[-1]['step']:.0f}"
        left = (now - self._begun) / max(1, step - self._first) * (self._steps - step)
        self._say(f"{line} · {_duration(left)} left" if left else line)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"

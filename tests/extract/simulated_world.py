"""Simulated time, and what goes wrong in it; all of it is drawn from a seed, so that it replays exactly."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

FOREVER_S = 1_000_000.0


@dataclass(frozen=True)
class Faults:
    """What goes wrong: chances per shard or start, and rows that always kill, hang or raise."""

    death: float = 0.0
    """At any moment of a shard, up to its reply."""
    partition: float = 0.0
    """The worker is given up for dead, and goes on all the same."""
    node_loss: float = 0.0
    start_failure: float = 0.0
    error: float = 0.0
    commit_fails_before: float = 0.0
    commit_fails_after: float = 0.0
    lost_reply: float = 0.0
    repeated_reply: float = 0.0
    slow: float = 0.0
    hang: float = 0.0
    poison: frozenset[int] = frozenset()
    hanging: frozenset[int] = frozenset()
    raising: frozenset[int] = frozenset()
    engine: str | None = None
    """The only engine that those rows harm; all for null."""
    failing_starts: frozenset[int] = frozenset()
    """Workers, by number, that do not come up."""


CALM = Faults()


class World:
    """Simulated time, and what is to happen in it, in order."""

    def __init__(self, rng: random.Random) -> None:
        self.time = 0.0
        self.rng = rng
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0

    def at(self, delay: float, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.time + delay, self._order, action))

    def step(self, until: float) -> bool:
        """Let the next thing happen, if there is one by then."""
        if not self._heap or self._heap[0][0] > until:
            return False
        at, _, action = heapq.heappop(self._heap)
        self.idle(at)
        action()
        return True

    def idle(self, until: float) -> None:
        """Let time pass."""
        self.time = max(self.time, until)
        assert self.time < FOREVER_S, "the loop waits for something that never comes"

"""What is not committed yet: what may run, what waits for entities, what has to run alone, and how often it failed."""

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kgscale.extract.methods import Step
from kgscale.shards import Range, Shard

SMALLEST_PIECE = 32
"""Chunks; a shard that is cut to even the end of a run is cut no smaller: engines like batches."""
NODE_LOSSES = 3
"""So often a shard may be in a worker whose node is lost before it is suspected of it."""


@dataclass
class _Queue:
    ready: list[tuple[float, int, str, Shard]] = field(default_factory=list)
    """A heap: longest first, then in the order of the corpus."""
    ready_rows: int = 0
    suspects: deque[Shard] = field(default_factory=deque)
    """Shards that were in a worker when it died: each runs alone, so that the blame is never shared."""


class Backlog:
    """Every shard that is not committed, wherever it is; knows no worker and no time."""

    def __init__(
        self, steps: Mapping[str, Step], planned: Sequence[Range], words: Sequence[int], attempts: int
    ) -> None:
        """`words` says how long each planned shard is; `attempts` how often one may fail before it is halved."""
        self._steps = steps
        self._planned = planned
        self._starts = [start for start, _ in planned]
        self._words = words
        self._limit = attempts
        self._queues: defaultdict[str, _Queue] = defaultdict(_Queue)
        self._blocked: dict[tuple[str, int], list[Shard]] = {}
        """By upstream method and planned shard: what waits for it."""
        self._open_in_plan: Counter[tuple[str, int]] = Counter()
        """By method and planned shard: rows not committed yet; those that are done take no room."""
        self._open: Counter[str] = Counter()
        """By engine: rows that are not committed yet."""
        self._attempts: Counter[Shard] = Counter()
        self._losses: Counter[Shard] = Counter()

    def add(self, remaining: Sequence[Shard]) -> None:
        """Take in what is not committed, of all methods at once."""
        for shard in remaining:
            self._open_in_plan[shard.method, self._plan_of(shard)] += shard.rows
            self._open[self._engine(shard)] += shard.rows
        for shard in remaining:
            self._release(shard)

    def open_rows(self, engine: str | None = None) -> int:
        """How many rows an engine (all engines for null) has not committed."""
        return self._open.total() if engine is None else self._open[engine]

    def ready_rows(self, engine: str) -> int:
        """How many rows of an engine's wait for nothing but a worker."""
        return self._queues[engine].ready_rows

    def attempt(self, shard: Shard) -> int:
        """The number of the try that comes next, from 1."""
        return self._attempts[shard] + 1

    def take(self, engine: str, workers: int) -> Shard | None:
        """The longest shard that may run; towards the end a piece of it, so that all workers end together.

        A piece is at most half of an even share of what is left (guided self-scheduling, Polychronopoulos and Kuck
        1987), and at least `SMALLEST_PIECE`.
        """
        queue = self._queues[engine]
        if not queue.ready:
            return None
        most = max(SMALLEST_PIECE, queue.ready_rows / (2 * workers))
        shard = heapq.heappop(queue.ready)[-1]
        queue.ready_rows -= shard.rows
        while shard.rows > most and shard.rows >= 2 * SMALLEST_PIECE:
            shard, rest = shard.halves()
            self._queue(rest)
        return shard

    def idle(self, engine: str) -> bool:
        """Whether nothing of an engine's may run now: all is in workers, or waits for entities."""
        queue = self._queues[engine]
        return not queue.ready and not queue.suspects

    def suspects(self, engine: str) -> int:
        """How many shards have to run alone."""
        return len(self._queues[engine].suspects)

    def take_suspect(self, engine: str) -> Shard | None:
        """The next shard that has to run alone."""
        suspects = self._queues[engine].suspects
        return suspects.popleft() if suspects else None

    def committed(self, shard: Shard) -> None:
        """Cross off a shard, and let run what waited for it."""
        key = (shard.method, self._plan_of(shard))
        self._open_in_plan[key] -= shard.rows
        self._open[self._engine(shard)] -= shard.rows
        for it in (self._attempts, self._losses):
            it.pop(shard, None)
        if self._open_in_plan[key] <= 0:
            del self._open_in_plan[key]
            for waiting in self._blocked.pop(key, []):
                self._release(waiting)

    def lost(self, shard: Shard) -> bool:
        """Put back a shard whose node went away; false once that has happened too often to be chance."""
        self._losses[shard] += 1
        if self._losses[shard] > NODE_LOSSES:
            return False
        self._queue(shard)
        return True

    def blame(self, shard: Shard, *, alone: bool) -> bool:
        """Try a shard again, alone, or in halves when that failed; false if it is a single chunk that had its tries."""
        self._attempts[shard] += alone or shard.rows > 1
        suspects = self._queues[self._engine(shard)].suspects
        if self._attempts[shard] < self._limit or not alone:
            suspects.append(shard)
        elif shard.rows > 1:
            for half in shard.halves():
                # A half has its whole's attempts behind it: one more death is enough to halve it again.
                self._attempts[half] = self._limit - 1 if half.rows > 1 else 0
                suspects.append(half)
            del self._attempts[shard]
        else:
            return False
        return True

    def _release(self, shard: Shard) -> None:
        """Queue a shard, or let it wait for the entities that it builds on."""
        upstream = self._steps[shard.method].upstream
        key = (upstream or "", self._plan_of(shard))
        if self._open_in_plan[key] > 0:
            self._blocked.setdefault(key, []).append(shard)
        else:
            self._queue(shard)

    def _queue(self, shard: Shard) -> None:
        plan = self._plan_of(shard)
        start, stop = self._planned[plan]
        length = self._words[plan] * shard.rows / (stop - start)
        queue = self._queues[self._engine(shard)]
        heapq.heappush(queue.ready, (-length, shard.start, shard.method, shard))
        queue.ready_rows += shard.rows

    def _engine(self, shard: Shard) -> str:
        return self._steps[shard.method].engine

    def _plan_of(self, shard: Shard) -> int:
        """The planned shard that holds this one: pieces of a shard never cross its borders."""
        return bisect_right(self._starts, shard.start) - 1

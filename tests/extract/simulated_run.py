"""A run directory in memory, and as one driver sees it."""

import random
from collections import Counter
from dataclasses import dataclass

from kgscale import shards as arithmetic
from kgscale.errors import WorkError
from kgscale.extract.backlog import NODE_LOSSES
from kgscale.records import Status
from kgscale.shards import Range, Shard

HALF = "half"
"""The content of a file that was published before it was written."""


class SimulatedRun:
    """A run directory in memory: the files of each method by name, and the token of the driver that holds it."""

    def __init__(self, rows: int, shard_chunks: int, rng: random.Random) -> None:
        self.planned: list[Range] = [(at, min(rows, at + shard_chunks)) for at in range(0, rows, shard_chunks)]
        self.shard_words = [rng.randint(1, 1000) for _ in self.planned]
        self.files: dict[str, dict[str, object]] = {}
        self.upstream: dict[str, str] = {}
        self.token = 0
        self.taken_at = 0.0
        self.harmed: Counter[tuple[str, int]] = Counter()
        """How often a row was alone in a worker that ended badly."""
        self.node_losses: Counter[tuple[str, int]] = Counter()

    @property
    def rows(self) -> int:
        return self.planned[-1][1]

    def ranges(self, method: str) -> list[Range]:
        return arithmetic.ranges_of(self.files.get(method, ()))

    def is_committed(self, shard: Shard) -> bool:
        there = shard.file.rsplit("/", 1)[1] in self.files.get(shard.method, {})
        return there or not arithmetic.gaps(shard.start, shard.stop, self.ranges(shard.method))

    def publish(self, shard: Shard, content: object) -> None:
        self.files.setdefault(shard.method, {})[shard.file.rsplit("/", 1)[1]] = content

    def delete(self, method: str, span: Range) -> None:
        del self.files[method][Shard(method, *span).file.rsplit("/", 1)[1]]

    @property
    def statuses(self) -> dict[tuple[str, int], Status]:
        """The status of each committed row; a row that is there twice, or in a half-written file, is an error."""
        found: dict[tuple[str, int], Status] = {}
        for method, files in self.files.items():
            for name, status in files.items():
                assert status is not HALF, f"{method}/{name} is half-written"
                span = arithmetic.range_of(name)
                assert span is not None, name
                for row in range(*span):
                    assert (method, row) not in found, f"row {row} of {method} is there twice"
                    found[method, row] = status  # type: ignore[assignment]
        return found


@dataclass(frozen=True)
class SimulatedDirectory:
    """A run directory as one driver sees it."""

    run: SimulatedRun
    token: int = 0

    @property
    def planned(self) -> list[Range]:
        return self.run.planned

    @property
    def shard_words(self) -> list[int]:
        return self.run.shard_words

    def remaining(self, method: str) -> list[Shard]:
        return arithmetic.remaining_shards(method, self.run.planned, self.run.ranges(method))

    def is_committed(self, shard: Shard) -> bool:
        return self.run.is_committed(shard)

    def commit_lost(self, shard: Shard, status: Status, error: str, attempts: int) -> None:
        assert shard.rows == 1
        assert error
        assert attempts >= 1
        key = (shard.method, shard.start)
        suspicious = self.run.harmed[key] + max(0, self.run.node_losses[key] - NODE_LOSSES)
        assert suspicious >= attempts, "an innocent chunk is given up"
        self._holds()
        self.run.publish(shard, status)

    def settle(self, method: str) -> None:
        self._holds()
        for span in arithmetic.doubled(self.run.ranges(method)):
            self.run.delete(method, span)

    def _holds(self) -> None:
        if self.token != self.run.token:
            raise WorkError("another driver has taken over this run")

"""A run directory as the drive loop sees it: what is left of a run, or its failed rows to be tried again."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from kgscale.errors import WorkError
from kgscale.lock import holds
from kgscale.records import Extraction, Status
from kgscale.retries import BAD, current_rows, failed_shards, is_retried, retried
from kgscale.runs import Run
from kgscale.shards import Range, Shard, gaps
from kgscale.store import patiently


class RunDirectory(Protocol):
    """All that the drive loop asks of a run directory."""

    @property
    def planned(self) -> Sequence[Range]:
        """The row range of each shard."""

    @property
    def shard_words(self) -> Sequence[int]:
        """How long each shard is."""

    def remaining(self, method: str) -> list[Shard]:
        """What is not committed yet."""

    def is_committed(self, shard: Shard) -> bool:
        """Whether all rows of a shard are committed."""

    def commit_lost(self, shard: Shard, status: Status, error: str, attempts: int) -> None:
        """Commit the row of a single chunk that no worker could."""

    def settle(self, method: str) -> None:
        """Take away rows that are there twice; no worker is at work."""


@dataclass(frozen=True)
class Driven:
    """What is not committed yet; a store that does not answer for a moment is waited for."""

    run: Run
    token: str

    @property
    def planned(self) -> list[Range]:
        """The row range of each shard."""
        return self.run.planned

    @property
    def shard_words(self) -> list[int]:
        """How many words each shard has."""
        return self.run.shard_words

    def remaining(self, method: str) -> list[Shard]:
        """What is not committed yet."""
        return patiently(partial(self.run.remaining, method))

    def is_committed(self, shard: Shard) -> bool:
        """Whether all rows of a shard are committed."""
        return patiently(partial(self.run.is_committed, shard))

    def settle(self, method: str) -> None:
        """Take away rows that are there twice; raises `WorkError` if the run has another driver by now."""
        if not holds(self.run.store, self.token):
            raise _taken_over(self.run)
        self.run.drop_doubles(method)

    def commit_lost(self, shard: Shard, status: Status, error: str, attempts: int) -> None:
        """Commit the row of a single chunk that no worker could; raises `WorkError` if the run has another driver."""
        self._commit(shard, self._lost(shard, status, error, attempts), retry=False)

    def _lost(self, shard: Shard, status: Status, error: str, attempts: int) -> list[Extraction]:
        reason = error if ": " in error else f"{status}: {error}"
        return [
            Extraction(it.chunk_id, it.row, it.doc_id, shard.method, status, error=reason, attempts=attempts)
            for it in self.run.read_chunks(shard.start, shard.stop)
        ]

    def _commit(self, shard: Shard, rows: list[Extraction], *, retry: bool) -> None:
        if not patiently(partial(self.run.commit, shard, rows, self.token, retry=retry)):
            raise _taken_over(self.run)


def _taken_over(run: Run) -> WorkError:
    return WorkError("another driver has taken over this run", where=run.store.uri)


@dataclass(frozen=True)
class Retried(Driven):
    """The failed and dead rows of a whole run, each tried again once; new rows wait beside the committed ones."""

    def remaining(self, method: str) -> list[Shard]:
        """The shortest range of each planned shard that holds its bad rows, without what has been tried again."""
        done = retried(self.run, method)
        bad = failed_shards(self.run, method)
        return [Shard(method, *gap) for it in bad for gap in gaps(it.start, it.stop, done)]

    def is_committed(self, shard: Shard) -> bool:
        """Whether all rows of a shard have been tried again."""
        return patiently(partial(is_retried, self.run, shard))

    def settle(self, method: str) -> None:
        """Nothing: rows that were tried twice are told apart when they are folded in."""

    def commit_lost(self, shard: Shard, status: Status, error: str, attempts: int) -> None:
        """Keep a good row; put down what became of a bad one."""
        (row,) = current_rows(self.run, shard)
        lost = self._lost(shard, status, error, attempts)
        self._commit(shard, lost if row.status in BAD else [row], retry=True)

"""The cluster as the drive loop sees it."""

from dataclasses import dataclass
from typing import Protocol

from kgscale.extract.workers import ShardResult
from kgscale.shards import Shard


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has started and takes shards."""

    worker: int
    device: str


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A worker did not come up; `error` is the engine's own message."""

    worker: int
    error: str


@dataclass(frozen=True, slots=True)
class Done:
    """A shard is committed."""

    worker: int
    shard: Shard
    result: ShardResult


@dataclass(frozen=True, slots=True)
class Failed:
    """A shard ended with an error, its worker lives on; `fatal` says that trying again elsewhere cannot help."""

    worker: int
    shard: Shard
    error: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Died:
    """A worker is gone, with every shard in it; `blameless`: its node went, or was too full."""

    worker: int
    error: str
    blameless: bool = False


Event = Ready | StartFailed | Done | Failed | Died


class Cluster(Protocol):
    """All that the drive loop asks of a cluster; a worker is known by a number that is never used again."""

    def room(self, engine: str) -> int:
        """How many workers of an engine there may be now; nodes come and go."""

    def spawn(self, engine: str) -> int:
        """Begin to start a worker of an engine; `Ready`, `StartFailed` or, where its place is gone, `Died` follows."""

    def submit(self, worker: int, shard: Shard, attempt: int) -> None:
        """Hand a shard to a ready worker; `Done`, `Failed` or the worker's `Died` follows."""

    def wait(self, timeout_s: float) -> list[Event]:
        """What has happened; waits at most so long for something to happen."""

    def kill(self, worker: int) -> None:
        """End a worker at once; `Died` follows when it is gone, unless it was idle."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""

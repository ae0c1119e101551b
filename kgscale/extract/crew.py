"""What the drive loop knows of its engines and workers, and which of them are set apart for suspects."""

from dataclasses import dataclass, field

from kgscale.extract.deadline import Deadline
from kgscale.shards import Shard


@dataclass
class Worker:
    """A worker as the loop sees it; times are the cluster's, in seconds."""

    engine: str
    spawned_at: float
    ready: bool = False
    running: dict[Shard, float] = field(default_factory=dict)
    """Shards in the worker, with the time they were handed over."""
    sign_at: float = 0.0
    """When it last finished something."""
    reserved: bool = False
    """Takes no new shard until it is empty, then runs one suspect alone."""
    killed_for: str | None = None

    @property
    def rows(self) -> int:
        """Chunks in the worker."""
        return sum(shard.rows for shard in self.running)


@dataclass
class EngineState:
    """The workers of an engine, and how their starts went."""

    after: tuple[str, ...]
    at_once: int
    deadline: Deadline
    workers: dict[int, Worker] = field(default_factory=dict)
    start_failures: int = 0
    ever_ready: bool = False


def reserve(suspects: int, workers: list[Worker]) -> None:
    """Set workers apart for suspects: as many as there are, but half of the workers go on with the rest."""
    if not suspects and not any(worker.reserved for worker in workers):
        return
    for worker in workers:
        if worker.reserved and not worker.running and not suspects:
            worker.reserved = False
    wanted = min(suspects, max(1, len(workers) // 2)) - sum(worker.reserved for worker in workers)
    for worker in sorted((it for it in workers if not it.reserved), key=lambda it: len(it.running)):
        if wanted <= 0:
            break
        worker.reserved = True
        wanted -= 1

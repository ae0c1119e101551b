"""Row ranges: which there are, which are left, and the file that each has. Pure arithmetic."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

EXTRACTIONS = "extractions"
RETRIES = "retries"

_SHARD_NAME = re.compile(r"([0-9]{9,18})-([0-9]{9,18})\.parquet")

Range = tuple[int, int]


@dataclass(frozen=True, order=True, slots=True)
class Shard:
    """A row range of the corpus for one method, `stop` exclusive: the unit of work, of commit and of resume."""

    method: str
    start: int
    stop: int

    @property
    def file(self) -> str:
        """The name of its committed file in the run directory."""
        return f"{EXTRACTIONS}/{self.method}/{self.start:09d}-{self.stop:09d}.parquet"

    @property
    def retry_file(self) -> str:
        """The name of the file that holds its rows, tried again, until they are folded into the committed ones."""
        return f"{RETRIES}/{self.method}/{self.start:09d}-{self.stop:09d}.parquet"

    @property
    def rows(self) -> int:
        """How many chunks it holds."""
        return self.stop - self.start

    def halves(self) -> tuple["Shard", "Shard"]:
        """Two shards that share its rows; it must hold at least two."""
        middle = (self.start + self.stop) // 2
        return Shard(self.method, self.start, middle), Shard(self.method, middle, self.stop)

    def __str__(self) -> str:
        return f"{self.method} {self.start}-{self.stop}"


def range_of(name: str) -> Range | None:
    """The row range in a committed file's name, or null if it is no such name."""
    match = _SHARD_NAME.fullmatch(name)
    if match is None:
        return None
    start, stop = int(match[1]), int(match[2])
    # Only the spelling that `Shard.file` gives: any other file would count as committed and never be found.
    return (start, stop) if start < stop and name == f"{start:09d}-{stop:09d}.parquet" else None


def ranges_of(names: Iterable[str]) -> list[Range]:
    """The row ranges of the shard files among some names, sorted."""
    return sorted(it for name in names if (it := range_of(name)) is not None)


def gaps(start: int, stop: int, done: Iterable[Range]) -> list[Range]:
    """What of `[start, stop)` the ranges in `done` leave open; they may overlap and come in any order."""
    left, at = [], start
    for first, last in sorted(done):
        if last <= at or first >= stop:
            continue
        if first > at:
            left.append((at, first))
        at = max(at, last)
    if at < stop:
        left.append((at, stop))
    return left


def remaining_shards(method: str, planned: Sequence[Range], done: Iterable[Range]) -> list[Shard]:
    """The planned ranges minus those that are done, cut at the planned borders."""
    shards = []
    starts = [first for first, _ in planned]
    for first, last in gaps(0, planned[-1][1] if planned else 0, done):
        at = first
        while at < last:
            border = planned[bisect_right(starts, at) - 1][1]
            shards.append(Shard(method, at, min(last, border)))
            at = border
    return shards


def doubled(ranges: Iterable[Range]) -> list[Range]:
    """Ranges to take away so that no row is there twice; of two that overlap the longer one stays."""
    kept: list[Range] = []
    away = []
    for start, stop in sorted(ranges, key=lambda it: (it[0] - it[1], it[0])):
        at = bisect_right(kept, (start, stop))
        clear = (at == 0 or kept[at - 1][1] <= start) and (at == len(kept) or stop <= kept[at][0])
        if clear:
            kept.insert(at, (start, stop))
        else:
            away.append((start, stop))
    return sorted(away)

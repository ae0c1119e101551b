"""Two methods beside each other: how far they say the same, and which relations one finds and the other misses."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from kgscale.score.attribution import lost
from kgscale.score.items import usable
from kgscale.score.keys import Keys
from kgscale.score.match import Mode, matches, modes_for
from kgscale.score.metrics import F1
from kgscale.score.reduce import Answered
from kgscale.score.results import Agreement, Count, Loss, MethodScores


@dataclass(frozen=True, slots=True)
class PairCounts:
    """What is counted of two methods in one batch."""

    shared: pl.DataFrame
    lost_by_second: pl.DataFrame
    lost_by_first: pl.DataFrame

    @classmethod
    def of(cls, first: Answered, second: Answered, keys: Keys) -> "PairCounts":
        """Count one batch."""
        both = usable(first.rows).select("row").join(usable(second.rows), on="row", how="semi")
        shared = matches(first.said.within(both.lazy()), second.said.within(both.lazy()), keys).counts()
        return cls(
            shared.with_columns(pl.lit(both.height).alias("chunks")),
            lost(first.found.matches, second.found.causes),
            lost(second.found.matches, first.found.causes),
        )


@dataclass(frozen=True, slots=True)
class PairTally:
    """What is counted of two methods, batch by batch."""

    batches: Sequence[PairCounts]

    def agreement(self, first: MethodScores, second: MethodScores) -> tuple[Agreement, ...]:
        """The micro F1 between the methods, which is the same whichever of them stands as gold."""
        total = (
            pl.concat([it.shared for it in self.batches])
            .group_by("mode")
            .agg(pl.col("chunks", "tp", "fp", "fn").sum())
            .sort("mode")
        )
        modes = modes_for(first.checks.carries, second.checks.carries)
        wanted = total.filter(pl.col("mode").is_in([it.value for it in modes])).select("mode", F1, "chunks")
        return tuple(Agreement(first.method, second.method, *it) for it in wanted.iter_rows())

    def losses(self, first: MethodScores, second: MethodScores) -> tuple[Loss, ...]:
        """What each method misses of the gold relations that the other finds; none where they cannot be compared."""
        if first.metric(Mode.PAIR_TYPE) is None or second.metric(Mode.PAIR_TYPE) is None:
            return ()
        return (
            _loss(first.method, second.method, [it.lost_by_second for it in self.batches]),
            _loss(second.method, first.method, [it.lost_by_first for it in self.batches]),
        )


def _loss(before: str, after: str, parts: list[pl.DataFrame]) -> Loss:
    by_cause = pl.concat(parts).group_by("cause").agg(pl.col("count").sum())
    causes = tuple(Count(*it) for it in by_cause.sort("count", "cause", descending=[True, False]).iter_rows())
    return Loss(before, after, sum(it.count for it in causes), causes)

"""How wrong a sample would have been: what 50, 100 or 500 chunks of this corpus would have shown."""

import numpy as np
import polars as pl

from kgscale.config import CompareConfig
from kgscale.score.bootstrap import AFTER, COUNTS, Numbers, f1
from kgscale.score.decide import action_at
from kgscale.score.results import Interval
from kgscale.score.verdict import SampleSize

SIZES = (50, 100, 500)
"""The guide proposes 50 to 100 chunks."""
SAMPLES = 2_000


def sample_sizes(
    chunks: pl.DataFrame, speed_up: float | None, rules: CompareConfig, seed: int
) -> tuple[SampleSize, ...]:
    """Draw `SAMPLES` samples of each of `SIZES` that is smaller than the corpus.

    `chunks` holds what `compare.paired_chunks` gives for entities and, with `_relation` behind each name, for
    relations, if those are compared. Samples are drawn with replacement, as from a corpus of this kind.
    """
    values = chunks.select(_columns(chunks)).to_numpy().astype(np.float64)
    if not len(values):
        return ()
    rng = np.random.default_rng(seed)
    speed = 1.0 if speed_up is None else speed_up
    truth = _drops(values.sum(axis=0)[None, :])[0]
    if np.isnan(truth):
        return ()
    action = action_at(truth, speed, rules)
    found = []
    for size in SIZES:
        if size >= len(values):
            break
        drops = _drops(values[rng.integers(0, len(values), (SAMPLES, size))].sum(axis=1))
        drops = drops[~np.isnan(drops)]
        if not len(drops):
            continue
        low, high = np.quantile(drops, [0.025, 0.975])
        other = np.mean([action_at(drop, speed, rules) != action for drop in drops])
        found.append(SampleSize(size, Interval(float(low), float(high)), float(drops.std()), float(other)))
    return tuple(found)


def _columns(chunks: pl.DataFrame) -> list[str]:
    """The count columns, entities first."""
    entity = [*COUNTS, *AFTER]
    return [*entity, *(name for it in entity if (name := f"{it}_relation") in chunks.columns)]


def _drops(sums: Numbers) -> Numbers:
    """The drop in points of each row of summed counts: the larger of entities and relations, where defined."""
    drops = [100 * (f1(*part[:, :3].T) - f1(*part[:, 3:].T)) for part in np.split(sums, sums.shape[1] // 6, axis=1)]
    return np.asarray(np.fmax.reduce(drops), dtype=np.float64)

"""Intervals per type from counts: near what resampling would give, wider where items of a document go together."""

import numpy as np
import pytest

from kgscale.score.bootstrap import f1
from kgscale.score.results import Interval, Metric
from kgscale.score.typed import design_effect, type_interval


def resampled(counts, rng):
    """The middle 95 % of F1 over resampled documents; `counts` has a row (tp, fp, fn) per document."""
    drawn = counts[rng.integers(0, len(counts), (4000, len(counts)))].sum(axis=1)
    return Interval(*np.quantile(f1(*drawn.T), [0.025, 0.975]))


def metric(counts, interval):
    tp, fp, fn = (int(it) for it in counts.sum(axis=0))
    return Metric(
        "name+type", tp, fp, fn, None, None, 2 * tp / (2 * tp + fp + fn), None, None, None, None, None, interval
    )


def documents(rng, number, together):
    """Counts of documents whose items are right with a chance that varies by document."""
    chance = rng.beta(0.7 * together, 0.3 * together, number)
    tp = rng.binomial(10, chance)
    wrong = 10 - tp
    return np.stack([tp, wrong // 2, wrong - wrong // 2], axis=1).astype(float)


@pytest.mark.parametrize(("together", "wider"), [(1e6, False), (3.0, True)])
def test_it_is_near_what_resampling_gives(together, wider):
    rng = np.random.default_rng(1)
    whole, one = documents(rng, 400, together), documents(rng, 60, together)
    effect = design_effect(metric(whole, resampled(whole, rng)))
    assert (effect > 1.5) == wider
    wanted, found = resampled(one, rng), type_interval(*(int(it) for it in one.sum(axis=0)), effect)
    assert (found.high - found.low) / (wanted.high - wanted.low) == pytest.approx(1, abs=0.35)
    assert found.low == pytest.approx(wanted.low, abs=0.04)
    assert found.high == pytest.approx(wanted.high, abs=0.04)


def test_at_the_ends_it_stays_within_bounds_and_is_no_point():
    none, all_ = type_interval(0, 3, 4, 1.0), type_interval(7, 0, 0, 1.0)
    assert none.low == 0 < none.high < 0.7
    assert 0.6 < all_.low < 1 == all_.high
    assert type_interval(0, 0, 0, 1.0) is None


def test_without_an_interval_items_count_as_independent():
    assert design_effect(metric(np.array([[5.0, 1, 1]]), None)) == 1
    assert design_effect(metric(np.array([[5.0, 1, 1]]), Interval(0.83, 0.84))) == 1

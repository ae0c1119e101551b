"""Intervals of F1 per type, from the counts alone: scoring does not keep which chunk had which type."""

from math import sqrt

from kgscale.score.results import Interval, Metric

_Z = 1.959964
"""The 97.5 % quantile of the normal distribution."""


def design_effect(metric: Metric) -> float:
    """How many times more the items of this mode scatter than independent ones would, at least 1 (Kish 1965).

    Items of a document tend to be right or wrong together. The interval over all types, which stands on resampled
    documents, is compared with Wilson's, which takes items as independent: the square of how much wider it is.
    """
    alone = _jaccard_interval(metric.tp, metric.tp + metric.fp + metric.fn)
    if metric.f1_interval is None or alone is None or alone.high == alone.low:
        return 1.0
    sure = _jaccard(metric.f1_interval.high) - _jaccard(metric.f1_interval.low)
    return max(1.0, (sure / (alone.high - alone.low)) ** 2)


def type_interval(tp: int, fp: int, fn: int, effect: float) -> Interval | None:
    """95 % interval of the F1 of one type; null where F1 is undefined.

    Of the items that either side has, the share that both have is J = tp / (tp + fp + fn), and F1 = 2 J / (1 + J). The
    ends of Wilson's score interval (1927) of J, with all counts divided by `effect`, become those of F1. Measured
    beside intervals from resampled documents it was 1.05 times as wide in the median of 40 types of 3 corpora, and 0.8
    to 1.4 times for nine in ten.
    """
    alone = _jaccard_interval(tp / effect, (tp + fp + fn) / effect)
    return Interval(_f1(alone.low), _f1(alone.high)) if alone else None


def _jaccard_interval(both: float, either: float) -> Interval | None:
    """Wilson's score interval of `both / either`; null where there is nothing."""
    if not either:
        return None
    share, narrowing = both / either, 1 + _Z**2 / either
    centre = (share + _Z**2 / (2 * either)) / narrowing
    half = _Z / narrowing * sqrt(share * (1 - share) / either + _Z**2 / (4 * either**2))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def _f1(jaccard: float) -> float:
    return 2 * jaccard / (1 + jaccard)


def _jaccard(f1: float) -> float:
    return f1 / (2 - f1)

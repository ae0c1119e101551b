"""The charts of a report: quality against speed, and the times of chunks."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kgscale.report.figures import between, number, significant
from kgscale.report.svg import MARKER, Axis, Canvas, log_axis
from kgscale.report.texts import Texts
from kgscale.report.timing import Histogram
from kgscale.report.view import Chart, Focus
from kgscale.score.results import Metric, Scores
from kgscale.score.verdict import Difference, Verdict

WIDE, HALF, NARROW = 1000, 480, 350
"""Every chart is drawn twice, so that words stay readable on a phone; the style sheet shows the one that fits."""

LEAST_F1 = 0.12
"""The least range of an axis of F1: closer, noise would look like a difference."""


@dataclass(frozen=True, slots=True)
class _Point:
    method: str
    speed: float
    metric: Metric
    f1: float
    shape: int


def quality_charts(scores: Scores, verdict: Verdict | None, focus: Focus, t: Texts) -> list[Chart]:
    """F1 with its interval against speed, for entities and for relations; none without gold or timings."""
    charts = []
    for what, mode in (("entities", focus.entity_mode), ("relations", focus.relation_mode)):
        points = _points(scores, mode)
        if mode and points:
            kind = "entity" if what == "entities" else "relation"
            limit = next((it for it in verdict.differences if it.what == kind), None) if verdict else None
            title = t("quality_chart", what=t(what), mode=mode)
            wide, narrow = (
                _quality(points, limit, focus, t, name=f"q-{kind}-{width}", title=title, width=width)
                for width in (HALF, NARROW)
            )
            charts.append(Chart(title, wide, narrow, t("quality_note")))
    return charts


def latency_chart(histograms: Sequence[Histogram], scores: Scores, focus: Focus, t: Texts) -> Chart | None:
    """How the three times are spread, on one logarithmic axis; null without timings."""
    if not any(it.rows for it in histograms):
        return None
    wide, narrow = (_latency(histograms, scores, focus, t, name=f"lat-{it}", width=it) for it in (WIDE, NARROW))
    return Chart(t("latency"), wide, narrow, t("latency_note"))


def kind_of(method: str, focus: Focus) -> str:
    """The class of a method's marks: the candidate has the accent, the baseline the ink, the others are grey."""
    return "candidate" if method == focus.candidate else "baseline" if method == focus.baseline else "other"


def _points(scores: Scores, mode: str | None) -> list[_Point]:
    found = []
    for shape, it in enumerate(scores.methods):
        metric, speed = it.metric(mode) if mode else None, it.latency.chunks_per_s
        if metric is not None and metric.f1 is not None and speed:
            found.append(_Point(it.method, speed, metric, metric.f1, shape))
    return found


def _quality(
    points: Sequence[_Point], limit: Difference | None, focus: Focus, t: Texts, *, name: str, title: str, width: int
) -> Markup:
    height, left, right, top, bottom = 280, 40, 14, 14, 44
    canvas = Canvas(width, height)
    x = log_axis([it.speed for it in points], left, width - right)
    y = _f1_axis(points, limit, height - bottom, top)
    for tick in y.ticks():
        canvas.line(left, y.at(tick), width - right, y.at(tick), "grid")
        canvas.text(left - 7, y.at(tick) + 4, number(tick, ".2f"), "tick", "end")
    for tick in _speed_ticks(x):
        canvas.line(x.at(tick), height - bottom, x.at(tick), height - bottom + 4, "axis")
        canvas.text(x.at(tick), height - bottom + 17, f"{tick:g}", "tick", "middle")
    canvas.text((left + width - right) / 2, height - 6, t("speed_axis"), "axis-name", "middle")
    floor = limit.floor if limit else None
    if floor is not None and y.low < floor < y.high:
        canvas.line(left, y.at(floor), width - right, y.at(floor), "limit")
        canvas.text(left + 6, y.at(floor) - 5, t("floor_line", floor=f"{floor:.2f}"), "tick")
    taken: list[tuple[float, float, float]] = []
    for it in sorted(points, key=lambda point: point.f1):
        kind, at, up = kind_of(it.method, focus), x.at(it.speed), y.at(it.f1)
        if it.metric.f1_interval:
            low, high = y.at(it.metric.f1_interval.low), y.at(it.metric.f1_interval.high)
            canvas.line(at, low, at, high, f"whisker {kind}")
            # Behind the marker itself, the ends of a short whisker would look like dirt.
            for end in (low, high):
                if abs(end - up) > MARKER:
                    canvas.line(at - 4, end, at + 4, end, f"whisker {kind}")
        said = f"{it.method}: F1 {number(it.f1)} {between(it.metric.f1_interval)}, {significant(it.speed)}/s"
        canvas.marker(at, up, it.shape, f"mark {kind}", said)
        long = 7 * len(it.method) + 14
        left_side = at + long > width
        start, base = (at - long if left_side else at), min(up + 4, height - bottom - 5)
        # Labels of methods that are alike would lie on each other.
        while any(abs(base - line) < 15 and start < stop and begin < start + long for begin, stop, line in taken):
            base -= 1
        taken.append((start, start + long, base))
        canvas.text(at - 11 if left_side else at + 11, base, it.method, f"name {kind}", "end" if left_side else "start")
    speeds = t("chunks_per_s")
    told = "; ".join(f"{it.method}: F1 {number(it.f1)}, {significant(it.speed)} {speeds}" for it in points)
    return canvas.drawn(name, title, told)


def _f1_axis(points: Sequence[_Point], limit: Difference | None, start: float, stop: float) -> Axis:
    """Around the figures and their intervals, and the floor where it is near."""
    ends = [it.f1 for it in points]
    for it in points:
        if it.metric.f1_interval:
            ends += [it.metric.f1_interval.low, it.metric.f1_interval.high]
    if limit and limit.floor is not None and 0 < min(ends) - limit.floor < 0.15:
        ends.append(limit.floor)
    low, high = max(0.0, min(ends) - 0.04), min(1.0, max(ends) + 0.04)
    if high - low < LEAST_F1:
        middle = min(max((low + high) / 2, LEAST_F1 / 2), 1 - LEAST_F1 / 2)
        low, high = middle - LEAST_F1 / 2, middle + LEAST_F1 / 2
    return Axis(low, high, start, stop)


def _speed_ticks(axis: Axis) -> list[float]:
    found = [it * step for it in Axis(axis.low / 10, axis.high, 0, 1, log=True).ticks(99) for step in (1, 2, 5)]
    inside = [it for it in found if axis.low * 0.999 <= it <= axis.high * 1.001]
    return inside if len(inside) <= 8 else axis.ticks()


def _latency(
    histograms: Sequence[Histogram], scores: Scores, focus: Focus, t: Texts, *, name: str, width: int
) -> Markup:
    methods = focus.ordered(it.method for it in scores.methods)
    shown = sorted((it for it in histograms if it.rows), key=lambda it: methods.index(it.method))
    kinds = [kind for kind in ("service", "queue", "amortised") if any(it.kind == kind for it in shown)]
    row, head, bottom, right = 44, 30, 40, 12
    left = 8 + min(110, max(7 * len(it) for it in methods))
    height = len(kinds) * head + len(shown) * row + bottom
    canvas = Canvas(width, height)
    edges = [edge for it in shown for edge in (it.edges[0], it.edges[-1])]
    x = Axis(min(edges), max(edges), left, width - right, log=True)
    for tick in x.ticks(8 if width == WIDE else 5):
        canvas.line(x.at(tick), 6, x.at(tick), height - bottom, "grid")
        canvas.text(x.at(tick), height - bottom + 17, _duration(tick), "tick", "middle")
    y, told = 0.0, []
    for kind in kinds:
        canvas.text(0, y + 20, t(kind), "chart-head")
        y += head
        for it in (it for it in shown if it.kind == kind):
            _spread(canvas, it, x, y + row - 8, row - 14, kind_of(it.method, focus), t)
            canvas.text(0, y + row - 12, it.method, f"name {kind_of(it.method, focus)}")
            told.append(f"{t(kind)}, {it.method}: p50 {significant(it.p50)} ms, p95 {significant(it.p95)} ms")
            y += row
    canvas.text((left + width - right) / 2, height - 4, t("latency_axis"), "axis-name", "middle")
    return canvas.drawn(name, t("latency"), "; ".join(told))


def _spread(canvas: Canvas, it: Histogram, x: Axis, base: float, tall: float, kind: str, t: Texts) -> None:
    """A histogram as a hill, with its p50, p95 and p99 marked below."""
    most = max(it.counts)
    points = [(x.at(it.edges[0]), base)]
    for count, low, high in zip(it.counts, it.edges, it.edges[1:], strict=False):
        points += [(x.at(low), base - tall * count / most), (x.at(high), base - tall * count / most)]
    points.append((x.at(it.edges[-1]), base))
    canvas.lines(points, f"hill {kind}")
    canvas.line(x.start, base, x.stop, base, "axis")
    for what, ms, size in (("p50", it.p50, 9), ("p95", it.p95, 6), ("p99", it.p99, 6)):
        if ms is not None and ms > 0:
            title = f"{it.method}, {t(it.kind)}: {what} {significant(ms)} ms"
            canvas.box(x.at(ms) - 1, base - size / 2, 2, size, f"quantile {kind}", title)


def _duration(ms: float) -> str:
    if ms < 1000:
        return f"{ms:g} ms"
    return f"{ms / 1000:g} s" if ms < 1_000_000 else f"{ms / 1000:,.0f} s"

"""The page of many runs: how metrics moved, as charts and a table."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from kgscale.report.charts import HALF, NARROW
from kgscale.report.figures import NOT_APPLICABLE, UNDEFINED, between, brief, number, share, significant, whole
from kgscale.report.rendering import render
from kgscale.report.repeats import repeats_table
from kgscale.report.svg import Axis, Canvas
from kgscale.report.texts import Lang, Texts
from kgscale.report.view import Cell, Chart, Focus, Section, Table, named
from kgscale.score.history import History, HistoryEntry
from kgscale.score.results import Metric
from kgscale.store import Store
from kgscale.talk import visible

Part = Literal["entity", "relation"]
PARTS: tuple[Part, ...] = ("entity", "relation")
LEAST_RANGE = 0.12
"""The least range of an axis of F1: closer, noise would look like a trend."""
KINDS = ("baseline", "candidate", "other")
"""The colours of lines, in turn; their markers differ too."""


def write_history(found: History, path: Path, *, lang: Lang = "en") -> Path:
    """Write the page, whole or not at all, and return its path; raises `WorkError` if that fails."""
    t = Texts(lang)
    runs = list(dict.fromkeys(it.run for it in found.entries))
    days = [(it.created_at or UNDEFINED)[:10] for it in found.entries]
    when = "history_day" if days[0] == days[-1] else "history_head"
    spreads = repeats_table(found.spreads, Focus(None, None, None, None), t)
    sections = (
        Section("trend", t("trend"), charts=tuple(_charts(found.entries, runs, t))),
        Section("runs", t("runs"), tables=(_table(found.entries, t),)),
        Section("repeated", t("repeated"), tables=(spreads,) if spreads else ()),
    )
    text = render(
        "history.html.jinja",
        t,
        t("history"),
        headline=t(when, runs=whole(len(runs)), first=days[0], last=days[-1]),
        sections=[it for it in sections if it],
        damaged=[visible(it) for it in found.damaged],
    )
    Store(path.absolute().parent).write(path.name, text.encode())
    return path


def _charts(entries: Sequence[HistoryEntry], runs: Sequence[str], t: Texts) -> list[Chart]:
    charts = []
    for part in PARTS:
        if any(_f1(it, part) is not None for it in entries):
            title = f"{t(f'score_{part}').strip()}"
            wide, narrow = (_drawn(entries, runs, part, t, name=f"{part}-{it}", width=it) for it in (HALF, NARROW))
            charts.append(Chart(title[0].upper() + title[1:], wide, narrow, t("trend_note")))
    return charts


def _drawn(
    entries: Sequence[HistoryEntry], runs: Sequence[str], part: Part, t: Texts, *, name: str, width: int
) -> Markup:
    height, left, top, bottom = 280, 40, 14, 44
    methods = list(dict.fromkeys(it.method for it in entries if _f1(it, part) is not None))
    right = 36 + min(110, max(7 * len(it) for it in methods))
    canvas = Canvas(width, height)
    x = Axis(0, max(len(runs) - 1, 1), left + 12, width - right)
    y = _f1_axis([metric for it in entries if (metric := getattr(it, part))], height - bottom, top)
    for tick in y.ticks():
        canvas.line(left, y.at(tick), width - right, y.at(tick), "grid")
        canvas.text(left - 7, y.at(tick) + 4, number(tick, ".2f"), "tick", "end")
    for index in sorted({0, len(runs) - 1}):
        canvas.text(x.at(index), height - bottom + 17, _short(runs[index]), "tick", "end" if index else "start")
    canvas.text((left + width - right) / 2, height - 6, t("trend_axis"), "axis-name", "middle")
    told, taken = [], list[float]()
    apart = min(9.0, (x.at(1) - x.at(0)) / (2 * len(methods)))
    for shape, method in enumerate(methods):
        # Methods that are alike would hide each other.
        aside = apart * (shape - (len(methods) - 1) / 2)
        kind = KINDS[min(shape, len(KINDS) - 1)]
        points = [(runs.index(it.run), it) for it in entries if it.method == method and _f1(it, part) is not None]
        for (before, old), (after, new) in pairwise(points):
            # A line would compare what cannot be compared.
            if old.basis == new.basis:
                ends = [(x.at(at) + aside, y.at(_f1(it, part) or 0)) for at, it in ((before, old), (after, new))]
                canvas.lines(ends, f"trend {kind}")
        for index, it in points:
            metric = getattr(it, part)
            at, up = x.at(index) + aside, y.at(metric.f1)
            if metric.f1_interval:
                canvas.line(at, y.at(metric.f1_interval.low), at, y.at(metric.f1_interval.high), f"whisker {kind}")
            said = f"{it.run}, {method}: F1 {number(metric.f1)} {between(metric.f1_interval)}"
            canvas.marker(at, up, shape, f"mark {kind}", said)
            told.append(said)
        base = y.at(_f1(points[-1][1], part) or 0) + 4
        while any(abs(base - other) < 15 for other in taken):
            base += 1
        taken.append(base)
        canvas.text(x.at(points[-1][0]) + apart * len(methods) / 2 + 9, base, method, f"name {kind}")
    return canvas.drawn(name, t(f"score_{part}").strip(), "; ".join(told))


def _f1_axis(metrics: Sequence[Metric], start: float, stop: float) -> Axis:
    ends = [it.f1 for it in metrics if it.f1 is not None]
    ends += [end for it in metrics if it.f1_interval for end in (it.f1_interval.low, it.f1_interval.high)]
    low, high = max(0.0, min(ends) - 0.02), min(1.0, max(ends) + 0.02)
    if high - low < LEAST_RANGE:
        middle = min(max((low + high) / 2, LEAST_RANGE / 2), 1 - LEAST_RANGE / 2)
        low, high = middle - LEAST_RANGE / 2, middle + LEAST_RANGE / 2
    return Axis(low, high, start, stop)


def _table(entries: Sequence[HistoryEntry], t: Texts) -> Table:
    rows = [
        (
            Cell(brief(it.run), (it.created_at or "")[:16].replace("T", " "), figure=False),
            named(it.method),
            Cell(whole(it.chunks), it.basis),
            *(_cell(getattr(it, part)) for part in PARTS),
            Cell(share(it.coverage)),
            Cell(significant(it.amortised_ms)),
        )
        for it in entries
    ]
    heads = ("run", "method", "gold", "score_entity", "score_relation", "coverage", "amortised_ms")
    return Table(t("runs"), tuple(t(it).strip() for it in heads), tuple(rows), note=t("runs_note"))


def _cell(metric: Metric | None) -> Cell:
    if metric is None:
        return Cell(NOT_APPLICABLE)
    return Cell(number(metric.f1), between(metric.f1_interval), bar=metric.f1, sure=metric.f1_interval, strong=True)


def _f1(entry: HistoryEntry, part: Part) -> float | None:
    metric: Metric | None = getattr(entry, part)
    return metric.f1 if metric else None


def _short(name: str) -> str:
    return name if len(name) <= 22 else f"{name[:21]}…"

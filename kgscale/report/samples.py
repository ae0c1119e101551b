"""How wrong a sample of the corpus would have been: a chart and its table."""

from collections.abc import Sequence

from markupsafe import Markup

from kgscale.report.charts import NARROW, WIDE
from kgscale.report.figures import between, number, share, whole
from kgscale.report.svg import Axis, Canvas
from kgscale.report.texts import Texts
from kgscale.report.thresholds import change
from kgscale.report.view import Cell, Chart, Table
from kgscale.score.results import Interval
from kgscale.score.verdict import SampleSize, Verdict


def samples_chart(verdict: Verdict, t: Texts) -> Chart | None:
    """The drops that samples of each size would have shown, around the drop of the whole corpus."""
    samples = verdict.samples
    truth = next((it.drop for it in verdict.cells if it.at == "estimate"), None)
    if not samples or truth is None:
        return None
    wide, narrow = (_drawn(samples, truth, t, name=f"samples-{width}", width=width) for width in (WIDE, NARROW))
    return Chart(t("samples"), wide, narrow, t("samples_note"))


def samples_table(samples: Sequence[SampleSize], t: Texts) -> Table | None:
    """The same as figures; null where there are none."""
    rows = [
        (
            Cell(whole(it.chunks)),
            Cell(between(change(it.drop), "+.1f")),
            Cell(number(it.deviation, ".1f")),
            Cell(share(it.other_action), strong=True),
        )
        for it in samples
    ]
    head = (t("sample_chunks"), t("sample_drop"), t("sample_deviation"), t("sample_other"))
    return Table(t("samples_table"), head, tuple(rows)) if rows else None


def _drawn(samples: Sequence[SampleSize], truth: float, t: Texts, *, name: str, width: int) -> Markup:
    row, top, bottom, left = 40, 8, 46, 92
    right = 190 if width == WIDE else 62
    height = top + row * len(samples) + bottom
    canvas = Canvas(width, height)
    x = _points_axis([it.drop for it in samples], truth, left, width - right)
    for tick in x.ticks(10 if width == WIDE else 5):
        kind = "axis" if abs(tick) < 1e-9 else "grid"
        canvas.line(x.at(tick), top, x.at(tick), height - bottom, kind)
        canvas.text(x.at(tick), height - bottom + 17, f"{number(-tick, '+g')}", "tick", "middle")
    told = []
    for index, it in enumerate(samples):
        y = top + row * (index + 0.5)
        canvas.text(0, y + 4, t("sample_of", chunks=whole(it.chunks)), "name")
        ends = sorted((x.at(it.drop.low), x.at(it.drop.high)))
        canvas.box(ends[0], y - 6, ends[1] - ends[0], 12, "band candidate", between(change(it.drop), "+.1f"))
        other = share(it.other_action)
        words = t("sample_wrong", share=other) if width == WIDE else other
        canvas.text(width, y + 4, words, "tick", "end")
        told.append(f"{t('sample_of', chunks=whole(it.chunks))}: {between(change(it.drop), '+.1f')}, {other}")
    canvas.line(x.at(truth), top, x.at(truth), height - bottom, "truth")
    canvas.text((left + width - right) / 2, height - 6, t("samples_axis"), "axis-name", "middle")
    return canvas.drawn(name, t("samples"), "; ".join(told))


def _points_axis(drops: Sequence[Interval], truth: float, start: float, stop: float) -> Axis:
    """From the best change to the worst: what is lost is on the left, as a minus."""
    low = min(truth, *(it.low for it in drops))
    high = max(truth, *(it.high for it in drops))
    beyond = max((high - low) * 0.06, 0.5)
    return Axis(low - beyond, high + beyond, stop, start)

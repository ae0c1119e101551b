"""The report of a run as one HTML file."""

from dataclasses import dataclass
from typing import TypeVar

from markupsafe import Markup

from kgscale.report import tables
from kgscale.report.card import Card, card
from kgscale.report.causes import cause_tables
from kgscale.report.charts import latency_chart, quality_charts
from kgscale.report.explorer import Explorer, explore, to_json
from kgscale.report.figures import brief
from kgscale.report.hero import Hero, hero
from kgscale.report.marking import WRONG
from kgscale.report.per_type import confusion_table, type_details, type_tables
from kgscale.report.rendering import render
from kgscale.report.repeats import repeats_table
from kgscale.report.samples import samples_chart, samples_table
from kgscale.report.texts import Lang, Texts
from kgscale.report.thresholds import thresholds_table
from kgscale.report.timing import MethodScan, scan_method
from kgscale.report.view import Chart, Focus, Section, Table
from kgscale.runs import Run
from kgscale.score.history import repeats
from kgscale.score.results import Scores
from kgscale.score.tables import CONFUSION, PER_TYPE, read_table
from kgscale.score.verdict import Verdict

Shown = TypeVar("Shown", Table, Chart)

REPORT_FILE = "report.html"
MOST_TYPES = 500
"""Types that can be filtered by."""
MOST_TROUBLED = 60
"""Chunks of each method that are shown because of their status."""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that the template shows."""

    hero: Hero
    sections: tuple[Section, ...]
    explorer: Explorer
    chunks: Markup
    """The explorer's chunks, as JSON."""
    shown: int
    preferred: str | None
    """The method that is marked first: the candidate."""
    seed: int
    card: Card


def write_report(run: Run, scores: Scores, verdict: Verdict | None, *, lang: Lang = "en") -> str:
    """Write `report.html` into the run directory, and return its address.

    The scores must be those that stand in the run's `scores/`. Raises `UserError` if the run has not been scored.
    """
    t = Texts(lang)
    page = _page(run, scores, verdict, t)
    text = render(
        "page.html.jinja",
        t,
        run.store.uri.rstrip("/").rsplit("/", 1)[-1],
        script="page.js",
        page=page,
        words=t.starting("js_"),
        kinds=[*(it.value for it in WRONG if page.explorer.has_gold), "status"],
        types=list(dict.fromkeys(map(brief, page.explorer.types)))[:MOST_TYPES],
    )
    run.store.write(REPORT_FILE, text.encode())
    return run.store.url(REPORT_FILE)


def _page(run: Run, scores: Scores, verdict: Verdict | None, t: Texts) -> Page:
    focus = Focus.of(scores, verdict)
    scans = [scan_method(run, it.method, it.latency, MOST_TROUBLED) for it in scores.methods]
    devices = sorted({device for it in scans for device in it.devices})
    seed = run.config.seed
    explorer = explore(run, scores, focus, scans, seed)
    chunks, shown = to_json(explorer)
    return Page(
        hero=hero(scores, verdict, run.config.compare, t),
        sections=tuple(it for it in _sections(run, scores, verdict, focus, scans, t) if it),
        explorer=explorer,
        chunks=Markup(chunks),  # noqa: S704 (`to_json` escapes what could end a script element)
        shown=shown,
        preferred=focus.candidate,
        seed=seed,
        card=card(run, scores, focus, devices, t),
    )


def _sections(
    run: Run, scores: Scores, verdict: Verdict | None, focus: Focus, scans: list[MethodScan], t: Texts
) -> tuple[Section, ...]:
    per_type = read_table(run, PER_TYPE)
    histograms = [histogram for it in scans for histogram in it.histograms]
    agreement = tables.agreement_table(scores, t) if scores.agreement else None
    details = (
        (tables.modes_table(scores, focus, t), tables.spans_table(scores, focus, t), agreement) if scores.gold else ()
    )
    return (
        Section(
            "methods",
            t("methods"),
            tables=(tables.methods_table(scores, focus, t),),
            folded=_present(*details, repeats_table(repeats(run), focus, t)),
        ),
        Section("thresholds", t("thresholds"), tables=_present(thresholds_table(verdict, t) if verdict else None)),
        Section(
            "speed", t("quality_speed"), nav=t("nav_speed"), charts=tuple(quality_charts(scores, verdict, focus, t))
        ),
        Section(
            "agreement",
            t("agreement"),
            nav=t("nav_agreement"),
            tables=() if scores.gold else _present(agreement),
        ),
        Section(
            "types",
            t("per_type"),
            nav=t("nav_types"),
            tables=tuple(type_tables(per_type, scores, focus, t)),
            folded=_present(
                type_details(per_type, scores, focus, t), confusion_table(read_table(run, CONFUSION), focus, t)
            ),
        ),
        Section(
            "samples",
            t("samples"),
            nav=t("nav_samples"),
            charts=_present(samples_chart(verdict, t) if verdict else None),
            folded=_present(samples_table(verdict.samples, t) if verdict else None),
        ),
        Section("causes", t("causes"), nav=t("nav_causes"), tables=tuple(cause_tables(scores, focus, t))),
        Section(
            "latency",
            t("latency"),
            nav=t("nav_latency"),
            charts=_present(latency_chart(histograms, scores, focus, t)),
            folded=_present(tables.latency_table(scores, focus, t), tables.tokens_table(scores, focus, t)),
        ),
        Section(
            "fate",
            t("fate_section"),
            nav=t("nav_fate"),
            tables=_present(tables.fate_table(scores, focus, t), tables.failures_table(scores, focus, t)),
            folded=_present(tables.health_table(scores, focus, t), tables.unmapped_table(scores, focus, t)),
        ),
    )


def _present(*found: Shown | None) -> tuple[Shown, ...]:
    return tuple(it for it in found if it is not None)

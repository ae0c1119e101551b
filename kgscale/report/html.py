"""The report as one HTML file, which opens offline: nothing in it asks for anything outside it."""

import base64
import hashlib
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

import kgscale
from kgscale.report import tables
from kgscale.report.card import Card, card
from kgscale.report.causes import cause_tables
from kgscale.report.charts import Chart, latency_chart, quality_charts
from kgscale.report.explorer import Explorer, explore, to_json
from kgscale.report.figures import brief, visible
from kgscale.report.hero import Hero, hero
from kgscale.report.marking import WRONG
from kgscale.report.per_type import type_details, type_tables
from kgscale.report.samples import samples_chart, samples_table
from kgscale.report.texts import Lang, Texts
from kgscale.report.timing import scan_method
from kgscale.report.view import Focus, Table
from kgscale.runs import Run
from kgscale.score.compare import samples_of
from kgscale.score.results import Scores
from kgscale.score.samplesize import SampleSize
from kgscale.score.tables import PER_TYPE, read_table
from kgscale.score.verdict import Verdict

REPORT_FILE = "report.html"
MOST_TYPES = 500
"""Types that can be filtered by."""
MOST_TROUBLED = 60
"""Chunks of each method that are shown because of their status."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; what is `None` or empty is not shown."""

    id: str
    title: str
    nav: str = ""
    """A shorter title."""
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    folded: tuple[Table, ...] = ()
    """Tables that are opened by a click."""


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
    page = _page(run, scores, verdict, Texts(lang))
    run.store.write(REPORT_FILE, _render(page, Texts(lang), run).encode())
    return run.store.url(REPORT_FILE)


def _page(run: Run, scores: Scores, verdict: Verdict | None, t: Texts) -> Page:
    per_type = read_table(run, PER_TYPE)
    focus = Focus.of(scores, verdict)
    scans = [scan_method(run, it.method, it.latency, MOST_TROUBLED) for it in scores.methods]
    histograms = [histogram for it in scans for histogram in it.histograms]
    devices = sorted({device for it in scans for device in it.devices})
    seed = run.config.seed
    explorer = explore(run, scores, focus, scans, seed)
    chunks, shown = to_json(explorer)
    samples = _samples(run, verdict)
    sampled = samples_chart(samples, verdict, t) if verdict else None
    latency = latency_chart(histograms, scores, focus, t)
    agreement = tables.agreement_table(scores, t) if scores.agreement else None
    sections = (
        Section(
            "methods",
            t("methods"),
            tables=(tables.methods_table(scores, focus, t),),
            folded=_present(tables.modes_table(scores, focus, t), tables.spans_table(scores, focus, t), agreement)
            if scores.gold
            else (),
        ),
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
            tables=tuple(type_tables(per_type, scores, focus, t)),
            folded=_present(type_details(per_type, focus, t)),
        ),
        Section(
            "samples",
            t("samples"),
            nav=t("nav_samples"),
            charts=(sampled,) if sampled else (),
            folded=_present(samples_table(samples, t)),
        ),
        Section("causes", t("causes"), nav=t("nav_causes"), tables=tuple(cause_tables(scores, focus, t))),
        Section(
            "latency",
            t("latency"),
            nav=t("nav_latency"),
            charts=(latency,) if latency else (),
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
    return Page(
        hero=hero(scores, verdict, run.config.compare, t),
        sections=tuple(it for it in sections if it.tables or it.charts or it.folded),
        explorer=explorer,
        chunks=Markup(chunks),  # noqa: S704 (`to_json` escapes what could end a script element)
        shown=shown,
        preferred=focus.candidate,
        seed=seed,
        card=card(run, scores, focus, devices, t),
    )


def _samples(run: Run, verdict: Verdict | None) -> tuple[SampleSize, ...]:
    """How wrong samples would have been, of the two methods that the verdict is about."""
    if verdict is None:
        return ()
    names = {"baseline": verdict.baseline, "candidate": verdict.candidate}
    return samples_of(run, run.config.compare.model_copy(update=names))


def _render(page: Page, t: Texts, run: Run) -> str:
    style, script = _resource("page.css"), _resource("page.js")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["coded"] = _coded
    return environment.from_string(
        _resource("page.html.jinja")
    ).render(
        page=page,
        t=t,
        title=run.store.uri.rstrip("/").rsplit("/", 1)[-1],
        version=kgscale.__version__,
        style=Markup(style),  # noqa: S704 (a file of this package)
        script=Markup(script),  # noqa: S704
        policy=_policy(style, script),
        words=t.starting("js_"),
        kinds=[*(it.value for it in WRONG if page.explorer.has_gold), "status"],
        types=list(dict.fromkeys(map(brief, page.explorer.types)))[:MOST_TYPES],
        preferred=page.preferred,
    )


def _coded(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    # A percent sign must not stand alone at the start of a line.
    parts = visible(text).replace(" %", "\u00a0%").split("`")
    return Markup("").join(Markup("<code>{}</code>").format(it) if at % 2 else it for at, it in enumerate(parts))


def _policy(style: str, script: str) -> str:
    """What the page may do: run its own script and style, known by their hashes, and nothing else."""
    rules = (
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        f"script-src '{_digest(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    )
    return "; ".join(rules)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _resource(name: str) -> str:
    return files("kgscale.report").joinpath(name).read_text(encoding="utf-8")


def _present(*found: Table | None) -> tuple[Table, ...]:
    return tuple(it for it in found if it is not None)

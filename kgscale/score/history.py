"""Many runs over time, and repeats of one: how metrics move and how far they scatter."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev

from kgscale.errors import UserError
from kgscale.runs import Run
from kgscale.score.match import relation_mode
from kgscale.score.results import Metric, Scores
from kgscale.score.tables import SCORES_FILE, read_scores
from kgscale.store import Store


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One method of one run; F1 from 0 to 1, null where undefined."""

    run: str
    """The name of its directory."""
    created_at: str | None
    method: str
    chunks: int
    """Gold chunks."""
    entity: Metric | None
    relation: Metric | None
    coverage: float | None
    amortised_ms: float | None
    basis: str
    """Short for corpus and gold: metrics of runs with different ones are not comparable."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A metric's F1 over repeats of one method: its deviation is noise that no interval over chunks contains."""

    method: str
    mode: str
    repeats: int
    mean: float
    deviation: float
    """Standard deviation with n - 1."""
    low: float
    high: float


def history(folder: str) -> tuple[HistoryEntry, ...]:
    """Every scored run in a directory, oldest first; raises `UserError` if there is none."""
    store = Store(folder)
    if store.local and not Path(store.uri).is_dir():
        raise UserError("there is no such directory", where=store.uri)
    runs = [Run(f"{store.uri}/{name}") for name in store.folders("") if store.exists(f"{name}/{SCORES_FILE}")]
    if not runs:
        raise UserError("there is no scored run in this directory", where=store.uri, hint="name the directory of runs")
    scored = sorted(((it, read_scores(it)) for it in runs), key=lambda it: (it[1].created_at or "", it[0].store.uri))
    return tuple(_entry(run, scores, index) for run, scores in scored for index in range(len(scores.methods)))


def spreads(scores: Sequence[Scores]) -> tuple[Spread, ...]:
    """The spread of each method's F1 over runs that repeat it; methods and modes in a single run are left out."""
    found = [
        (method.method, metric.mode, metric.f1)
        for it in scores
        for method in it.methods
        for metric in method.metrics
        if metric.f1 is not None
    ]
    spread = []
    for (method, mode), group in groupby(sorted(found), key=lambda it: it[:2]):
        values = [f1 for _, _, f1 in group]
        if len(values) > 1:
            spread.append(Spread(method, mode, len(values), fmean(values), stdev(values), min(values), max(values)))
    return tuple(spread)


def _entry(run: Run, scores: Scores, index: int) -> HistoryEntry:
    it = scores.methods[index]
    rules = run.config.compare
    return HistoryEntry(
        run=run.store.uri.rstrip("/").rsplit("/", 1)[-1],
        created_at=scores.created_at,
        method=it.method,
        chunks=scores.gold.chunks if scores.gold else 0,
        entity=it.metric(rules.entity_mode),
        relation=it.metric(relation_mode(rules.relation_mode).mode),
        coverage=it.coverage,
        amortised_ms=it.latency.amortised.mean,
        basis=f"{(scores.corpus or '')[:6]}/{scores.gold.digest[:6] if scores.gold else 'no gold'}",
    )

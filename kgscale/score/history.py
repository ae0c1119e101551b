"""Many runs over time, and repeats of one: how metrics move and how far they scatter."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev

from kgscale.errors import UserError
from kgscale.runs import Run
from kgscale.score.match import relation_mode
from kgscale.score.results import MethodScores, Metric, Scores
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
    stamp: str
    """Of the method's fingerprint: entries with the same one repeat each other."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A metric's F1 over repeats of one method: its deviation is noise that no interval over chunks contains."""

    method: str
    stamp: str
    """Of the fingerprint that the repeats share."""
    mode: str
    repeats: int
    mean: float
    deviation: float
    """Standard deviation with n - 1."""
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class History:
    """What a directory of runs holds."""

    entries: tuple[HistoryEntry, ...]
    """Oldest run first."""
    spreads: tuple[Spread, ...]
    damaged: tuple[str, ...]
    """The runs that were left out, each with what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A run, its scores, and the stamp of each scored method."""

    run: Run
    scores: Scores
    stamps: dict[str, str]


def history(folder: str) -> History:
    """Every scored run in a directory; raises `UserError` if none can be read.

    A run that cannot be read is left out and named: one damaged file must not hide the others.
    """
    store = Store(folder)
    if store.local and not Path(store.uri).is_dir():
        raise UserError("there is no such directory", where=store.uri)
    found, damaged = _read(store, [it for it in store.folders("") if store.exists(f"{it}/{SCORES_FILE}")])
    if not found:
        raise UserError(
            "there is no scored run in this directory",
            where=store.uri,
            hint="; ".join(damaged) or "name the directory of runs",
        )
    found.sort(key=lambda it: (it.scores.created_at or "", it.run.store.uri))
    entries = tuple(_entry(it, method) for it in found for method in it.scores.methods)
    return History(entries, spreads(found), tuple(damaged))


def repeats(run: Run) -> tuple[Spread, ...]:
    """The spread over a run and the repeats that `--new-run` puts beside it (`demo`, `demo-2`, …); empty without any.

    A repeat has the same corpus and gold, and a method's rows count where its fingerprint is the same.
    """
    parent, _, name = run.store.uri.rstrip("/").rpartition("/")
    alike = re.compile(rf"{re.escape(re.sub('-[0-9]+$', '', name))}(-[0-9]+)?")
    try:
        store = Store(parent)
        names = [it for it in store.folders("") if alike.fullmatch(it) and store.exists(f"{it}/{SCORES_FILE}")]
    except OSError:  # the parent of a run need not be readable
        return ()
    if len(names) < 2:
        return ()
    found, _ = _read(store, names)
    own = next((it for it in found if it.run.store.uri == run.store.uri), None)
    if own is None:
        return ()
    stamps = set(own.stamps.values())
    comparable = [it for it in found if _basis(it.scores) == _basis(own.scores)]
    return tuple(it for it in spreads(comparable) if it.stamp in stamps)


def spreads(scored: Iterable[Scored]) -> tuple[Spread, ...]:
    """The spread of each method's F1 over runs that repeat it; what a single run has is left out."""
    found = [
        ((method.method, it.stamps[method.method], metric.mode, *_basis(it.scores)), metric.f1)
        for it in scored
        for method in it.scores.methods
        for metric in method.metrics
        if metric.f1 is not None
    ]
    spread = []
    for (method, stamp, mode, *_), group in groupby(sorted(found), key=lambda it: it[0]):
        values = [f1 for _, f1 in group]
        if len(values) > 1:
            figures = (fmean(values), stdev(values), min(values), max(values))
            spread.append(Spread(method, stamp, mode, len(values), *figures))
    return tuple(spread)


def _read(store: Store, names: Sequence[str]) -> tuple[list[Scored], list[str]]:
    """The runs that can be read, and what is wrong with the others."""
    found, damaged = [], []
    for name in names:
        try:
            run = Run(f"{store.uri}/{name}")
            scores = read_scores(run)
            found.append(Scored(run, scores, {it.method: run.method_stamp(it.method) for it in scores.methods}))
        except UserError as error:
            damaged.append(f"{name}: {error.message}")
        except (OSError, KeyError, TypeError) as error:
            damaged.append(f"{name}: cannot be read: {type(error).__name__} {error}")
    return found, damaged


def _basis(scores: Scores) -> tuple[str, str]:
    return scores.corpus or "", scores.gold.digest if scores.gold else ""


def _entry(of: Scored, it: MethodScores) -> HistoryEntry:
    rules, scores = of.run.config.compare, of.scores
    corpus, gold = _basis(scores)
    return HistoryEntry(
        run=of.run.store.uri.rstrip("/").rsplit("/", 1)[-1],
        created_at=scores.created_at,
        method=it.method,
        chunks=scores.gold.chunks if scores.gold else 0,
        entity=it.metric(rules.entity_mode),
        relation=it.metric(relation_mode(rules.relation_mode).mode),
        coverage=it.coverage,
        amortised_ms=it.latency.amortised.mean,
        basis=f"{corpus[:6]}/{gold[:6] or 'no gold'}",
        stamp=of.stamps[it.method],
    )

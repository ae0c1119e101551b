"""Scores in the terminal: readable in 100 columns, and without colour."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kgscale.report.console import NOT_APPLICABLE, between, bullet, figure, new_table, prf
from kgscale.score.attribution import Missed, Spurious
from kgscale.score.match import ENTITY_MODES, RELATION_MODES, Mode
from kgscale.score.results import MethodScores, Scores
from kgscale.score.spans import Scheme

MOST_LABELS = 8
"""Unmapped labels named in a note; the rest is counted."""


def scores_view(scores: Scores) -> RenderableType:
    """Quality where there is gold (agreement otherwise), cost, fate, and notes on what needs attention."""
    parts: list[RenderableType] = []
    if scores.gold:
        origins = ", ".join(f"{it.count:,} {it.what}" for it in scores.gold.origins)
        maker = f", by {scores.gold.annotator}" if scores.gold.annotator else ""
        parts.append(Text(f"Against gold: {scores.gold.chunks:,} chunks ({origins}{maker})"))
        parts += [_entities(scores), _relations(scores)]
        if any(it.spans for it in scores.methods):
            parts.append(_spans(scores))
        if scores.resampling:
            it = scores.resampling
            parts.append(
                Text(f"Below each F1 its 95 % interval, from {it.replicates:,} resamples of {it.units:,} {it.unit}s")
            )
    elif scores.agreement:
        parts.append(_agreement(scores))
    if any(it.missed or it.spurious for it in scores.methods):
        parts += [_causes(scores.methods, "missed", Missed), _causes(scores.methods, "spurious", Spurious)]
    parts += [_cost(scores.methods), _fates(scores.methods)]
    parts += [bullet(note) for note in notes(scores)]
    return Group(*parts)


def notes(scores: Scores) -> Iterator[str]:
    """What a reader must know to judge the figures, one sentence each."""
    if scores.gold is None:
        yield "There is no gold, so nothing can be said about quality; name a gold file in the config (`gold:`)."
    elif scores.gold.outside_corpus:
        yield f"Gold chunks that the corpus does not have: {scores.gold.outside_corpus:,}; they count as missed."
    if scores.gold and scores.gold.partial:
        yield (
            f"{scores.gold.partial:,} of {scores.gold.chunks:,} gold chunks are not annotated exhaustively: "
            "precision (P) is a lower bound, and F1 is low with it."
        )
    for it in scores.methods:
        yield from _method_notes(it, has_gold=scores.gold is not None)


def _entities(scores: Scores) -> Table:
    table = new_table("entities", "name F1", "P", "R", "name+type F1", "P", "R")
    for it in scores.methods:
        cells = [cell for mode in ENTITY_MODES for cell in prf(it.metric(mode))]
        table.add_row(it.method, *cells)
    return table


def _spans(scores: Scores) -> Table:
    table = new_table("by offsets", *(f"{it} F1" for it in Scheme), "missed", "spurious")
    for it in scores.methods:
        cells = [f"{figure(x.f1)}{between(x.f1_interval)}" for x in it.spans] or [NOT_APPLICABLE] * len(Scheme)
        counts = [f"{it.spans[0].missed:,}", f"{it.spans[0].spurious:,}"] if it.spans else ["", ""]
        table.add_row(it.method, *cells, *counts)
    return table


def _relations(scores: Scores) -> Table:
    table = new_table("relations", *(f"{mode.value} F1".replace("+entity", "\n+entity") for mode in RELATION_MODES))
    for it in scores.methods:
        table.add_row(it.method, *(prf(it.metric(mode))[0] for mode in RELATION_MODES))
    return table


def _causes(methods: Sequence[MethodScores], kind: Literal["missed", "spurious"], causes: Iterable[str]) -> Table:
    table = new_table(f"{kind} relations", *causes)
    for it in methods:
        found = {cause.what: cause.count for cause in getattr(it, kind)}
        table.add_row(it.method, *(f"{found.get(cause, 0):,}" for cause in causes))
    return table


def _agreement(scores: Scores) -> Table:
    table = new_table("agreement (F1)", *(it.value.replace("+entity", "\n+entity") for it in Mode))
    for (first, second), group in groupby(scores.agreement, key=lambda it: (it.first, it.second)):
        f1 = {it.mode: it.f1 for it in group}
        table.add_row(f"{first} / {second}", *(figure(f1[it]) if it in f1 else NOT_APPLICABLE for it in Mode))
    return table


def _cost(methods: Sequence[MethodScores]) -> Table:
    table = new_table(
        "cost per chunk", "amortised ms", "chunks/s", "service p50", "p95", "p99", "queue p50", "tokens out"
    )
    for it in methods:
        cost = it.latency
        table.add_row(
            it.method,
            figure(cost.amortised.mean, ",.1f"),
            figure(cost.chunks_per_s, ",.1f"),
            *(figure(ms, ",.0f") for ms in (cost.service.p50, cost.service.p95, cost.service.p99, cost.queue.p50)),
            figure(cost.output_tokens, ","),
        )
    return table


def _fates(methods: Sequence[MethodScores]) -> Table:
    table = new_table("chunks", "rows", "of", "ok", "truncated", "failed", "dead", "coverage")
    for it in methods:
        fate = it.statuses
        numbers = (fate.rows, it.planned, fate.ok, fate.truncated, fate.failed, fate.dead)
        table.add_row(it.method, *(figure(it, ",") for it in numbers), figure(it.coverage, ".1%"))
    return table


def _method_notes(it: MethodScores, *, has_gold: bool) -> Iterator[str]:
    if it.statuses.rows < it.planned:
        missed = "; gold chunks without a row count as missed" if has_gold and it.without_extraction else ""
        yield f"{it.method} is not finished: {it.statuses.rows:,} of {it.planned:,} chunks are extracted{missed}."
    if it.failures:
        reasons = ", ".join(f"{failure.what} {failure.count:,}" for failure in it.failures)
        yield f"{it.method}: failed and dead chunks by reason: {reasons}. They count as empty answers."
    rates = (
        (it.checks.ungrounded_rate, "of its entities are not in the text"),
        (it.checks.dangling_rate, "of its relation ends are not among the chunk's entities"),
        (it.checks.fallback_rate, "of its chunks took their entities from the fallback"),
    )
    told = [f"{rate:.1%} {what}" for rate, what in rates if rate]
    if told:
        yield f"{it.method}: {'; '.join(told)}."
    if it.checks.nameless:
        yield f"{it.method}: {it.checks.nameless:,} items with an empty name were left out."
    if it.checks.left_out:
        given = it.checks.left_out + it.checks.relations
        what = "relations joined types that the schema keeps apart: left out"
        yield f"{it.method}: {it.checks.left_out:,} of {given:,} {what}."
    for kind, rate in (("entity", it.checks.off_schema_entity_rate), ("relation", it.checks.off_schema_relation_rate)):
        labels = [f"{label.label!r} {label.count:,}" for label in it.unmapped if label.kind == kind]
        if labels and rate is not None:
            more = f" and {len(labels) - MOST_LABELS:,} other labels" if len(labels) > MOST_LABELS else ""
            named = f"{', '.join(labels[:MOST_LABELS])}{more}"
            yield f"{it.method}: {rate:.1%} of {kind} types are not in the schema (map them by `aliases`): {named}."

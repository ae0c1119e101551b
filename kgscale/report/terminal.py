"""Scores and verdict in the terminal: readable in 100 columns, and without colour."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kgscale.score.attribution import Missed, Spurious
from kgscale.score.gate import GateResult
from kgscale.score.history import HistoryEntry, Spread
from kgscale.score.match import ENTITY_MODES, RELATION_MODES, Mode
from kgscale.score.results import Interval, MethodScores, Metric, Scores
from kgscale.score.samplesize import SampleSize
from kgscale.score.spans import Scheme
from kgscale.score.verdict import Verdict

NOT_APPLICABLE = "n/a"
UNDEFINED = "-"
"""A figure that does not exist, which is something else than 0."""
BAR = 8
MOST_LABELS = 8
"""Unmapped labels named in a note; the rest is counted."""


def scores_view(scores: Scores) -> RenderableType:
    """Quality where there is gold (agreement otherwise), cost, fate, and notes on what needs attention."""
    parts: list[RenderableType] = []
    if scores.gold:
        origins = ", ".join(f"{it.count:,} {it.what}" for it in scores.gold.origins)
        parts.append(Text(f"Against gold: {scores.gold.chunks:,} chunks ({origins})"))
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
    parts += [_bullet(note) for note in notes(scores)]
    return Group(*parts)


def verdict_view(verdict: Verdict) -> RenderableType:
    """The outcome in a sentence, the differences, and what led to it."""
    table = _table("F1", verdict.baseline, verdict.candidate, "drop in points", "floor", "below", "better below")
    for it in verdict.differences:
        table.add_row(
            f"{it.what} ({it.mode})",
            _number(it.baseline),
            _number(it.candidate),
            _number(it.drop, ".1f") + _between(it.interval, ".1f"),
            f"{it.floor:.2f}",
            f"{it.minimum:g}",
            f"{it.recommended:g}",
        )
    reasons = [_bullet(_sentence(it)) for it in verdict.reasons]
    heading = Text(verdict.sentence, style="bold")
    return Panel(
        Group(heading, table, *reasons),
        title=f"Verdict: {verdict.outcome.value}",
        title_align="left",
        box=box.ROUNDED,
    )


def samples_view(samples: Sequence[SampleSize]) -> RenderableType:
    """What smaller samples of the same gold chunks would have shown."""
    if not samples:
        return Text("There are too few gold chunks to ask what a smaller sample would have shown: no smaller sample.")
    table = _table("a sample of", "would have shown a drop of", "deviation", "and led to another action")
    for it in samples:
        drop = f"{it.drop.low:.1f} to {it.drop.high:.1f} points"
        table.add_row(f"{it.chunks:,} chunks", drop, f"{it.deviation:.1f}", f"{it.other_action:.0%} of the time")
    return table


def gate_view(result: GateResult) -> RenderableType:
    """What the gate compared, and why it did not let the run pass."""
    table = _table("", "before", "now", "drop", "allowed", "p", "")
    for it in result.checks:
        table.add_row(
            f"{it.method} {it.metric}",
            _number(it.before),
            _number(it.after),
            _number(it.drop) + _between(it.interval),
            f"{it.allowed:g}",
            _number(it.p_value, ".2g"),
            "passed" if it.passed else "FAILED",
        )
    outcome = "passed" if result.passed else "not passed"
    reasons = [_bullet(it) for it in result.reasons]
    return Panel(Group(table, *reasons), title=f"Gate: {outcome}", title_align="left", box=box.ROUNDED)


def history_view(entries: Sequence[HistoryEntry]) -> RenderableType:
    """Every run, oldest first, with its entity and relation F1 as bars from 0 to 1."""
    table = _table("run", "started", "method", "gold", "entity F1", "", "relation F1", "", "ms/chunk", "corpus/gold")
    for it in entries:
        cells = [cell for metric in (it.entity, it.relation) for cell in (_prf(metric)[0], _bar(metric))]
        table.add_row(
            it.run,
            (it.created_at or "")[:10],
            it.method,
            f"{it.chunks:,}",
            *cells,
            _number(it.amortised_ms, ",.1f"),
            it.basis,
        )
    return table


def spreads_view(spreads: Sequence[Spread]) -> RenderableType:
    """How far repeats of a method scatter: noise that intervals over chunks do not contain."""
    table = _table("method", "mode", "repeats", "mean F1", "deviation", "lowest", "highest")
    for it in spreads:
        figures = (it.mean, it.deviation, it.low, it.high)
        table.add_row(it.method, it.mode, f"{it.repeats}", *(_number(figure) for figure in figures))
    return table


def notes(scores: Scores) -> Iterator[str]:
    """What a reader must know to judge the figures, one sentence each."""
    if scores.gold is None:
        yield "There is no gold, so nothing can be said about quality; name a gold file in the config (`gold:`)."
    elif scores.gold.outside_corpus:
        yield f"Gold chunks that the corpus does not have: {scores.gold.outside_corpus:,}; they count as missed."
    for it in scores.methods:
        yield from _method_notes(it, has_gold=scores.gold is not None)


def _entities(scores: Scores) -> Table:
    table = _table("entities", "name F1", "P", "R", "name+type F1", "P", "R")
    for it in scores.methods:
        cells = [cell for mode in ENTITY_MODES for cell in _prf(it.metric(mode))]
        table.add_row(it.method, *cells)
    return table


def _spans(scores: Scores) -> Table:
    table = _table("by offsets", *(f"{it} F1" for it in Scheme), "missed", "spurious")
    for it in scores.methods:
        cells = [f"{_number(x.f1)}{_between(x.f1_interval)}" for x in it.spans] or [NOT_APPLICABLE] * len(Scheme)
        counts = [f"{it.spans[0].missed:,}", f"{it.spans[0].spurious:,}"] if it.spans else ["", ""]
        table.add_row(it.method, *cells, *counts)
    return table


def _relations(scores: Scores) -> Table:
    table = _table("relations", *(f"{mode.value} F1".replace("+entity", "\n+entity") for mode in RELATION_MODES))
    for it in scores.methods:
        table.add_row(it.method, *(_prf(it.metric(mode))[0] for mode in RELATION_MODES))
    return table


def _causes(methods: Sequence[MethodScores], kind: Literal["missed", "spurious"], causes: Iterable[str]) -> Table:
    table = _table(f"{kind} relations", *causes)
    for it in methods:
        found = {cause.what: cause.count for cause in getattr(it, kind)}
        table.add_row(it.method, *(f"{found.get(cause, 0):,}" for cause in causes))
    return table


def _agreement(scores: Scores) -> Table:
    table = _table("agreement (F1)", *(it.value.replace("+entity", "\n+entity") for it in Mode))
    for (first, second), group in groupby(scores.agreement, key=lambda it: (it.first, it.second)):
        f1 = {it.mode: it.f1 for it in group}
        table.add_row(f"{first} / {second}", *(_number(f1[it]) if it in f1 else NOT_APPLICABLE for it in Mode))
    return table


def _cost(methods: Sequence[MethodScores]) -> Table:
    table = _table("cost per chunk", "amortised ms", "chunks/s", "service p50", "p95", "p99", "queue p50", "tokens out")
    for it in methods:
        cost = it.latency
        table.add_row(
            it.method,
            _number(cost.amortised.mean, ",.1f"),
            _number(cost.chunks_per_s, ",.1f"),
            *(_number(ms, ",.0f") for ms in (cost.service.p50, cost.service.p95, cost.service.p99, cost.queue.p50)),
            _number(cost.output_tokens, ","),
        )
    return table


def _fates(methods: Sequence[MethodScores]) -> Table:
    table = _table("chunks", "rows", "of", "ok", "truncated", "failed", "dead", "coverage")
    for it in methods:
        fate = it.statuses
        numbers = (fate.rows, it.planned, fate.ok, fate.truncated, fate.failed, fate.dead)
        table.add_row(it.method, *(_number(number, ",") for number in numbers), _number(it.coverage, ".1%"))
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
    for kind, rate in (("entity", it.checks.off_schema_entity_rate), ("relation", it.checks.off_schema_relation_rate)):
        labels = [f"{label.label!r} {label.count:,}" for label in it.unmapped if label.kind == kind]
        if labels and rate is not None:
            more = f" and {len(labels) - MOST_LABELS:,} other labels" if len(labels) > MOST_LABELS else ""
            named = f"{', '.join(labels[:MOST_LABELS])}{more}"
            yield f"{it.method}: {rate:.1%} of {kind} types are not in the schema (map them by `aliases`): {named}."


def _prf(metric: Metric | None) -> tuple[str, str, str]:
    if metric is None:
        return NOT_APPLICABLE, "", ""
    f1 = f"{_number(metric.f1)}{_between(metric.f1_interval)}"
    return f1, _number(metric.precision), _number(metric.recall)


def _number(value: float | None, form: str = ".3f") -> str:
    return UNDEFINED if value is None else format(value, form)


def _between(interval: Interval | None, form: str = ".3f") -> str:
    """An interval, on a line of its own so that tables stay narrow."""
    return f"\n{interval.low:{form}} to {interval.high:{form}}" if interval else ""


def _bar(metric: Metric | None) -> str:
    """F1 as a bar of `BAR` characters, left to right."""
    return "█" * round(BAR * metric.f1) if metric and metric.f1 is not None else ""


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _bullet(text: str) -> Table:
    """A note whose further lines are indented."""
    line = Table.grid(padding=(0, 1))
    line.add_row("•", Text(text))
    return line


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right")
    return table

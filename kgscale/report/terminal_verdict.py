"""Methods and runs beside each other in the terminal: verdict, samples, gate and history."""

from collections.abc import Sequence
from dataclasses import replace

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from kgscale.report.console import as_rich, between, bullet, figure, new_table, prf
from kgscale.report.figures import signed
from kgscale.report.telling import headline, lead, reasons
from kgscale.report.texts import Texts
from kgscale.report.thresholds import thresholds_table
from kgscale.score.gate import GateResult
from kgscale.score.history import HistoryEntry, Spread
from kgscale.score.results import Metric
from kgscale.score.verdict import SampleSize, Standing, Verdict

BAR = 8


def verdict_view(verdict: Verdict) -> RenderableType:
    """The outcome in a sentence, the thresholds, and what led to it."""
    t = Texts("en")
    measured = any(it.standing is not Standing.NOT_MEASURED for it in verdict.rag)
    parts: list[RenderableType] = [
        Text(f"{headline(verdict, t)} {lead(verdict, t)}", style="bold"),
        as_rich(thresholds_table(verdict if measured else replace(verdict, rag=()), t)),
    ]
    if verdict.rag and not measured:
        parts.append(
            Text("Answers by retrieval were not measured (no rag.json holds scores of both methods).\n", style="dim")
        )
    parts += [bullet(it) for it in reasons(verdict, t)]
    title = f"Verdict: {verdict.outcome.value}"
    return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED)


def samples_view(samples: Sequence[SampleSize]) -> RenderableType:
    """What smaller samples of the same gold chunks would have shown."""
    if not samples:
        return Text("There are too few gold chunks to ask what a smaller sample would have shown: no smaller sample.")
    table = new_table("a sample of", "would have shown a change of", "deviation", "and led to another action")
    for it in samples:
        change = f"{signed(-it.drop.high)} to {signed(-it.drop.low)} points"
        table.add_row(f"{it.chunks:,} chunks", change, f"{it.deviation:.1f}", f"{it.other_action:.0%} of the time")
    return table


def gate_view(result: GateResult) -> RenderableType:
    """What the gate compared, and why it did not let the run pass."""
    table = new_table("", "before", "now", "drop", "allowed", "p", "")
    for it in result.checks:
        table.add_row(
            f"{it.method} {it.metric}",
            figure(it.before),
            figure(it.after),
            figure(it.drop) + between(it.interval),
            f"{it.allowed:g}",
            figure(it.p_value, ".2g"),
            "passed" if it.passed else "FAILED",
        )
    outcome = "passed" if result.passed else "not passed"
    notes = [bullet(it) for it in result.reasons]
    if result.left_out:
        notes.append(bullet(f"not compared, because only one of the runs has it: {', '.join(result.left_out)}"))
    return Panel(Group(table, *notes), title=f"Gate: {outcome}", title_align="left", box=box.ROUNDED)


def history_view(entries: Sequence[HistoryEntry]) -> RenderableType:
    """Every run, oldest first, with its entity and relation F1 as bars from 0 to 1."""
    table = new_table("run", "method", "gold", "entity F1", "relation F1", "ms/chunk")
    notes: list[RenderableType] = []
    before = None
    for it in entries:
        if before is None or before.basis != it.basis:
            notes.append(bullet(f"From {it.run} on, corpus/gold is {it.basis}: compare only runs with the same."))
        started = f"\n{(it.created_at or '')[:10]}"
        first = it.run + started if before is None or before.run != it.run else ""
        metrics = (f"{_bar(metric)} {prf(metric)[0]}".lstrip() for metric in (it.entity, it.relation))
        table.add_row(first, it.method, f"{it.chunks:,}", *metrics, figure(it.amortised_ms, ",.1f"))
        before = it
    return Group(table, *(notes if len(notes) > 1 else ()))


def spreads_view(spreads: Sequence[Spread]) -> RenderableType:
    """How far repeats of a method scatter: noise that intervals over chunks do not contain."""
    table = new_table("method", "mode", "repeats", "mean F1", "deviation", "lowest", "highest")
    for it in spreads:
        figures = (it.mean, it.deviation, it.low, it.high)
        table.add_row(it.method, it.mode, f"{it.repeats}", *(figure(one) for one in figures))
    return table


def _bar(metric: Metric | None) -> str:
    """F1 as a bar of `BAR` characters, left to right."""
    return "█" * round(BAR * metric.f1) if metric and metric.f1 is not None else ""

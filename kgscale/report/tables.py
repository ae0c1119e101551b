"""The tables of a report, from the scores."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from kgscale.report.figures import NOT_APPLICABLE, between, brief, number, share, significant, whole
from kgscale.report.texts import Texts
from kgscale.report.view import Cell, Focus, Group, Table, named
from kgscale.score.results import Checks, Count, MethodScores, Metric, Scores

MOST_ROWS = 40
"""Rows of a table whose length the data decide; the rest is counted."""


def engine_hours(amortised_ms: float | None) -> float | None:
    """Hours that one replica of each engine works for a million chunks."""
    return None if amortised_ms is None else amortised_ms * 1_000_000 / 3_600_000


def methods_table(scores: Scores, focus: Focus, t: Texts) -> Table:
    """Every method in a row: quality, cost, fate."""
    both = (("entities", focus.entity_mode), ("relations", focus.relation_mode))
    quality = [(what, mode) for what, mode in both if mode]
    heads = [f"{t(what)} F1" for what, _ in quality]
    cost = ("chunks_per_s", "amortised_ms", "engine_hours", "tokens_out")
    rows = []
    for it in _ordered(scores, focus):
        spent = it.latency
        rows.append(
            (
                _method(it.method, focus, t),
                *(_f1(it.metric(mode)) for _, mode in quality),
                Cell(significant(spent.chunks_per_s)),
                Cell(significant(spent.amortised.mean)),
                Cell(significant(engine_hours(spent.amortised.mean))),
                Cell(significant(_per_row(spent.output_tokens, it))),
                Cell(whole(it.statuses.usable), t("of_rows", rows=whole(it.statuses.rows))),
                Cell(share(it.coverage)),
            )
        )
    groups = [Group("", 1)]
    if quality:
        groups.append(Group(t("quality"), len(quality)))
    groups += [Group(t("cost"), len(cost)), Group(t("fate"), 2)]
    modes = (
        t("modes_used", modes=t("comma").join(f"{t(what)} {mode}" for what, mode in quality))
        if quality
        else t("no_gold")
    )
    return Table(
        caption=t("methods"),
        head=(t("method"), *heads, *(t(it) for it in cost), t("usable"), t("coverage")),
        rows=tuple(rows),
        groups=tuple(groups),
        note=modes + t("space") + t("cost_note"),
    )


def modes_table(scores: Scores, focus: Focus, t: Texts) -> Table:
    """Every figure of every mode."""
    modes = list(dict.fromkeys(it.mode for method in scores.methods for it in method.metrics))
    rows = [_mode_row(mode, it.method, it.metric(mode)) for mode in modes for it in _ordered(scores, focus)]
    macro = (f"{t('macro')} {it}" for it in ("F1", "P", "R"))
    head = (t("mode"), t("method"), "F1", "P", "R", "TP", "FP", "FN", *macro)
    drawn = scores.resampling
    sure = t("resampled", unit=t.of("unit_", drawn.unit), units=whole(drawn.units)) if drawn else ""
    return Table(t("all_modes"), head, tuple(rows), note=t("modes_note") + (t("space") + sure if sure else ""))


def spans_table(scores: Scores, focus: Focus, t: Texts) -> Table | None:
    """Mentions by their offsets, in the schemes of SemEval; null where no method has any."""
    rows = [
        (
            named(it.scheme),
            named(method.method),
            Cell(number(it.f1), between(it.f1_interval), strong=True),
            *(Cell(number(value)) for value in (it.precision, it.recall)),
            *(Cell(whole(count)) for count in (it.correct, it.incorrect, it.partial, it.missed, it.spurious)),
        )
        for method in _ordered(scores, focus)
        for it in method.spans
    ]
    counts = (t(it) for it in ("correct", "incorrect", "partial", "missed", "spurious"))
    head = (t("scheme"), t("method"), "F1", "P", "R", *counts)
    return Table(t("spans"), head, tuple(rows), note=t("spans_note")) if rows else None


def agreement_table(scores: Scores, t: Texts) -> Table:
    """How far each two methods say the same."""
    modes = list(dict.fromkeys(it.mode for it in scores.agreement))
    rows = []
    for (first, second), group in groupby(scores.agreement, key=lambda it: (it.first, it.second)):
        said = {it.mode: it for it in group}
        cells = [Cell(number(said[it].f1)) if it in said else Cell(NOT_APPLICABLE) for it in modes]
        rows.append((named(f"{first} / {second}"), Cell(whole(max(it.chunks for it in said.values()))), *cells))
    return Table(t("agreement"), (t("methods"), t("chunks"), *modes), tuple(rows), note=t("agreement_note"))


def latency_table(scores: Scores, focus: Focus, t: Texts) -> Table:
    """The three times of a chunk, by quantiles."""
    rows = []
    for it in _ordered(scores, focus):
        kinds = (("service", it.latency.service), ("queue", it.latency.queue), ("amortised", it.latency.amortised))
        for kind, of in kinds:
            figures = [Cell(significant(ms)) for ms in (of.mean, of.p50, of.p95, of.p99)]
            rows.append((named(it.method), named(t(kind)), *figures, Cell(whole(of.rows))))
    head = (t("method"), t("time"), t("mean"), "p50", "p95", "p99", t("rows"))
    return Table(t("latency_table"), head, tuple(rows))


def tokens_table(scores: Scores, focus: Focus, t: Texts) -> Table | None:
    """Tokens that the language models read and wrote; null where no method has one."""
    counted = [it for it in _ordered(scores, focus) if it.latency.output_tokens is not None]
    if not counted:
        return None
    rows = [
        (
            _method(it.method, focus, t),
            *(Cell(whole(n)) for n in (it.latency.prompt_tokens, it.latency.cached_tokens, it.latency.output_tokens)),
        )
        for it in counted
    ]
    return Table(t("tokens"), (t("method"), t("tokens_prompt"), t("tokens_cached"), t("tokens_output")), tuple(rows))


def fate_table(scores: Scores, focus: Focus, t: Texts) -> Table:
    """Rows by status."""
    rows = []
    for it in _ordered(scores, focus):
        fate = it.statuses
        parts = (fate.ok, fate.truncated, fate.failed, fate.dead)
        cells = [Cell(whole(part), share(part / it.planned) if part and it.planned else "") for part in parts]
        counts = (it.planned, it.without_extraction, it.without_gold)
        rows.append((_method(it.method, focus, t), *cells, *(Cell(whole(count)) for count in counts)))
    head = ("ok", "truncated", "failed", "dead", t("planned"), t("without_extraction"), t("without_gold"))
    return Table(t("fate_table"), (t("method"), *head), tuple(rows), note=t("fate_note"))


def failures_table(scores: Scores, focus: Focus, t: Texts) -> Table | None:
    """Failed and dead rows by reason; null where there is none."""
    rows: list[tuple[Cell, ...]] = []
    for it in _ordered(scores, focus):
        for failure in it.failures[:MOST_ROWS]:
            part = share(failure.count / it.planned) if it.planned else ""
            rows.append((named(brief(failure.what)), named(it.method), Cell(whole(failure.count)), Cell(part)))
        rows += [(*cells, Cell("")) for cells in _rest(it.failures, it.method, t)]
    return Table(t("failures"), (t("reason"), t("method"), t("rows"), t("share")), tuple(rows)) if rows else None


def health_table(scores: Scores, focus: Focus, t: Texts) -> Table:
    """What can be said of the answers without gold."""
    methods = _ordered(scores, focus)

    def row(key: str, cells: Iterable[str]) -> tuple[Cell, ...]:
        return (named(t(key)), *(Cell(it) for it in cells))

    checks: list[Checks] = [it.checks for it in methods]
    rows = (
        row("entities_found", (whole(it.entities) for it in checks)),
        row("relations_found", (whole(it.relations) for it in checks)),
        row("left_out", (whole(it.left_out) for it in checks)),
        row("ungrounded", (share(it.ungrounded_rate) for it in checks)),
        row("dangling", (share(it.dangling_rate) for it in checks)),
        row("off_schema_entities", (share(it.off_schema_entity_rate) for it in checks)),
        row("off_schema_relations", (share(it.off_schema_relation_rate) for it in checks)),
        row("fallbacks", (share(it.fallback_rate) for it in checks)),
        row("nameless", (whole(it.nameless) for it in checks)),
    )
    return Table(t("health"), (t("check"), *(it.method for it in methods)), rows)


def unmapped_table(scores: Scores, focus: Focus, t: Texts) -> Table | None:
    """Labels off the schema; null where there is none."""
    rows: list[tuple[Cell, ...]] = []
    for it in _ordered(scores, focus):
        for label in it.unmapped[:MOST_ROWS]:
            kind = named(t("entity" if label.kind == "entity" else "relation"))
            rows.append((named(brief(label.label)), named(it.method), kind, Cell(whole(label.count))))
        if len(it.unmapped) > MOST_ROWS:
            more = [Count(label.label, label.count) for label in it.unmapped]
            rows += [(*cells[:2], named(""), *cells[2:]) for cells in _rest(more, it.method, t)]
    head = (t("label"), t("method"), t("kind"), t("times"))
    return Table(t("unmapped"), head, tuple(rows), note=t("unmapped_note")) if rows else None


def _ordered(scores: Scores, focus: Focus) -> list[MethodScores]:
    by_name = {it.method: it for it in scores.methods}
    return [by_name[name] for name in focus.ordered(by_name)]


def _method(name: str, focus: Focus, t: Texts) -> Cell:
    role = t("baseline") if name == focus.baseline else t("candidate") if name == focus.candidate else ""
    return Cell(name, role, figure=False, strong=bool(role))


def _f1(metric: Metric | None) -> Cell:
    if metric is None:
        return Cell(NOT_APPLICABLE)
    return Cell(number(metric.f1), between(metric.f1_interval), bar=metric.f1, sure=metric.f1_interval, strong=True)


def _mode_row(mode: str, method: str, it: Metric | None) -> tuple[Cell, ...]:
    names = named(mode), named(method)
    if it is None:
        return (*names, *[Cell(NOT_APPLICABLE)] * 9)
    averages = (
        Cell(number(it.f1), between(it.f1_interval), strong=True),
        Cell(number(it.precision), between(it.precision_interval)),
        Cell(number(it.recall), between(it.recall_interval)),
    )
    counts = [Cell(whole(count)) for count in (it.tp, it.fp, it.fn)]
    macro = [Cell(number(value)) for value in (it.macro_f1, it.macro_precision, it.macro_recall)]
    return (*names, *averages, *counts, *macro)


def _per_row(tokens: int | None, of: MethodScores) -> float | None:
    return None if tokens is None or not of.statuses.rows else tokens / of.statuses.rows


def _rest(counts: Sequence[Count], method: str, t: Texts) -> list[tuple[Cell, ...]]:
    """A row that counts what a long table leaves out."""
    left = counts[MOST_ROWS:]
    if not left:
        return []
    return [(named(t("others", count=whole(len(left)))), named(method), Cell(whole(sum(it.count for it in left))))]

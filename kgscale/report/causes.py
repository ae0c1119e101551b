"""Why relations were missed or made up, and what the candidate lost of what the baseline found."""

from collections.abc import Iterable, Sequence

from kgscale.report.figures import NOT_APPLICABLE, brief, number, whole
from kgscale.report.texts import Texts
from kgscale.report.view import Cell, Focus, Table, named
from kgscale.score.attribution import ENTITY_MISSING, Missed, Spurious
from kgscale.score.results import Count, Loss, Scores


def cause_tables(scores: Scores, focus: Focus, t: Texts) -> list[Table]:
    """A table for the missed relations and one for the spurious ones; none without gold relations."""
    methods = [it for it in map(scores.method, focus.ordered(it.method for it in scores.methods)) if it]
    missed = [(it.method, it.missed if it.checks.carries.relations else None) for it in methods]
    spurious = [(it.method, it.spurious if it.checks.carries.relations else None) for it in methods]
    loss = _loss(scores, focus)
    if loss and loss.relations:
        missed.append((t("lost_column", baseline=loss.before, candidate=loss.after), loss.causes))
    tables = (
        _table(t("missed_causes"), list(Missed), missed, _told(loss, t) + t("missed_note"), t),
        _table(t("spurious_causes"), list(Spurious), spurious, "", t),
    )
    return [it for it in tables if it]


def _loss(scores: Scores, focus: Focus) -> Loss | None:
    pair = (focus.baseline, focus.candidate)
    return next((it for it in scores.losses if (it.before, it.after) == pair), None)


def _told(loss: Loss | None, t: Texts) -> str:
    if loss is None or not loss.relations:
        return ""
    blamed = sum(it.count for it in loss.causes if it.what in ENTITY_MISSING)
    part = number(100 * blamed / loss.relations, ".0f")
    told = t("lost_note", count=whole(loss.relations), candidate=loss.after, baseline=loss.before, part=part)
    return told + t("space")


def _table(
    caption: str, order: Sequence[str], columns: list[tuple[str, tuple[Count, ...] | None]], note: str, t: Texts
) -> Table | None:
    present = {it.what for _, counts in columns for it in counts or ()}
    if not present:
        return None
    causes = [*(str(it) for it in order if it in present), *sorted(present - set(order))]
    rows = []
    for cause in causes:
        cells = [_cell(cause, counts) for _, counts in columns]
        rows.append((named(t.of("cause_", brief(cause))), *cells))
    rows.append((named(t("total")), *(_total(counts) for _, counts in columns)))
    return Table(caption, (t("cause"), *(name for name, _ in columns)), tuple(rows), note=note)


def _cell(cause: str, counts: Iterable[Count] | None) -> Cell:
    if counts is None:
        return Cell(NOT_APPLICABLE)
    all_of = {it.what: it.count for it in counts}
    total = sum(all_of.values())
    return Cell(whole(all_of.get(cause, 0)), bar=all_of.get(cause, 0) / total if total else 0)


def _total(counts: Iterable[Count] | None) -> Cell:
    return Cell(NOT_APPLICABLE) if counts is None else Cell(whole(sum(it.count for it in counts)), strong=True)

"""Gold sets in the terminal: how two of them agree, and what is wrong with one."""

from collections import Counter

from rich.console import Group, RenderableType
from rich.text import Text

from kgscale.gold.agreement import Agreement
from kgscale.gold.check import NOTES, Checked
from kgscale.report.console import bullet, figure, new_table
from kgscale.report.figures import brief
from kgscale.talk import visible

MOST_DISAGREEMENTS = 40
MOST_PER_KIND = 5


def agreement_view(found: Agreement) -> RenderableType:
    """F1 in every mode, kappa, and the first disagreements."""
    table = new_table("agreement", "F1", "both", "only first", "only second")
    for it in found.modes:
        table.add_row(it.mode, figure(it.f1), f"{it.both:,}", f"{it.only_first:,}", f"{it.only_second:,}")
    kappa = found.kappa
    parts: list[RenderableType] = [Text(f"{found.chunks:,} chunks in both"), table]
    parts.append(
        Text(
            f"Cohen's kappa {figure(kappa.kappa)} on the types of {kappa.aligned:,} aligned mentions (the same type: "
            f"{figure(kappa.observed)}, by chance: {figure(kappa.expected)}); {kappa.only_first:,} mentions are only "
            f"in the first, {kappa.only_second:,} only in the second"
        )
    )
    if kappa.without_offsets:
        parts.append(bullet(f"{kappa.without_offsets:,} mentions are not in their text, and aligned with nothing"))
    for name, ids in (("first", found.only_first), ("second", found.only_second)):
        if ids:
            shown = ", ".join(map(brief, ids[:MOST_PER_KIND]))
            parts.append(bullet(f"{len(ids):,} chunks are only in the {name}, and left out: {shown}"))
    if found.other_texts:
        shown = ", ".join(map(brief, found.other_texts[:MOST_PER_KIND]))
        parts.append(bullet(f"{len(found.other_texts):,} chunks have another text on each side: {shown}"))
    if found.disagreements:
        listed = new_table("chunk", "what", "", "first", "second")
        for one in found.disagreements[:MOST_DISAGREEMENTS]:
            cells = (one.chunk_id, one.kind, one.what, one.first or "-", one.second or "-")
            listed.add_row(*(Text(brief(it)) for it in cells))
        parts.append(listed)
    if len(found.disagreements) > MOST_DISAGREEMENTS:
        left = len(found.disagreements) - MOST_DISAGREEMENTS
        parts.append(Text(f"… and {left:,} more disagreements; --json lists all"))
    return Group(*parts)


def checked_view(found: Checked) -> RenderableType:
    """Each kind of finding with its first cases; faults are marked, notes are not."""
    parts: list[RenderableType] = []
    for kind, count in Counter(it.kind for it in found.findings).items():
        parts.append(Text(f"{'·' if kind in NOTES else '✗'} {kind.value}: {count:,}"))
        shown = [it for it in found.findings if it.kind is kind][:MOST_PER_KIND]
        parts += [Text(f"    {': '.join(filter(None, (brief(it.chunk_id), visible(it.detail))))}") for it in shown]
        if count > len(shown):
            parts.append(Text(f"    … and {count - len(shown):,} more; --json lists all"))
    origins = ", ".join(f"{count:,} {name}" for name, count in found.origins.items())
    parts.append(Text(f"{found.chunks:,} chunks ({origins}): {found.faults:,} faults"))
    parts += [bullet(f"not checked: {it}") for it in found.skipped]
    return Group(*parts)

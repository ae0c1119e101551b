"""The report in a few lines of Markdown, for a comment on a pull request."""

import re

from kgscale.report.hero import Hero, hero
from kgscale.report.tables import failures_table, fate_table, methods_table, modes_table
from kgscale.report.texts import Lang, Texts
from kgscale.report.thresholds import thresholds_table
from kgscale.report.view import Cell, Focus, Table
from kgscale.score.results import Scores
from kgscale.score.verdict import Verdict

# What Markdown or GitHub gives a meaning to; a leading backslash takes it away.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~])")


def report_markdown(scores: Scores, verdict: Verdict | None, lang: Lang = "en") -> str:
    """The verdict, the table of methods, and the details folded; GitHub's Markdown, ends with a line break."""
    t = Texts(lang)
    focus = Focus.of(scores, verdict)
    top = hero(scores, verdict, None, t)
    parts = [f"### {top.symbol} {_plain(top.badge)}: {_plain(top.headline)}", _plain(top.lead)]
    parts += _tiles(top)
    parts.append(_table(methods_table(scores, focus, t)))
    if top.reasons:
        parts.append("\n".join(f"- {_plain(it)}" for it in top.reasons))
    details = [thresholds_table(verdict, t)] if verdict else []
    details += [modes_table(scores, focus, t)] if scores.gold else []
    details.append(fate_table(scores, focus, t))
    failures = failures_table(scores, focus, t)
    if failures:
        details.append(failures)
    parts += [_folded(it) for it in details]
    return "\n\n".join(parts) + "\n"


def _tiles(top: Hero) -> list[str]:
    if not top.tiles:
        return []
    told = [
        f"**{_plain(it.label)}** {it.before + ' → ' if it.before else ''}{it.value} ({_plain(it.note)})"
        for it in top.tiles
    ]
    return [" · ".join(told)]


def _folded(table: Table) -> str:
    return f"<details><summary>{_plain(table.caption)}</summary>\n\n{_table(table)}\n\n</details>"


def _table(table: Table) -> str:
    figures = [it.figure for it in table.rows[0]] if table.rows else [False] * len(table.head)
    lines = [
        _line([_plain(it) for it in table.head]),
        _line(["---:" if it else "---" for it in figures]),
        *(_line([_cell(it) for it in row]) for row in table.rows),
    ]
    return "\n".join(lines) + (f"\n\n{_plain(table.note)}" if table.note else "")


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(it: Cell) -> str:
    text = f"**{_plain(it.text)}**" if it.strong and it.text else _plain(it.text)
    return f"{text}<br>{_plain(it.note)}" if it.note else text


def _plain(text: str) -> str:
    """The text as itself, on one line, whatever it holds."""
    # GitHub looks for names to notify after Markdown is done, so that a backslash would not help there.
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("@", "@<!-- -->")

"""A verdict in words, the same for the terminal, the page, Markdown and JSON."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from kgscale.report.figures import brief, number, share, signed, significant, whole
from kgscale.report.texts import Texts
from kgscale.score.verdict import Difference, Fact, Kind, Outcome, Value, Verdict

_NUMBERS: Mapping[str, Callable[[float], str]] = {
    **dict.fromkeys(("coverage", "needed", "entity_missing"), share),
    **dict.fromkeys(("worst", "best", "change"), signed),
    **dict.fromkeys(("times", "speed", "slow", "fast"), significant),
    **dict.fromkeys(("chunks", "rows", "planned", "relations", "pseudo", "partial", "shards"), whole),
    "drop": lambda it: number(it, ".1f"),
    "limit": lambda it: number(it, "g"),
    "score": number,
    "floor": lambda it: number(it, ".2f"),
    "p": lambda it: number(it, ".2g"),
}
"""How a value of a fact is written, by its name."""


_DECIDING: Mapping[Outcome, tuple[Kind, ...]] = {
    Outcome.LOOK: (Kind.ABOVE_MINIMUM, Kind.FLOOR_NO_WORSE, Kind.CELL, Kind.CELL_SLOWER),
    Outcome.NOT_RECOMMENDED: (Kind.BELOW_FLOOR, Kind.CELL, Kind.CELL_SLOWER),
}
"""What tells a manager why not: the first kind that is among the reasons."""


def headline(verdict: Verdict, t: Texts) -> str:
    """The answer itself; it claims nothing about relations that were not compared."""
    key = f"head_{verdict.outcome.value}"
    if not verdict.compared_relations and verdict.outcome in (Outcome.RECOMMENDED, Outcome.LOOK):
        key = f"entities_{verdict.outcome.value}"
    return t(key, baseline=brief(verdict.baseline), candidate=brief(verdict.candidate))


def lead(verdict: Verdict, t: Texts) -> str:
    """What changes, or what stands in the way, in a sentence or two."""
    if verdict.obstacles:
        return t("lead_obstacles", facts=t("semicolon").join(told(it, t) for it in verdict.obstacles))
    facts = _listed(list(_changes(verdict, t)), t)
    if verdict.outcome is Outcome.UNDECIDED:
        needed = next((told(it, t) for it in verdict.reasons if it.kind in (Kind.NEEDED, Kind.TOO_CLOSE)), "")
        return t("lead_open", chunks=whole(verdict.chunks), needed=needed, facts=facts)
    changes = t("lead_facts", baseline=brief(verdict.baseline), facts=facts)
    kinds = _DECIDING.get(verdict.outcome, ())
    decided = next((it for kind in kinds for it in verdict.reasons if it.kind is kind), None)
    return changes if decided is None else changes + t("space") + t("sentence", told=told(decided, t))


def reasons(verdict: Verdict, t: Texts) -> tuple[str, ...]:
    """What led to it, and what to keep in mind: whole sentences."""
    return tuple(t("sentence", told=told(it, t)) for it in verdict.reasons)


def told(fact: Fact, t: Texts) -> str:
    """A fact in words, without a full stop."""
    values = {name: _value(name, it, t) for name, it in fact.values.items()}
    if "what" in values:
        values["What"] = values["what"][0].upper() + values["what"][1:]
    return t(f"fact_{fact.kind.value}", **values)


def score_name(it: Difference, t: Texts) -> str:
    """The name of a score at the start of a line."""
    name = t(f"score_{it.what}").strip()
    return name[0].upper() + name[1:]


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict for machines: its fields, and in English its `sentence` and its `reasons_told`."""
    t = Texts("en")
    sentence = f"{headline(verdict, t)} {lead(verdict, t)}"
    return {**asdict(verdict), "sentence": sentence, "reasons_told": reasons(verdict, t)}


def _value(name: str, value: Value, t: Texts) -> str:
    if name == "what":
        return t(f"score_{value}")
    if name == "action":
        return t(str(value))
    if name == "cause":
        return t.of("cause_", brief(str(value)))
    if isinstance(value, int | float):
        return _NUMBERS[name](value)
    return brief(str(value))


def _changes(verdict: Verdict, t: Texts) -> Iterator[str]:
    for it in verdict.differences:
        if it.drop is not None:
            way = "stays" if abs(it.drop) < 0.05 else "falls" if it.drop > 0 else "rises"
            points = number(abs(it.drop), ".1f")
            yield t(f"change_{way}", what=t(f"score_{it.what}"), points=points, score=number(it.candidate))
    if verdict.speed_up:
        times = verdict.speed_up.times
        way = "change_faster" if times >= 1 else "change_slower"
        yield t(way, candidate=brief(verdict.candidate), times=number(max(times, 1 / times), ".1f"))


def _listed(facts: list[str], t: Texts) -> str:
    if len(facts) < 3:
        return t("and").join(facts)
    return t("comma").join((*facts[:-1], t("and_last", last=facts[-1])))

"""How figures and foreign text are written in a report."""

from kgscale.score.results import Interval
from kgscale.talk import visible

UNDEFINED = "\u2013"
"""A figure that does not exist, which is something else than 0."""
NOT_APPLICABLE = "n/a"
LONGEST_NAME = 120
"""Characters of a name or label that are shown."""


def brief(text: str) -> str:
    """A name or label, visible, and cut where it is so long that it would bury the others."""
    return visible(text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…")


def number(value: float | None, form: str = ".3f") -> str:
    """A figure; minus signs are as wide as digits."""
    if value is None:
        return UNDEFINED
    text = format(value, form)
    # What rounds to zero has no sign.
    return text.replace("-", "\u2212") if any(it in "123456789" for it in text) else text.lstrip("-+")


def whole(value: float | None) -> str:
    """A count, with thousands apart."""
    return number(value, ",.0f")


def share(value: float | None) -> str:
    """A share from 0 to 1, in percent."""
    return UNDEFINED if value is None else f"{number(100 * value, '.1f')}\u00a0%"


def significant(value: float | None) -> str:
    """A quantity of unknown magnitude: three digits that count, none of a large one's lost."""
    if value is None or value == 0:
        return number(value, ".0f")
    if abs(value) >= 100:
        return whole(value)
    return number(value, ".1f" if abs(value) >= 10 else ".2f" if abs(value) >= 1 else ".3f")


def between(interval: Interval | None, form: str = ".3f") -> str:
    """The two ends of an interval; empty where there is none."""
    return f"{number(interval.low, form)} … {number(interval.high, form)}" if interval else ""


def signed(value: float | None, form: str = ".1f") -> str:
    """A change, with its sign."""
    return number(value, f"+{form}")

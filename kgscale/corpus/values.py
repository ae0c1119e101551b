"""Ids and texts as other people's files hold them: what is accepted, and in words what is not."""

import math
from typing import Any


def as_id(value: Any) -> str:
    """An id as a string: a non-blank string as it is, or a whole number (which pandas may have made a float).

    Raises `ValueError` in words that follow the name of the field.
    """
    if isinstance(value, str):
        if not value.strip():
            raise ValueError("is empty")
        return _unicode(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None:
        raise ValueError("is null")
    if isinstance(value, float):
        raise ValueError("is not a number (NaN)" if math.isnan(value) else f"is the fraction {value}")
    raise ValueError(f"is {_kind(value)}, not a string")


def as_text(value: Any) -> str:
    """A text, untouched; raises `ValueError` in words that follow the name of the field."""
    if isinstance(value, str):
        return _unicode(value)
    raise ValueError("is null" if value is None else f"is {_kind(value)}, not a string")


def _unicode(value: str) -> str:
    # JSON can write half of a surrogate pair, which no file can hold.
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"has half a surrogate pair at character {error.start}") from None
    return value


def _kind(value: Any) -> str:
    kinds: dict[type, str] = {bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), "an object" if isinstance(value, dict) else f"a {type(value).__name__}")

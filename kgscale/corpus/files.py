"""Bytes into text: encodings, long lines and control characters, with the line of whatever is wrong."""

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from kgscale.errors import UserError

MAX_LINE = 16 * 2**20
"""Longest line in bytes; what is longer is damage, or the wrong kind of file."""

# The order matters: the mark of UTF-32 starts with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def read_lines(path: Path, name: str) -> Iterator[tuple[int, bytes | UserError]]:
    """The lines of a file as bytes, numbered from 1, line ends kept; a line longer than `MAX_LINE` comes as an error.

    Memory is bounded by `MAX_LINE`. Raises `UserError` if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) <= MAX_LINE:
                    yield number, line
                else:
                    _skip_line(file, line)
                    yield number, UserError(f"the line is longer than {MAX_LINE >> 20} MiB", where=f"{name}:{number}")
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror or error}", where=name) from None


def _skip_line(file: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = file.readline(MAX_LINE)


def read_text(path: Path, name: str) -> str:
    """The text of a file, its line ends untouched; raises `UserError` with the line of what is wrong.

    UTF-8 unless a byte order mark says UTF-16 or UTF-32; the mark itself is dropped.
    """
    return decode(read_bytes(path, name), name)


def read_bytes(path: Path, name: str) -> bytes:
    """The bytes of a file of text; raises `UserError` at a line longer than `MAX_LINE`."""
    parts = []
    for _, line in read_lines(path, name):
        if isinstance(line, UserError):
            raise line
        parts.append(line)
    return b"".join(parts)


def decode(data: bytes, name: str, encoding: str = "utf-8", first_line: int = 1) -> str:
    """Bytes as text; a byte order mark overrules `encoding` and is dropped.

    Raises `UserError` with the line of the first byte that does not fit, and a guess at the real encoding.
    """
    start = 0
    for mark, its_encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            encoding, start = its_encoding, len(mark)
            break
    try:
        return data[start:].decode(encoding)
    except UnicodeDecodeError as error:
        at = min(start + error.start, len(data) - 1)
        line = first_line + data.count(b"\n", 0, at)
        problem = f"is not {encoding.upper()}: byte 0x{data[at]:02x}{_guess(data, at)}"
        raise UserError(problem, where=f"{name}:{line}") from None


def _guess(data: bytes, at: int) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data[max(0, at - 2000) : at + 2000]).best()
    return f" (it looks like {best.encoding})" if best and best.encoding != "utf_8" else ""


def clean(text: str) -> tuple[str, int]:
    r"""A document's text with `\n` line ends and a space for each control character; also how many those were."""
    return _CONTROL.subn(" ", text.replace("\r\n", "\n").replace("\r", "\n"))


def count_controls(text: str) -> int:
    """How many control characters, other than tabs and line ends, a text has."""
    return len(_CONTROL.findall(text))


def parse_json(text: str, name: str, first_line: int = 1) -> Any:
    """The value of a JSON text; raises `UserError` with the line where it breaks."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise UserError(f"broken JSON: {error.msg} (column {error.colno})", where=f"{name}:{line}") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UserError(f"broken JSON: {reason}", where=f"{name}:{first_line}") from None


def read_json_lines(path: Path, name: str) -> Iterator[tuple[int, Any | UserError]]:
    """The values of a file of JSON lines with their line numbers; blank lines are passed over.

    A line that is too long, is not UTF-8 or holds broken JSON comes as an error, and the next one is read.
    """
    for number, line in read_lines(path, name):
        if isinstance(line, UserError):
            yield number, line
        elif number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UserError("is UTF-16; JSON lines must be UTF-8", where=f"{name}:1")
        elif line.strip():
            try:
                yield number, parse_json(decode(line, name, first_line=number), name, first_line=number)
            except UserError as error:
                yield number, error

"""JSON files record by record, however long they are: arrays, objects and JSON lines."""

import codecs
import json
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from kgscale.corpus.files import MAX_LINE, read_json_lines
from kgscale.corpus.values import as_text
from kgscale.errors import UserError
from kgscale.formats.common import UTF16, Converted, Record, Report, converted, each_file, files_in, stem_of

_READ = 2**20
_DECODER = json.JSONDecoder()
_TAIL = 16
"""An error so close to the end of what was read may come from the cut alone: `fals`, `\\u12`."""

T = TypeVar("T")


def json_records(
    path: Path,
    record: Callable[[dict[str, Any], str, str], Record],
    report: Report,
    what: str = "record",
    *,
    without: Collection[Path] = (),
) -> Converted:
    """The records of a JSON file, or of the .json and .jsonl files below a directory, but for those in `without`.

    `record` makes one from an object, its place (`file:line`) and its name (`file-number`), and raises `ValueError` for
    one that is none: that is skipped and told. A file that breaks off is read as far as it goes.
    """

    def records(file: Path) -> Iterator[Record]:
        for number, (where, value) in enumerate(json_items(file), start=1):
            try:
                item = valid(value)
                if not isinstance(item, dict):
                    raise ValueError("it is not an object")
                made = record(item, where, f"{stem_of(file, path)}-{number}")
            except ValueError as error:
                report.skip(where, f"skipped a {what}", str(error))
            else:
                yield made

    files = [it for it in files_in(path, ".json", ".jsonl") if it not in without]
    return converted(path, each_file(files, report, records), report)


def valid(value: T | UserError) -> T:
    """The value, or `ValueError` with the words of the error that stands in its place."""
    if isinstance(value, UserError):
        raise ValueError(value.message)
    return value


def list_under(value: dict[str, Any], key: str) -> list[Any]:
    """The list under a key, empty where there is none; raises `ValueError` if it is something else."""
    items = value.get(key)
    if items is not None and not isinstance(items, list):
        raise ValueError(f"`{key}` is not a list")
    return items or []


def texts(value: Any) -> list[str]:
    """A list of texts such as tokens; raises `ValueError` if it is something else."""
    if not isinstance(value, list):
        raise ValueError("a list of tokens is none")
    return [as_text(it) for it in value]


def text_list(value: dict[str, Any], key: str) -> list[str]:
    """The tokens under a key; raises `ValueError` if there is none."""
    if not value.get(key):
        raise ValueError(f"it has no `{key}`")
    return texts(value[key])


def json_items(path: Path, key: str | None = None) -> Iterator[tuple[str, Any | UserError]]:
    """Place (`file:line`) and value of each element of an array, or of each line of a file of JSON lines.

    With `key`, the file is an array, or an object that has an array under that key. Memory is bounded by the longest
    element. Where the JSON breaks, an error stands in place of the rest. Raises `UserError` if the file cannot be read,
    or is an object without `key`.
    """
    try:
        with path.open("rb") as file:
            start = file.read(256)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror or error}", where=str(path)) from None
    encoding = "utf-16" if start.startswith(UTF16) else "utf-8-sig"
    if key is None and not start.decode(encoding, errors="ignore").lstrip().startswith("["):
        for line, value in read_json_lines(path, str(path)):
            yield f"{path}:{line}", value
        return
    stream = _Stream(path)
    try:
        if stream.peek() == "{":
            for name in stream.members():
                if name == key and stream.peek() == "[":
                    break
                stream.skip()
            else:
                raise UserError(f'has no list of {key}: it should be {{"{key}": [{{…}}, …]}}', where=str(path))
        elif stream.peek() != "[":
            raise stream.broken("it is neither a list nor an object")
        yield from ((where, stream.value()) for where in stream.elements())
        stream.expect_end(inside=key is not None)
    except _BrokenError as error:
        yield error.where or str(path), error


def json_members(
    path: Path, inside: Callable[[str], bool] = lambda _: False
) -> Iterator[tuple[str, str, Any | UserError]]:
    """Place, key and value of each member of a file that is one object; as `json_items` in all else.

    Of an object under a key that `inside` holds for, the members come in its place, as `key:inner key`.
    """
    stream = _Stream(path)
    try:
        if stream.peek() != "{":
            raise stream.broken("it is no object")
        for key in stream.members():
            if inside(key) and stream.peek() == "{":
                for inner in stream.members():
                    yield stream.where, f"{key}:{inner}", stream.value()
            else:
                yield stream.where, key, stream.value()
    except _BrokenError as error:
        yield error.where or str(path), "", error


class _BrokenError(UserError):
    """The JSON breaks here."""


class _Stream:
    """A JSON file that is read piece by piece; `self._text` from `self._at` on is what has not been taken yet."""

    def __init__(self, path: Path) -> None:
        self._name = str(path)
        self._pieces = _pieces(path)
        self._text = ""
        self._at = 0
        self._line = 1
        self._counted = 0

    @property
    def where(self) -> str:
        """The place of what comes next."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return f"{self._name}:{self._line}"

    def broken(self, why: str, at: int | None = None) -> _BrokenError:
        """An error at an offset in the text at hand, by default at what comes next."""
        where = self.where
        if at is not None and at > self._at:
            where = f"{self._name}:{self._line + self._text.count(chr(10), self._at, at)}"
        return _BrokenError(f"broken JSON: {why}", where=where)

    def peek(self) -> str:
        """The next character that is no white space; empty at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n\ufeff":
                self._at += 1
            if self._at < len(self._text) or not self._fill():
                return self._text[self._at : self._at + 1]

    def elements(self) -> Iterator[str]:
        """The place of each element of an array, which is to be taken with `value` before the next is asked for."""
        self._take("[")
        while self.peek() != "]":
            yield self.where
            self._separator("]")
        self._take("]")

    def members(self) -> Iterator[str]:
        """The key of each member of an object, whose value is to be taken before the next is asked for."""
        self._take("{")
        while self.peek() != "}":
            if self.peek() != '"':
                raise self.broken("a key is missing")
            key = self.value()
            self.peek()
            self._take(":")
            yield key
            self._separator("}")
        self._take("}")

    def skip(self) -> None:
        """Pass over the value that comes next, however long it is."""
        if self.peek() == "[":
            for _ in self.elements():
                self.value()
        else:
            self.value()

    def value(self) -> Any:
        """The value that comes next."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _TAIL
                if not (cut and self._fill()):
                    raise self.broken(error.msg, error.pos) from None
            except (ValueError, RecursionError) as error:
                reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
                raise self.broken(reason) from None
            else:
                number = isinstance(value, (int, float)) and not self._text[end : end + 400].strip("0123456789+-.eE")
                if not number:
                    self._at = end
                    return value
                if not self._fill():
                    raise self.broken("the file breaks off")  # in the middle of the number, perhaps

    def expect_end(self, *, inside: bool) -> None:
        """Raise unless nothing follows; `inside`: what follows belongs to the object around, and is not read."""
        if not inside and self.peek():
            raise self.broken("something follows the end of the list")

    def _separator(self, close: str) -> None:
        if self.peek() == ",":
            self._at += 1
            if self.peek() == close:
                raise self.broken("a value is missing after the comma")
        elif self.peek() != close:
            raise self.broken("the file breaks off" if not self.peek() else f"`,` or `{close}` is missing")

    def _take(self, character: str) -> None:
        if self.peek() != character:
            raise self.broken(f"`{character}` is missing")
        self._at += 1

    def _fill(self) -> bool:
        """Read on, as much again as is waiting, so that a long value is tried only a few times; false at the end."""
        waiting = len(self._text) - self._at
        if waiting > MAX_LINE:
            raise self.broken(f"a value is longer than {MAX_LINE >> 20} MiB")
        parts: list[str] = []
        while sum(map(len, parts)) < max(waiting, 1):
            part = next(self._pieces, None)
            if part is None:
                break
            parts.append(part)
        if not parts:
            return False
        self.where  # noqa: B018  counts the lines of what is dropped now
        self._text = "".join(chain([self._text[self._at :]], parts))
        self._at = self._counted = 0
        return True


def _pieces(path: Path) -> Iterator[str]:
    """The text of a UTF-8 file (or UTF-16, if its mark says so), piece by piece."""
    name = str(path)
    line = 1
    try:
        with path.open("rb") as file:
            data = file.read(_READ)
            encoding = "utf-16" if data.startswith(UTF16) else "utf-8-sig"
            decoder = codecs.getincrementaldecoder(encoding)()
            while data:
                yield decoder.decode(data)
                line += data.count(b"\n")
                data = file.read(_READ)
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line += bytes(error.object).count(b"\n", 0, error.start)
        raise _BrokenError(f"is not {error.encoding.upper()}: {error.reason}", where=f"{name}:{line}") from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror or error}", where=name) from None

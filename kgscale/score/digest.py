"""A digest of annotations: the same for the same rows in the same order, however their file is laid out."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl


def content(rows: pl.DataFrame) -> dict[str, bytes]:
    """Each leaf of nested columns as bytes, for `Digest.add`.

    The bytes are which values are null, the lengths of lists and texts, and the values one after the other, so that
    those of two tables together are those of the first followed by those of the second.
    """
    return {name: part for column in rows for name, part in _leaves(column.name, column)}


@dataclass(frozen=True, slots=True)
class Digest:
    """The SHA-256 of tables that are added in order; where one ends and the next begins does not matter."""

    _streams: "defaultdict[str, hashlib._Hash]" = field(default_factory=lambda: defaultdict(hashlib.sha256))

    def add(self, of: Mapping[str, bytes]) -> None:
        """Add the `content` of a table."""
        for name, part in of.items():
            self._streams[name].update(part)

    def hexdigest(self) -> str:
        """The digest of all that was added, as 64 hexadecimal digits."""
        parts = (f"{name} {stream.hexdigest()}\n" for name, stream in sorted(self._streams.items()))
        return hashlib.sha256("".join(parts).encode()).hexdigest()


def _leaves(name: str, of: pl.Series) -> Iterator[tuple[str, bytes]]:
    yield f"{name} null", _bytes(of.is_null())
    if isinstance(of.dtype, pl.Struct):
        for field_ in of.struct.fields:
            yield from _leaves(f"{name}.{field_}", of.struct.field(field_))
    elif isinstance(of.dtype, pl.List):
        length = of.list.len()
        yield f"{name} length", _bytes(length)
        yield from _leaves(f"{name}[]", of.filter(length > 0).explode())
    elif of.dtype == pl.String:
        yield f"{name} length", _bytes(of.str.len_bytes())
        yield name, (of.str.join("").item() or "").encode()
    else:
        yield name, _bytes(of)


def _bytes(of: pl.Series) -> bytes:
    return of.fill_null(value=False if of.dtype == pl.Boolean else 0).to_numpy().tobytes()

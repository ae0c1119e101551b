"""A hash that a Parquet file carries of itself, so that any byte that flips on the disk is found."""

import hashlib
import os
from collections.abc import Iterator
from typing import Any

SEAL = "kgscale.sha256"
UNSEALED = "0" * 64
"""What stands in the hash's place while the file is written, and while it is hashed."""
BLOCK_BYTES = 1 << 20
TAIL_BYTES = 1 << 16
"""More than all that follows the row groups in a footer; the hash stands there."""
_PLACE = SEAL.encode() + b"\x18\x40"
"""The key as it stands before a value of 64 bytes in Thrift's compact protocol, which footers are written in.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""


def seal(file: Any) -> None:
    """Put the hash of a whole file in its place; the file is open for reading and writing and ends with a footer.

    The footer must hold `UNSEALED` under the key `SEAL`; raises `ValueError` otherwise.
    """
    at = _place(file)
    if at is None:
        raise ValueError(f"no place for {SEAL} in the footer")
    digest = _digest(file, at)
    file.seek(at)
    file.write(digest)
    file.seek(0, os.SEEK_END)


def is_sealed(file: Any) -> bool:
    """Whether a file that is open for reading is, byte for byte, the one that was sealed."""
    at = _place(file)
    if at is None:
        return False
    file.seek(at)
    said = file.read(len(UNSEALED))
    return bool(said == _digest(file, at))


def _place(file: Any) -> int | None:
    """Where in the file the hash stands."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - TAIL_BYTES)
    file.seek(start)
    found = file.read(size - start).rfind(_PLACE)
    return None if found < 0 else start + found + len(_PLACE)


def _digest(file: Any, at: int) -> bytes:
    """SHA-256 of the file with `UNSEALED` in the hash's place, in hexadecimal digits."""
    found = hashlib.sha256()
    for block in _blocks(file, 0, at):
        found.update(block)
    found.update(UNSEALED.encode())
    for block in _blocks(file, at + len(UNSEALED), file.seek(0, os.SEEK_END)):
        found.update(block)
    return found.hexdigest().encode()


def _blocks(file: Any, start: int, stop: int) -> Iterator[bytes]:
    file.seek(start)
    while start < stop and (block := file.read(min(BLOCK_BYTES, stop - start))):
        yield block
        start += len(block)

"""A hash that a Parquet file carries of itself, so that any byte that flips on the disk is found."""

import hashlib
import os
import re
from collections.abc import Iterator
from typing import Any

SEAL = "kgscale.sha256"
UNSEALED = "0" * 64
"""What stands in the hash's place while the file is written, and while it is hashed."""
BLOCK_BYTES = 1 << 20
TAIL_BYTES = 1 << 20
"""More than all that follows the row groups in a footer; the hash stands there."""
_PLACE = SEAL.encode() + b"\x18\x40"
"""The key as it stands before a value of 64 bytes in Thrift's compact protocol, which footers are written in.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""


def seal(file: Any) -> None:
    """Put the hash of a whole file in its place; the file is open for reading and writing and ends with a footer.

    The footer must hold `UNSEALED` under the key `SEAL`; raises `ValueError` otherwise.
    """
    free = [at for at in _places(file) if _said(file, at) == UNSEALED.encode()]
    if not free:
        raise ValueError(f"no place for {SEAL} in the footer")
    digest = _digest(file, free[-1])
    file.seek(free[-1])
    file.write(digest)
    file.seek(0, os.SEEK_END)


def is_sealed(file: Any) -> bool:
    """Whether a file that is open for reading is, byte for byte, the one that was sealed."""
    return any(_said(file, at) == _digest(file, at) for at in _places(file))


def _places(file: Any) -> list[int]:
    """Where in the file the hash may stand: one place, unless a text in the footer has the same letters."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - TAIL_BYTES)
    file.seek(start)
    tail = file.read(size - start)
    return [start + found.end() for found in re.finditer(re.escape(_PLACE), tail)]


def _said(file: Any, at: int) -> bytes:
    file.seek(at)
    return bytes(file.read(len(UNSEALED)))


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

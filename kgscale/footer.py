"""What a committed file says of itself in its footer, and whether that is what its name promises."""

import hashlib
from functools import lru_cache

import pyarrow as pa

from kgscale.records import EXTRACTION_SCHEMA
from kgscale.shards import Shard
from kgscale.store import Store

TAIL_BYTES = 16_384
"""More than the footer of any file that kgscale writes; one read from the end of the file."""
_MAGIC = b"PAR1"
_SCHEMA = hashlib.sha256(str(EXTRACTION_SCHEMA).encode()).hexdigest()[:16]


def footer(shard: Shard, stamp: str) -> dict[str, str]:
    """The key-value pairs of a shard's file; `stamp` stands for the fingerprint of the method."""
    return {
        "kgscale.method": shard.method,
        "kgscale.rows": f"{shard.start}-{shard.stop}",
        "kgscale.stamp": stamp,
        "kgscale.schema": _SCHEMA,
    }


def fault(store: Store, shard: Shard, stamp: str) -> str | None:
    """What is wrong with a committed file as far as its footer tells, null if nothing.

    The pages carry checksums of their own, which are compared when they are read.
    """
    try:
        file = store.parquet(shard.file)
    except (OSError, pa.ArrowException) as error:
        return f"cannot be read: {error}"
    said = {key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()}
    if not file.schema_arrow.equals(EXTRACTION_SCHEMA):
        return "its columns are not those of an extraction"
    if said.get("kgscale.method") != shard.method:
        return f"holds rows of another method than {shard.method}"
    if said.get("kgscale.stamp") != stamp:
        return "was made under another fingerprint"
    rows = f"{shard.start}-{shard.stop}"
    if file.metadata.num_rows != shard.rows or said.get("kgscale.rows", rows) != rows:
        return f"holds other rows than {rows}"
    return None


def quick_fault(store: Store, shard: Shard, stamp: str) -> str | None:
    """The same, for a hundred thousand files in seconds.

    A file whose last bytes are those that kgscale writes for this shard is whole and its own; any other is opened and
    told what is wrong with it. Whoever reads the rows looks closer.
    """
    try:
        if is_signed(store.tail(shard.file, TAIL_BYTES), shard, stamp):
            return None
    except OSError as error:
        return f"cannot be read: {error}"
    return fault(store, shard, stamp)


def is_signed(tail: bytes, shard: Shard, stamp: str) -> bool:
    """Whether the last bytes of a file are a Parquet footer with the key-value pairs of this shard.

    Layout: `footer, its length in 4 bytes, PAR1` (https://parquet.apache.org/docs/file-format/).
    """
    if tail[-4:] != _MAGIC or not 0 < (length := int.from_bytes(tail[-8:-4], "little")) <= len(tail) - 8:
        return False
    said = tail[-8 - length : -8]
    return all(_pair(key, value) in said for key, value in footer(shard, stamp).items())


@lru_cache(maxsize=64)
def _pair(key: str, value: str) -> bytes:
    """A key-value pair as Thrift's compact protocol writes it: two string fields, each with its length before it.

    https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
    """
    return b"".join(b"\x18" + _varint(len(it)) + it for it in (key.encode(), value.encode()))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])

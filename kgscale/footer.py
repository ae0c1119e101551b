"""What a file of a run says of itself, and whether that is what its name promises."""

import hashlib
import json
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgscale.records import EXTRACTION_SCHEMA
from kgscale.shards import Shard
from kgscale.store import Store

TAIL_BYTES = 16_384
"""More than the footer of any file that kgscale writes; one read from the end of the file."""
OTHER_VERSION = "was written by another version of kgscale, whose rows have other columns: begin a new run (--new-run)"
_MAGIC = b"PAR1"
_SCHEMA = hashlib.sha256(str(EXTRACTION_SCHEMA).encode()).hexdigest()[:16]


def footer(shard: Shard, stamp: str, corpus: str | None = None) -> dict[str, str]:
    """The key-value pairs of a shard's file.

    `stamp` stands for the fingerprint of the method, `corpus` is the hash of the corpus, null for a run without one.
    """
    return {
        "kgscale.method": shard.method,
        "kgscale.rows": f"{shard.start}-{shard.stop}",
        "kgscale.stamp": stamp,
        "kgscale.schema": _SCHEMA,
        **({} if corpus is None else {"kgscale.corpus": corpus}),
    }


def misfit(file: pq.ParquetFile, shard: Shard, due: dict[str, str]) -> str | None:
    """Why an open file is not the one of a shard, as far as its footer tells; null if it is.

    The pages carry checksums of their own, which are compared when they are read.
    """
    pairs = (file.schema_arrow.metadata or {}).items()
    said = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in pairs}
    rows = due["kgscale.rows"]
    if said.get("kgscale.schema", _SCHEMA) != _SCHEMA:
        return OTHER_VERSION
    if not file.schema_arrow.equals(EXTRACTION_SCHEMA):
        return "its columns are not those of an extraction"
    if said.get("kgscale.method", shard.method) != shard.method:
        return f"holds rows of another method than {shard.method}"
    if said.get("kgscale.stamp") != due["kgscale.stamp"]:
        return "was made under another fingerprint"
    if said.get("kgscale.corpus", corpus := due.get("kgscale.corpus")) != corpus:
        return "holds rows of another corpus"
    if file.metadata.num_rows != shard.rows or said.get("kgscale.rows", rows) != rows:
        return f"holds other rows than {rows}"
    return None


def fault(store: Store, name: str, shard: Shard, due: dict[str, str]) -> str | None:
    """What is wrong with the file of this name, which is to hold a shard, as far as its footer tells."""
    try:
        return misfit(store.parquet(name), shard, due)
    except (OSError, pa.ArrowException) as error:
        return f"cannot be read: {error}"


def quick_fault(store: Store, name: str, shard: Shard, due: dict[str, str]) -> str | None:
    """The same, for a hundred thousand files in seconds.

    A file whose last bytes are those that kgscale writes for this shard is whole and its own; any other is opened and
    told what is wrong with it. Whoever reads the rows looks closer.
    """
    try:
        if is_signed(store.tail(name, TAIL_BYTES), due):
            return None
    except OSError as error:
        return f"cannot be read: {error}"
    return fault(store, name, shard, due)


def is_signed(tail: bytes, due: dict[str, str]) -> bool:
    """Whether the last bytes of a file are a Parquet footer with these key-value pairs.

    Layout: `footer, its length in 4 bytes, PAR1` (https://parquet.apache.org/docs/file-format/).
    """
    if tail[-4:] != _MAGIC or not 0 < (length := int.from_bytes(tail[-8:-4], "little")) <= len(tail) - 8:
        return False
    said = tail[-8 - length : -8]
    return all(_pair(key, value) in said for key, value in due.items())


@lru_cache(maxsize=64)
def _pair(key: str, value: str) -> bytes:
    """A key-value pair as Thrift's compact protocol writes it: two string fields, each with its length before it.

    https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
    """
    return b"".join(b"\x18" + _varint(len(it)) + it for it in (key.encode(), value.encode()))


def content_hash(record: dict[str, Any]) -> str:
    """SHA-256 of all that stands in `run.json` but the hash itself."""
    content = {key: value for key, value in record.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])

"""Documents and chunks out of .jsonl, .json and .parquet: one record each, with a `text`.

A record with a `chunk_id` is a chunk, and is left as it is; its `doc_id` is the first of `doc_id`, `full_doc_id`,
`document_id`, `file_path` and `source` that it has, else the chunk's own id. A record without one is a document to be
cut; its `doc_id` is the first of `doc_id`, `document_id` and `id`, else a hash of the text (so that it does not change
when records come and go). The first record says which of the two a file holds.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgscale.corpus.files import clean, count_controls, parse_json, read_json_lines, read_text
from kgscale.corpus.notices import Faults, Notices
from kgscale.corpus.read import CONTROLS, EMPTY, Document
from kgscale.corpus.values import as_id, as_text
from kgscale.errors import UserError

KEPT_BLANK = "is a chunk without text, and is kept"
KEPT_CONTROLS = "is a chunk with control characters, which are kept"
_CHUNK_DOC_IDS = ("doc_id", "full_doc_id", "document_id", "file_path", "source")
_DOC_IDS = ("doc_id", "document_id", "id")
_SOURCES = ("file_path", "source")
_COLUMNS = ("text", "chunk_id", "id", *_CHUNK_DOC_IDS)
_BATCH = 64  # records of a Parquet file in memory at once

# Number, place and value of a record; an error stands for one that cannot be read.
Row = tuple[int, str, Any]


def read_rows(path: Path, faults: Faults, notices: Notices) -> Iterator[Document]:
    """The records of a .jsonl, .json or .parquet file, in order; .json is read whole, the others piece by piece."""
    rows = ROW_READERS[path.suffix.lower()](path)
    reader = _Reader(path, notices)
    try:
        for number, where, value in rows:
            try:
                if isinstance(value, UserError):
                    raise value
                if document := reader.document(number, where, value):
                    yield document
            except UserError as error:
                faults.add_error(error)
            except ValueError as error:
                faults.add(where, str(error))
    except UserError as error:
        faults.add_error(error)


class _Reader:
    """Remembers the ids of a file, as hashes, and whether its records are chunks."""

    def __init__(self, path: Path, notices: Notices) -> None:
        self._source = str(path)
        self._unit = "line" if path.suffix.lower() == ".jsonl" else "record"
        self._notices = notices
        self._first_with: dict[int, int] = {}
        self._copies: dict[int, int] = {}
        self._chunks: bool | None = None

    def document(self, number: int, where: str, value: Any) -> Document | None:
        """The document or chunk of one record; raises `ValueError` in words that follow its place."""
        if not isinstance(value, dict):
            raise ValueError("it is not an object with a `text`")
        if "text" not in value:
            raise ValueError(f"`text` is missing (there is {', '.join(map(str, value))[:200] or 'nothing'})")
        text = _field(value, "text", as_text)
        if self._chunks is None:
            self._chunks = "chunk_id" in value
        if self._chunks != ("chunk_id" in value):
            raise ValueError(f"it has {'no' if self._chunks else 'a'} chunk_id, unlike the records before it")
        named = next((name for name in _SOURCES if isinstance(value.get(name), str)), None)
        source = _field(value, named, as_text) if named else self._source
        if self._chunks:
            return self._chunk(number, where, value, text, source)
        return self._whole(number, where, value, text, source)

    def _chunk(self, number: int, where: str, value: dict[str, Any], text: str, source: str) -> Document:
        chunk_id = _field(value, "chunk_id", as_id)
        self._forbid_twice("chunk_id", chunk_id, number)
        if count_controls(text):
            self._notices.add(where, KEPT_CONTROLS)
        if not text.strip():
            self._notices.add(where, KEPT_BLANK)
        return Document(_optional_id(value, _CHUNK_DOC_IDS) or chunk_id, text, source, chunk_id)

    def _whole(self, number: int, where: str, value: dict[str, Any], text: str, source: str) -> Document | None:
        doc_id = _optional_id(value, _DOC_IDS)
        if doc_id is None:
            digest = _hash(text)
            copy = self._copies[digest] = self._copies.get(digest, 0) + 1
            doc_id = f"{digest:016x}" if copy == 1 else f"{digest:016x}-{copy}"
        else:
            self._forbid_twice("doc_id", doc_id, number)
        text, controls = clean(text)
        if controls:
            self._notices.add(where, CONTROLS, f"{controls:,}")
        if not text.strip():
            self._notices.add(where, EMPTY)
            return None
        return Document(doc_id, text, source)

    def _forbid_twice(self, field: str, value: str, number: int) -> None:
        first = self._first_with.setdefault(_hash(value), number)
        if first != number:
            raise ValueError(f"{field} {value!r} stands twice (first in {self._unit} {first})")


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def _field(value: dict[str, Any], name: str, check: Callable[[Any], str]) -> str:
    try:
        return check(value[name])
    except ValueError as error:
        raise ValueError(f"`{name}` {error}") from None


def _optional_id(value: dict[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of some fields that is there; null and NaN, which tables put where nothing is, count as absent."""
    for name in names:
        found = value.get(name)
        if found is not None and found == found:  # noqa: PLR0124
            return _field(value, name, as_id)
    return None


def _json_lines(path: Path) -> Iterator[Row]:
    for line, value in read_json_lines(path, str(path)):
        yield line, f"{path}:{line}", value


def _json(path: Path) -> Iterator[Row]:
    value = parse_json(read_text(path, str(path)), str(path))
    records = value.get("chunks") if isinstance(value, dict) else value
    if not isinstance(records, list):
        raise UserError('should be {"chunks": [{"chunk_id": …, "text": …}, …]}, or a list of records', where=str(path))
    for number, record in enumerate(records, start=1):
        guide_id = isinstance(value, dict) and isinstance(record, dict) and "id" in record
        yield number, f"{path}, record {number}", {"chunk_id": record["id"], **record} if guide_id else record


def _parquet(path: Path) -> Iterator[Row]:
    number = 0
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if "text" not in names:
            raise UserError(f"has no column `text` (there is {', '.join(names)[:200] or 'nothing'})", where=str(path))
        columns = [name for name in _COLUMNS if name in names]
        for batch in file.iter_batches(batch_size=_BATCH, columns=columns):
            for row in batch.to_pylist():
                number += 1
                yield number, f"{path}, record {number}", row
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(f"damaged Parquet, after record {number}: {error}", where=str(path)) from None


ROW_READERS = {".jsonl": _json_lines, ".json": _json, ".parquet": _parquet}
"""How the records of a file are read, by its suffix."""

"""The contract of the house: chunks, gold and extractions, and the Arrow schemas that hold them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa


class Status(StrEnum):
    """How the extraction of a chunk went; only `ok` and `truncated` carry a usable answer."""

    OK = "ok"
    """Answered in full; the answer may be empty."""
    TRUNCATED = "truncated"
    """Usable but cut: what was complete is kept."""
    FAILED = "failed"
    """Tried, no usable answer."""
    DEAD = "dead"
    """Killed its worker, or hung past the deadline, alone and more than once."""


class Origin(StrEnum):
    """Where a gold annotation comes from."""

    MANUAL = "manual"
    REVIEWED = "reviewed"
    PSEUDO = "pseudo"


@dataclass(frozen=True, slots=True)
class Chunk:
    """One text unit of the corpus; `row` is its position in `chunks.parquet`, from 0."""

    chunk_id: str
    doc_id: str
    row: int
    text: str
    words: int
    """Words, where a character of a script without spaces counts as one."""
    source: str | None = None
    """The file it was read from."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A named thing in a chunk; `start` and `end` are character offsets, end exclusive, or null if not in the text."""

    text: str
    type: str
    start: int | None = None
    end: int | None = None
    score: float | None = None
    """The engine's confidence, 0 to 1, where it gives one."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A directed, typed edge between two entities of one chunk, named by their text."""

    source: str
    target: str
    type: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class GoldEntity:
    """An annotated mention; `aliases` are other names that count as the same entity."""

    text: str
    type: str
    start: int | None = None
    end: int | None = None
    aliases: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GoldChunk:
    """The reference annotation of one chunk."""

    chunk_id: str
    entities: list[GoldEntity]
    relations: list[Relation]
    origin: Origin = Origin.MANUAL
    text: str | None = None
    """The text that was annotated, where the gold file carries it."""
    annotator: str | None = None
    """The model that annotated, or several joined by ` + `; it stays when people have reviewed what it said."""
    prompt: str | None = None
    """SHA-256 of what that model was asked."""
    exhaustive: bool = True
    """Whether everything in the text is annotated; if not, what a method says beyond the gold may be right."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one method found in one chunk, and how it went; all times in milliseconds."""

    chunk_id: str
    row: int
    doc_id: str
    method: str
    status: Status
    error: str | None = None
    """`reason: detail`; the reason is a short word that failures are counted by."""
    entities: list[Entity] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    relations_left_out: int = 0
    """Relations that the engine gave and the schema does not allow between entities of these types."""
    entities_by: str | None = None
    """The engine that found the entities: not the method's usual one where the fallback took over."""
    windows: int = 1
    """The number of pieces that the text was cut into to fit the engine."""
    queue_ms: float | None = None
    """The wait for the engine, which we chose by batching."""
    service_ms: float | None = None
    """What the engines spent on the chunk: LLM from scheduled to last token, GLiNER the wall time of its batch."""
    prefill_ms: float | None = None
    decode_ms: float | None = None
    batch_ms: float | None = None
    """Time in the engine, shared with others; `batch_ms / batch_size` is the amortised cost."""
    batch_size: float | None = None
    """With how many chunks, on average, that time was shared (this one included)."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    raw: str | None = None
    """The engine's own answer, where the config asks to keep it."""
    attempts: int = 1
    worker: str | None = None
    device: str | None = None


CHUNK_SCHEMA = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("words", pa.int32(), nullable=False),
        pa.field("source", pa.string()),
    ]
)

_ENTITY = pa.struct(
    [
        pa.field("text", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("start", pa.int32()),
        pa.field("end", pa.int32()),
        pa.field("score", pa.float32()),
    ]
)
_RELATION = pa.struct(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("score", pa.float32()),
    ]
)
_GOLD_ENTITY = pa.struct(
    [
        pa.field("text", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("start", pa.int32()),
        pa.field("end", pa.int32()),
        pa.field("aliases", pa.list_(pa.string())),
    ]
)

GOLD_SCHEMA = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("entities", pa.list_(_GOLD_ENTITY), nullable=False),
        pa.field("relations", pa.list_(_RELATION), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("text", pa.string()),
    ]
)
GOLD_ANNOTATOR = "kgscale.annotator"
"""The key in a gold file's metadata that names the model which made it."""
GOLD_PARTIAL = "kgscale.partial"
"""The key in a gold file's metadata that says how many of its chunks are not annotated exhaustively."""

EXTRACTION_SCHEMA = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("entities", pa.list_(_ENTITY), nullable=False),
        pa.field("relations", pa.list_(_RELATION), nullable=False),
        pa.field("relations_left_out", pa.int32(), nullable=False),
        pa.field("entities_by", pa.string()),
        pa.field("windows", pa.int32(), nullable=False),
        pa.field("queue_ms", pa.float64()),
        pa.field("service_ms", pa.float64()),
        pa.field("prefill_ms", pa.float64()),
        pa.field("decode_ms", pa.float64()),
        pa.field("batch_ms", pa.float64()),
        pa.field("batch_size", pa.float64()),
        pa.field("prompt_tokens", pa.int32()),
        pa.field("cached_tokens", pa.int32()),
        pa.field("output_tokens", pa.int32()),
        pa.field("finish_reason", pa.string()),
        pa.field("raw", pa.string()),
        pa.field("attempts", pa.int32(), nullable=False),
        pa.field("worker", pa.string()),
        pa.field("device", pa.string()),
    ]
)


def to_table(records: Iterable[Chunk | GoldChunk | Extraction], schema: pa.Schema) -> pa.Table:
    """Put records into a table with the explicit schema, so that all-empty lists keep their type.

    Raises `pyarrow.ArrowInvalid` when a value does not fit its column.
    """
    return pa.Table.from_pylist([asdict(record) for record in records], schema=schema)


def extraction_from(row: dict[str, Any]) -> Extraction:
    """Read back one row of a table with `EXTRACTION_SCHEMA`, as given by `Table.to_pylist()`."""
    return Extraction(
        **{
            **row,
            "status": Status(row["status"]),
            "entities": [Entity(**entity) for entity in row["entities"]],
            "relations": [Relation(**relation) for relation in row["relations"]],
        }
    )

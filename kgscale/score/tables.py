"""The Parquet files and `scores.json` that scoring leaves in a run directory."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from pydantic import ValidationError

from kgscale.errors import UserError
from kgscale.runs import Run
from kgscale.score.batches import to_frame
from kgscale.score.latency import summary
from kgscale.score.match import Mode
from kgscale.score.metrics import micro
from kgscale.score.reduce import Reduced
from kgscale.score.results import Scores
from kgscale.store import Store

SCORES_FILE = "scores.json"
FOLDER = "scores"
PER_CHUNK = f"{FOLDER}/per_chunk.parquet"
PER_TYPE = f"{FOLDER}/per_type.parquet"
PER_DOCUMENT = f"{FOLDER}/per_document.parquet"
PER_SOURCE = f"{FOLDER}/per_source.parquet"
LATENCY = f"{FOLDER}/latency.parquet"
FAILURES = f"{FOLDER}/failures.parquet"
CAUSES = f"{FOLDER}/causes.parquet"
PER_TYPE_SPANS = f"{FOLDER}/per_type_spans.parquet"
CONFUSION = f"{FOLDER}/confusion.parquet"
UNMAPPED = f"{FOLDER}/unmapped.parquet"


@dataclass(frozen=True, slots=True)
class MethodTables:
    """A method and all that was counted for it."""

    method: str
    reduced: Reduced


def write_tables(store: Store, methods: Sequence[MethodTables], chunks: pl.DataFrame) -> None:
    """Write `scores/*.parquet`; `chunks` describes every gold chunk: row, chunk_id, doc_id, source."""
    documents, sources = _write_per_chunk(store, methods, chunks)
    _write(store, PER_DOCUMENT, documents)
    _write(store, PER_SOURCE, sources)
    _write(store, PER_TYPE, [_named(it, micro(it.reduced.per_type, "mode", "type").drop("chunks")) for it in methods])
    _write(store, LATENCY, [_named(it, summary(it.reduced.timings)) for it in methods])
    _write(store, FAILURES, [_named(it, it.reduced.failures) for it in methods])
    _write(store, CAUSES, [_named(it, it.reduced.causes) for it in methods])
    _write(store, PER_TYPE_SPANS, [_named(it, it.reduced.span_types) for it in methods])
    _write(store, CONFUSION, [_named(it, it.reduced.confusion) for it in methods])
    _write(store, UNMAPPED, [_named(it, it.reduced.unmapped) for it in methods])


def read_scores(run: Run) -> Scores:
    """The scores that `score_run` left in a run; raises `UserError` if there are none, or not of this version."""
    hint = "run `kgscale score` first"
    try:
        return Scores.from_json(run.store.read(SCORES_FILE))
    except FileNotFoundError:
        raise UserError("the run has not been scored", where=run.store.uri, hint=hint) from None
    except ValidationError:
        raise UserError("written by another version of kgscale", where=run.store.url(SCORES_FILE), hint=hint) from None


def read_table(run: Run, name: str) -> pl.DataFrame:
    """One of the tables above, for example `PER_TYPE`; raises `UserError` if the run has not been scored."""
    try:
        return to_frame(run.store.parquet(name).read())
    except FileNotFoundError:
        raise UserError("the run has not been scored", where=run.store.uri, hint="run `kgscale score` first") from None


def read_counts(run: Run, method: str, mode: str) -> pl.DataFrame:
    """The counts of one method in one mode for each gold chunk: row, doc_id, tp, fp, fn; empty if not scored."""
    file = run.store.parquet(PER_CHUNK)
    groups = (
        to_frame(file.read_row_group(it, ["method", "mode", "row", "doc_id", "tp", "fp", "fn"]))
        for it in range(file.num_row_groups)
    )
    wanted = [it.filter(pl.col("method") == method, pl.col("mode") == mode) for it in groups]
    return pl.concat(wanted).drop("method", "mode")


_WORDS = dict.fromkeys(("chunk_id", "doc_id", "source", "status"), pa.large_string())
_CHUNK_TABLE = pa.schema(
    {"method": pa.large_string(), "mode": pa.large_string(), "row": pa.int64(), **_WORDS}
    | dict.fromkeys(("tp", "fp", "fn"), pa.uint32())
)
_CHUNK_COLUMNS = _CHUNK_TABLE.names


def _write_per_chunk(
    store: Store, methods: Sequence[MethodTables], chunks: pl.DataFrame
) -> tuple[list[pl.DataFrame], list[pl.DataFrame]]:
    """Write the largest table, one method and mode at a time; returns it by document and by source."""
    documents, sources = [], []
    with store.table_writer(PER_CHUNK, _CHUNK_TABLE) as writer:
        for it in methods:
            about = chunks.join(it.reduced.fates, on="row", how="left", maintain_order="left")
            for mode in Mode:
                frame = _per_chunk(it, mode, about)
                documents.append(_named(it, micro(frame, "mode", "doc_id")))
                sources.append(_named(it, micro(frame, "mode", "source")))
                writer.write_table(_plain(frame.select(_CHUNK_COLUMNS)).cast(_CHUNK_TABLE))
    return documents, sources


def _per_chunk(of: MethodTables, mode: Mode, about: pl.DataFrame) -> pl.DataFrame:
    """One row per gold chunk, by row; `status` is null where there is no extraction."""
    counts = of.reduced.per_chunk.filter(pl.col("mode") == mode.value)
    return _named(of, counts.join(about, on="row", how="left", maintain_order="left"))


def _named(of: MethodTables, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(pl.lit(of.method).alias("method"), pl.all())


def _write(store: Store, name: str, frames: Sequence[pl.DataFrame]) -> None:
    store.write_table(name, _plain(pl.concat(frames)))


def _plain(frame: pl.DataFrame) -> pa.Table:
    """Plain strings, which every reader of Parquet knows."""
    words = pl.col(pl.Enum, pl.Categorical).cast(pl.String)
    return frame.with_columns(words).to_arrow(compat_level=pl.CompatLevel.oldest())

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
    """Write `scores/*.parquet`; `chunks` describes every corpus and gold chunk: row, chunk_id, doc_id, source."""
    with_chunk = [(it, _per_chunk(it, chunks)) for it in methods]
    _write_grouped(store, PER_CHUNK, [frame.select(_CHUNK_COLUMNS) for _, frame in with_chunk])
    _write(store, PER_TYPE, [_named(it, micro(it.reduced.per_type, "mode", "type").drop("chunks")) for it in methods])
    _write(store, PER_DOCUMENT, [_named(it, micro(frame, "mode", "doc_id")) for it, frame in with_chunk])
    _write(store, PER_SOURCE, [_named(it, micro(frame, "mode", "source")) for it, frame in with_chunk])
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


_CHUNK_COLUMNS = ("method", "mode", "row", "chunk_id", "doc_id", "source", "status", "tp", "fp", "fn")


def _per_chunk(of: MethodTables, chunks: pl.DataFrame) -> pl.DataFrame:
    """One row per mode and gold chunk; `status` is null where there is no extraction."""
    about = chunks.join(of.reduced.fates, on="row", how="left")
    return _named(of, of.reduced.per_chunk.join(about, on="row", how="left").sort("mode", "row"))


def _named(of: MethodTables, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(pl.lit(of.method).alias("method"), pl.all())


def _write(store: Store, name: str, frames: Sequence[pl.DataFrame]) -> None:
    store.write_table(name, _plain(pl.concat(frames)))


def _write_grouped(store: Store, name: str, frames: Sequence[pl.DataFrame]) -> None:
    """One row group per frame, so that one method's rows can be read alone."""
    groups = [_plain(it) for it in frames]
    with store.table_writer(name, groups[0].schema) as writer:
        for it in groups:
            writer.write_table(it)


def _plain(frame: pl.DataFrame) -> pa.Table:
    """Plain strings, which every reader of Parquet knows."""
    words = pl.col(pl.Enum, pl.Categorical).cast(pl.String)
    return frame.with_columns(words).to_arrow(compat_level=pl.CompatLevel.oldest())

"""The gold that a run is scored against: its file, a batch of it, and what to say about it."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from kgscale.errors import UserError
from kgscale.records import CHUNK_SCHEMA, GOLD_ANNOTATOR, GOLD_PARTIAL, GOLD_SCHEMA
from kgscale.runs import Run
from kgscale.score.batches import find_chunks, to_frame
from kgscale.score.digest import Digest, content
from kgscale.score.health import carries, entity_counts, relation_counts
from kgscale.score.items import Items, gold_aliases, items
from kgscale.score.keys import Keys
from kgscale.score.results import Count, GoldSummary

COLUMNS = ("entities", "relations", "origin")


@dataclass
class Gold:
    """The gold file of a run, read by row groups; what was read last is kept."""

    name: str
    file: pq.ParquetFile
    index: pl.DataFrame
    """One row per gold chunk, by row: row (in the corpus, or beyond its end), chunk_id, doc_id, source, place (in the
    file)."""
    starts: npt.NDArray[np.int64]
    """The first place of each row group, and the end of the last."""
    corpus_rows: int
    _held: tuple[list[int], pl.DataFrame] | None = field(default=None, repr=False)
    _reading: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def open(cls, run: Run, name: str) -> "Gold":
        """Find the corpus row of each gold chunk; raises `UserError` when an id is there twice."""
        store = run.store
        try:
            file = store.parquet(name)
            file.schema_arrow.empty_table().select(["chunk_id", *COLUMNS])
            groups = [to_frame(file.read_row_group(it, ["chunk_id"])) for it in range(file.num_row_groups)]
        except FileNotFoundError:
            raise UserError("there is no such gold file", where=store.url(name)) from None
        except (pa.ArrowException, KeyError) as error:
            raise UserError(f"damaged: {error}", where=store.url(name)) from None
        ids = pl.concat([pl.DataFrame(schema={"chunk_id": pl.String}), *groups]).with_row_index("place")
        twice = ids.filter(pl.col("chunk_id").is_duplicated())["chunk_id"].unique().sort()
        if len(twice):
            names = ", ".join(twice.head(5)) + (", …" if len(twice) > 5 else "")
            raise UserError(
                f"{len(twice)} chunk ids stand more than once: {names}",
                where=store.url(name),
                hint="merge or remove the duplicates: one gold annotation per chunk",
            )
        corpus = find_chunks(run, ids["chunk_id"])
        located = ids.sort("chunk_id").join(corpus, on="chunk_id", how="left", maintain_order="left")
        outside = pl.col("row").is_null()
        # What is in no chunk of the corpus still counts as missed, so it gets a row of its own.
        beyond = run.rows + outside.cum_sum().cast(pl.Int64) - 1
        index = located.with_columns(row=pl.when(outside).then(beyond).otherwise("row")).sort("row")
        return cls(name, file, index, np.cumsum([0, *(it.height for it in groups)]), run.rows)

    @property
    def annotator(self) -> str | None:
        """The model that annotated, or several joined by ` + `, where the file's metadata names it."""
        return self._said(GOLD_ANNOTATOR) or None

    @property
    def partial(self) -> int:
        """Chunks that are not annotated exhaustively, as the file's metadata says."""
        said = self._said(GOLD_PARTIAL)
        return int(said) if said.isdecimal() else 0

    def _said(self, key: str) -> str:
        metadata = self.file.schema_arrow.metadata or {}
        return str(metadata.get(key.encode(), b"").decode(errors="replace"))

    @property
    def rows(self) -> int:
        """The first row number after the corpus and the gold chunks outside it."""
        return self.corpus_rows + self.index.filter(pl.col("row") >= self.corpus_rows).height

    def read(self, start: int, stop: int) -> pl.DataFrame:
        """The gold of a row range, in order: row, chunk_id, entities, relations, origin."""
        first, last = self.index["row"].search_sorted(pl.Series([start, stop], dtype=pl.Int64))
        wanted = self.index.slice(first, last - first)
        place = wanted["place"].to_numpy()
        group = np.searchsorted(self.starts, place, side="right") - 1
        groups = np.unique(group)
        found = self._groups(groups.tolist())
        skipped = self.starts[groups] - np.cumsum([0, *np.diff(self.starts)[groups][:-1]])
        at = place - skipped[np.searchsorted(groups, group)]
        in_order = len(at) > 0 and at[-1] - at[0] + 1 == len(at) and bool((np.diff(at) == 1).all())
        rows = found.slice(at[0], len(at)) if in_order else found[at]
        return wanted.select("row", "chunk_id").hstack(rows)

    def _groups(self, numbers: list[int]) -> pl.DataFrame:
        with self._reading:
            if self._held is None or self._held[0] != numbers:
                self._held = numbers, to_frame(self.file.read_row_groups(numbers, list(COLUMNS)))
            return self._held[1]


NO_CHUNKS = to_frame(CHUNK_SCHEMA.empty_table()).select(
    "row", "chunk_id", "doc_id", "source", pl.lit(None, pl.UInt32).alias("place")
)
"""The index of no gold."""
NO_GOLD = to_frame(GOLD_SCHEMA.empty_table()).select(pl.lit(None, pl.Int64).alias("row"), "chunk_id", *COLUMNS)
"""What `Gold.read` gives where no chunk has gold."""


@dataclass(frozen=True, slots=True)
class GoldBatch:
    """The gold of some chunks, taken apart once for all methods."""

    rows: pl.DataFrame
    """row, chunk_id, entities, relations, origin."""
    items: Items
    aliases: pl.LazyFrame | None
    """Null where no entity has an alias: the usual case, which then costs no join."""

    @classmethod
    def of(cls, rows: pl.DataFrame, keys: Keys) -> "GoldBatch":
        """Take gold rows apart; names are replaced by their alias set's canonical name."""
        aliases = gold_aliases(rows, keys)
        known = None if aliases.is_empty() else aliases.lazy()
        parts = items(rows, keys)
        return cls(rows, (parts if known is None else parts.through(known)).collected(), known)


@dataclass(frozen=True, slots=True)
class GoldCounts:
    """What a batch of gold holds."""

    content: Mapping[str, bytes]
    counts: pl.DataFrame
    origins: pl.DataFrame

    @classmethod
    def of(cls, batch: GoldBatch, keys: Keys) -> "GoldCounts":
        """Count one batch."""
        counts = pl.collect_all([entity_counts(batch.items, keys), relation_counts(batch.items, keys)])
        return cls(
            content(batch.rows.select("chunk_id", "entities", "relations")),
            pl.concat(counts, how="horizontal"),
            batch.rows.group_by("origin").agg(pl.len().alias("chunks")),
        )


@dataclass
class GoldTally:
    """What the gold holds, added up batch by batch in corpus order."""

    _digest: Digest = field(default_factory=Digest)
    _counts: list[pl.DataFrame] = field(default_factory=list)
    _origins: list[pl.DataFrame] = field(default_factory=list)

    def add(self, batch: GoldCounts) -> None:
        """Add one batch."""
        self._digest.add(batch.content)
        self._counts.append(batch.counts)
        self._origins.append(batch.origins)

    def summary(self, gold: Gold) -> GoldSummary:
        """The sums."""
        total = pl.concat(self._counts).sum()
        origins = pl.concat(self._origins).group_by("origin").agg(pl.col("chunks").sum()).sort("origin")
        return GoldSummary(
            file=gold.name,
            digest=self._digest.hexdigest(),
            chunks=gold.index.height,
            outside_corpus=gold.rows - gold.corpus_rows,
            entities=total["entities"].item(),
            relations=total["relations"].item(),
            nameless=total["nameless_entities"].item() + total["nameless_relations"].item(),
            carries=carries(total, relations=True),
            origins=tuple(Count(*it) for it in origins.iter_rows()),
            annotator=gold.annotator,
            partial=gold.partial,
        )

"""From one row per chunk to one row per mention and per relation, with keys, for one side of the comparison."""

from dataclasses import dataclass

import polars as pl

from kgscale.records import Status
from kgscale.score.keys import Keys

USABLE = (Status.OK.value, Status.TRUNCATED.value)
"""The statuses whose answer counts; the other rows count as empty answers."""


@dataclass(frozen=True, slots=True)
class Items:
    """What one side says about some chunks; `row` is the chunk's row number in the corpus.

    `entities`: row, label, start, end (as extracted), name, type (keys).
    `relations`: row, label (as extracted), source, target, type (keys).
    """

    entities: pl.LazyFrame
    relations: pl.LazyFrame

    def named(self) -> "Items":
        """Without what has an empty name: such a mention or endpoint cannot be compared, on either side."""
        return Items(
            self.entities.filter(pl.col("name") != ""),
            self.relations.filter((pl.col("source") != "") & (pl.col("target") != "")),
        )

    def within(self, rows: pl.LazyFrame) -> "Items":
        """Only the chunks whose `row` is in `rows`."""
        return Items(
            self.entities.join(rows, on="row", how="semi"),
            self.relations.join(rows, on="row", how="semi"),
        )

    def through(self, aliases: pl.LazyFrame) -> "Items":
        """With the names that `aliases` (row, alias, canonical) knows in a chunk replaced there."""
        return Items(
            _replace(self.entities, "name", aliases),
            _replace(_replace(self.relations, "source", aliases), "target", aliases),
        )

    def collected(self) -> "Items":
        """The same items, worked out once and kept in memory."""
        entities, relations = pl.collect_all([self.entities, self.relations])
        return Items(entities.lazy(), relations.lazy())


def items(rows: pl.DataFrame, keys: Keys) -> Items:
    """Take apart a table with `row`, `entities` and `relations` as the records define them."""
    entities, relations = _long(rows, "entities"), _long(rows, "relations")
    return Items(
        entities.lazy().select(
            "row",
            "start",
            "end",
            label="type",
            name=keys.name.of(entities["text"]),
            type=keys.entity_type.of(entities["type"]),
        ),
        relations.lazy().select(
            "row",
            label="type",
            source=keys.name.of(relations["source"]),
            target=keys.name.of(relations["target"]),
            type=keys.relation_type.of(relations["type"]),
        ),
    )


def usable(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that carry an answer."""
    return rows.filter(pl.col("status").is_in(USABLE))


def gold_aliases(rows: pl.DataFrame, keys: Keys) -> pl.DataFrame:
    """The alias sets of the gold entities in a chunk: row, alias, canonical (keys).

    The canonical name of a set is its first by alphabet, so that sets in which every mention lists the others agree;
    a name that is in several sets of a chunk goes to the first canonical name.
    """
    names = pl.concat_list(pl.col("text"), pl.col("aliases").fill_null([]))
    mentions = (
        _long(rows, "entities")
        .filter(pl.col("aliases").list.len() > 0)
        .select("row", mention=pl.int_range(pl.len()), text=names)
        .explode("text")
    )
    return (
        mentions.with_columns(alias=keys.name.of(mentions["text"]))
        .filter(pl.col("alias") != "")
        .with_columns(canonical=pl.col("alias").min().over("mention"))
        .group_by("row", "alias")
        .agg(pl.col("canonical").min())
    )


def _long(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    return rows.select("row", column).filter(pl.col(column).list.len() > 0).explode(column).unnest(column)


def _replace(frame: pl.LazyFrame, column: str, aliases: pl.LazyFrame) -> pl.LazyFrame:
    return (
        frame.join(aliases, left_on=["row", column], right_on=["row", "alias"], how="left")
        .with_columns(pl.coalesce("canonical", column).alias(column))
        .drop("canonical")
    )

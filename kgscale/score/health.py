"""How the extractions themselves look, gold or not: fates, reasons, labels off the schema, ends without an entity."""

import polars as pl

from kgscale.records import Status
from kgscale.score.items import USABLE, Items
from kgscale.score.keys import Keys
from kgscale.score.results import Carries, Checks, Statuses

REASON = pl.col("error").fill_null("unknown").str.splitn(":", 2).struct.field("field_0").str.strip_chars()
"""The short word before the first colon of an error."""


def row_counts(rows: pl.LazyFrame, usual_engine: str | None) -> pl.LazyFrame:
    """One row of counts: each status, and the usable rows whose entities another engine than `usual_engine` found."""
    is_usable = pl.col("status").is_in(USABLE)
    return rows.select(
        *((pl.col("status") == it.value).sum().alias(it.value) for it in Status),
        left_out=pl.col("relations_left_out").sum(),
        fallbacks=(is_usable & pl.col("entities_by").ne(pl.lit(usual_engine, pl.String))).sum(),
    )


def entity_counts(predicted: Items, keys: Keys) -> pl.LazyFrame:
    """One row: entities, those with an empty name, those not in the text, those of a type off the schema."""
    return predicted.entities.select(
        entities=pl.len(),
        typed_entities=(pl.col("type") != "").sum(),
        nameless_entities=(pl.col("name") == "").sum(),
        ungrounded=pl.col("start").is_null().sum(),
        grounded=pl.col("start").is_not_null().sum(),
        off_schema_entities=_off_schema(keys.known_entity_types).sum(),
    )


def relation_counts(predicted: Items, keys: Keys) -> pl.LazyFrame:
    """One row: relations, those with an empty end, those of a type off the schema."""
    return predicted.relations.select(
        relations=pl.len(),
        typed_relations=(pl.col("type") != "").sum(),
        nameless_relations=((pl.col("source") == "") | (pl.col("target") == "")).sum(),
        off_schema_relations=_off_schema(keys.known_relation_types).sum(),
    )


def _off_schema(known: frozenset[str]) -> pl.Expr:
    """Whether a type is none of the schema's; what a tool gives no type to is untyped, which is told elsewhere."""
    return (pl.col("type") != "") & ~pl.col("type").is_in(sorted(known))


def dangling_ends(predicted: Items) -> pl.LazyFrame:
    """One row: the relation ends that are not among the entities of their chunk."""
    ends = pl.concat([predicted.relations.select("row", name=end) for end in ("source", "target")])
    return ends.join(predicted.entities, on=["row", "name"], how="anti").select(dangling=pl.len())


def failures(rows: pl.LazyFrame) -> pl.LazyFrame:
    """How many failed and dead rows there are for each reason: reason, rows."""
    unusable = rows.filter(~pl.col("status").is_in(USABLE))
    return unusable.group_by(REASON.alias("reason")).agg(pl.len().alias("rows"))


def unmapped(predicted: Items, keys: Keys) -> pl.LazyFrame:
    """The labels that lead to no type of the schema, as extracted: kind (`entity`, `relation`), label, count."""
    sides = (
        (predicted.entities, "entity", keys.known_entity_types),
        (predicted.relations, "relation", keys.known_relation_types),
    )
    return pl.concat(
        [
            frame.filter(_off_schema(known))
            .group_by("label")
            .agg(pl.len().alias("count"))
            .select(pl.lit(kind).alias("kind"), pl.col("label").cast(pl.String), "count")
            for frame, kind, known in sides
        ]
    )


def statuses(tally: pl.DataFrame) -> Statuses:
    """The rows by status, from one row of the counts above."""
    return Statuses(**tally.select(it.value for it in Status).row(0, named=True))


def carries(tally: pl.DataFrame, *, relations: bool) -> Carries:
    """What a side gives at all, from one row of the counts above; `relations`: whether it looks for relations."""
    types = [(pl.col(f"{kind}") == 0) | (pl.col(f"typed_{kind}") > 0) for kind in ("entities", "relations")]
    entity_types, relation_types = tally.select(types).row(0)
    offsets = tally.select((pl.col("entities") == 0) | (pl.col("grounded") > 0)).item()
    return Carries(entity_types, relations, relation_types, offsets)


def checks(tally: pl.DataFrame, *, relations: bool) -> Checks:
    """The rates, from one row of the counts above; `relations`: whether the method looks for relations."""
    it = tally.row(0, named=True)
    return Checks(
        entities=it["entities"],
        relations=it["relations"],
        carries=carries(tally, relations=relations),
        nameless=it["nameless_entities"] + it["nameless_relations"],
        left_out=it["left_out"],
        ungrounded_rate=_share(it["ungrounded"], it["entities"]),
        off_schema_entity_rate=_share(it["off_schema_entities"], it["typed_entities"]),
        off_schema_relation_rate=_share(it["off_schema_relations"], it["typed_relations"]),
        dangling_rate=_share(it["dangling"], 2 * it["relations"]),
        fallback_rate=_share(it["fallbacks"], it["ok"] + it["truncated"]),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None

"""What both sides say, compared as sets per chunk, in every mode."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import polars as pl

from kgscale.errors import UserError
from kgscale.score.items import Items
from kgscale.score.keys import Keys
from kgscale.score.results import Carries


class Mode(StrEnum):
    """When an extracted item counts as the annotated one."""

    NAME = "name"
    """Entities: the same name."""
    NAME_TYPE = "name+type"
    """Entities: the same name and type."""
    PAIR_UNDIRECTED = "pair_undirected"
    """Relations: the same two ends, in either order."""
    PAIR = "pair"
    """Relations: the same source and target."""
    PAIR_TYPE = "pair+type"
    """Relations: the same source, target and type. Others call this `boundaries` (PURE) or `without NEC` (SpERT)."""
    PAIR_TYPE_ENTITY_TYPES = "pair+type+entity_types"
    """Relations: also the same types of both ends. Others call this `strict` (PURE) or `with NEC` (SpERT)."""


ENTITY_MODES = (Mode.NAME, Mode.NAME_TYPE)
RELATION_MODES = (Mode.PAIR_UNDIRECTED, Mode.PAIR, Mode.PAIR_TYPE, Mode.PAIR_TYPE_ENTITY_TYPES)
TYPED_MODES = (Mode.NAME_TYPE, Mode.PAIR_TYPE, Mode.PAIR_TYPE_ENTITY_TYPES)


GOLD, PREDICTED, BOTH = 1, 2, 3
"""The sides that have an item, as bits: `BOTH` is `GOLD | PREDICTED`."""

MODE = pl.Enum([mode.value for mode in Mode])

_GUIDE_NAMES = {"relaxed": Mode.PAIR, "directional": Mode.PAIR_UNDIRECTED, "strict": Mode.PAIR_TYPE}


@dataclass(frozen=True, slots=True)
class NamedMode:
    """A relation mode, and what to tell the user where another name for it was used."""

    mode: Mode
    note: str | None = None


def relation_mode(name: str) -> NamedMode:
    """Find a relation mode by its name or by the LightRAG guide's (`strict`, `relaxed`, `directional`).

    Raises `UserError` for any other name.
    """
    wanted = name.strip().lower()
    if wanted in _GUIDE_NAMES:
        mode = _GUIDE_NAMES[wanted]
        return NamedMode(mode, f"`{wanted}` is the guide's name for `{mode.value}`")
    if wanted not in RELATION_MODES:
        known = ", ".join((*RELATION_MODES, *_GUIDE_NAMES))
        raise UserError(f"there is no relation mode {name!r}", hint=f"there are: {known}")
    return NamedMode(Mode(wanted))


def modes_for(*sides: Carries) -> list[Mode]:
    """The modes in which sides can be compared, given what each of them carries."""
    entity_types = all(it.entity_types for it in sides)
    relations = all(it.relations for it in sides)
    relation_types = all(it.relation_types for it in sides)
    applies = {
        Mode.NAME: True,
        Mode.NAME_TYPE: entity_types,
        Mode.PAIR_UNDIRECTED: relations,
        Mode.PAIR: relations,
        Mode.PAIR_TYPE: relations and relation_types,
        Mode.PAIR_TYPE_ENTITY_TYPES: relations and relation_types and entity_types,
    }
    return [mode for mode in Mode if applies[mode]]


@dataclass(frozen=True, slots=True)
class Matched:
    """Every distinct item of either side in one mode, with its `side`.

    Entities have `node`, relations `source` and `target`: names within their chunk, as `node` numbers them; and `type`,
    where the mode compares it.
    """

    mode: Mode
    items: pl.DataFrame

    def counts(self, *by: str) -> pl.DataFrame:
        """True and false positives and false negatives by some of the columns: mode, by, tp, fp, fn."""
        side = pl.col("side")
        sums = [(side == it).sum().alias(name) for name, it in (("tp", BOTH), ("fp", PREDICTED), ("fn", GOLD))]
        counted = self.items.group_by(by).agg(sums) if by else self.items.select(sums)
        return counted.select(pl.lit(self.mode.value, MODE).alias("mode"), pl.all())

    def by_chunk(self, rows: pl.Series) -> pl.DataFrame:
        """The same for each chunk of `rows`, 0 where there was nothing: mode, row, tp, fp, fn."""
        row = row_of("node" if self.mode in ENTITY_MODES else "source")
        counted = tally(self.items.select(row, "side"), rows, BOTH + 1)
        columns = {"row": rows, "tp": counted[:, BOTH], "fp": counted[:, PREDICTED], "fn": counted[:, GOLD]}
        return pl.DataFrame(columns).select(pl.lit(self.mode.value, MODE).alias("mode"), pl.all())


@dataclass(frozen=True, slots=True)
class Matches:
    """Both sides compared in every mode."""

    by_mode: tuple[Matched, ...]

    def of(self, mode: Mode) -> pl.DataFrame:
        """The items of one mode."""
        return next(it.items for it in self.by_mode if it.mode is mode)

    def counts(self, *by: str, modes: Iterable[Mode] = Mode) -> pl.DataFrame:
        """The counts of several modes, one below the other."""
        return pl.concat([it.counts(*by) for it in self.by_mode if it.mode in modes])

    def by_chunk(self, rows: pl.Series) -> pl.DataFrame:
        """The counts of every mode for each chunk of `rows`: mode, row, tp, fp, fn."""
        return pl.concat([it.by_chunk(rows) for it in self.by_mode])


def matches(gold: Items, predicted: Items, keys: Keys) -> Matches:
    """Compare both sides as sets per chunk, in every mode.

    Each looser mode is made of the distinct keys of a stricter one. In directed modes the ends of a symmetric relation
    type are sorted; in `pair`, where types are not compared, a symmetric relation therefore counts as the pair in
    alphabetical order.
    """
    sides = ((gold.named(), GOLD), (predicted.named(), PREDICTED))
    named_typed = _distinct([it.entities.select(node("name"), "type", side=_bit(bit)) for it, bit in sides])
    names = _names(named_typed)
    typed_pairs = _distinct(
        [
            _sorted_where_symmetric(it.relations, keys).select(node("source"), node("target"), "type", side=_bit(bit))
            for it, bit in sides
        ]
    )
    pairs = _distinct([typed_pairs.lazy().select("source", "target", "side")])
    undirected = _distinct([pairs.lazy().with_columns(sorted_nodes("source", "target"))])
    with_ends = _with_ends(typed_pairs, names)
    by_mode = (
        Matched(Mode.NAME, names),
        Matched(Mode.NAME_TYPE, named_typed),
        Matched(Mode.PAIR_UNDIRECTED, undirected),
        Matched(Mode.PAIR, pairs),
        Matched(Mode.PAIR_TYPE, with_ends),
        Matched(Mode.PAIR_TYPE_ENTITY_TYPES, _same_end_types(with_ends)),
    )
    return Matches(by_mode)


def node(name: str) -> pl.Expr:
    """A name within its chunk as one number, which compares faster than two columns: row * 2**32 + code of the name."""
    return (pl.col("row").cast(pl.UInt64) * NODES + pl.col(name).to_physical()).alias(
        name if name != "name" else "node"
    )


def row_of(node: str) -> pl.Expr:
    """The row of a column of nodes."""
    return (pl.col(node) // NODES).cast(pl.Int64).alias("row")


def sorted_nodes(source: str, target: str) -> list[pl.Expr]:
    """Both ends of a relation in an order that does not depend on its direction."""
    return [pl.min_horizontal(source, target).alias(source), pl.max_horizontal(source, target).alias(target)]


def tally(of: pl.DataFrame, rows: pl.Series, kinds: int) -> npt.NDArray[np.int64]:
    """How often each of `kinds` occurs in each of `rows` (ascending): one line per row, one column per kind.

    `of` has a row and a kind, from 0. The rows of a batch are close together: counting in an array costs a tenth of
    grouping.
    """
    if rows.is_empty():
        return np.zeros((0, kinds), dtype=np.int64)
    row, kind = (it.to_numpy() for it in of)
    first, last = rows[0], rows[-1]
    counted = np.bincount((row - first) * kinds + kind, minlength=(last - first + 1) * kinds)
    by_row: npt.NDArray[np.int64] = counted.reshape(-1, kinds)[rows.to_numpy() - first]
    return by_row


NODES = 2**32


def _bit(side: int) -> pl.Expr:
    return pl.lit(side, pl.UInt8)


def _distinct(parts: Iterable[pl.LazyFrame]) -> pl.DataFrame:
    """Each key once, with the sides that have it; worked out at once, because looser modes build on it."""
    items = pl.concat(parts)
    key = [it for it in items.collect_schema() if it != "side"]
    return items.group_by(key).agg(pl.col("side").bitwise_or()).collect()


def _names(named_typed: pl.DataFrame) -> pl.DataFrame:
    """The distinct names: node, side, and the type that each side gives it (gold_type, predicted_type).

    A name with several types in a chunk counts as its first by alphabet. Types are numbered here in that order.
    """
    types = named_typed["type"].unique().drop_nulls().sort()
    rank = pl.col("type").replace_strict(types, pl.int_range(len(types), dtype=pl.UInt32, eager=True))
    given = {"gold_type": GOLD, "predicted_type": PREDICTED}
    return (
        named_typed.lazy()
        .select("node", "side", rank=rank)
        .group_by("node")
        .agg(
            pl.col("side").bitwise_or(),
            *(pl.when(_has(bit)).then("rank").min().alias(name) for name, bit in given.items()),
        )
        .collect()
    )


def _has(bit: int) -> pl.Expr:
    return pl.col("side") & bit > 0


def _sorted_where_symmetric(relations: pl.LazyFrame, keys: Keys) -> pl.LazyFrame:
    """The ends of symmetric relations in alphabetical order; the others as they are."""
    if not keys.symmetric:
        return relations
    symmetric = pl.col("type").is_in(sorted(keys.symmetric)).fill_null(value=False)
    swapped = pl.col("source") > pl.col("target")
    ends = [
        pl.when(swapped).then(other).otherwise(end).alias(end)
        for end, other in (("source", "target"), ("target", "source"))
    ]
    return pl.concat([relations.filter(~symmetric), relations.filter(symmetric).with_columns(ends)])


def _with_ends(typed_pairs: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Relations with what is known of their ends: for each end, the sides that have it, and the types they give it."""
    joined = typed_pairs.lazy()
    for end in ("source", "target"):
        about = names.lazy().rename(
            {"side": f"{end}_side", "gold_type": f"{end}_gold", "predicted_type": f"{end}_predicted"}
        )
        joined = joined.join(about, left_on=end, right_on="node", how="left")
    same = [pl.col(f"{end}_gold").eq_missing(pl.col(f"{end}_predicted")) for end in ("source", "target")]
    return joined.select(
        "source", "target", "type", "side", "source_side", "target_side", same_end_types=pl.all_horizontal(same)
    ).collect()


def _same_end_types(relations: pl.DataFrame) -> pl.DataFrame:
    """The relations, each apart for the two sides where these give other types to its ends.

    An end that is no entity of a side has no type there.
    """
    relations = relations.select("source", "target", "type", "side", "same_end_types")
    apart = (pl.col("side") == BOTH) & ~pl.col("same_end_types")
    split = relations.filter(apart)
    halves = [split.with_columns(side=_bit(bit)) for bit in (GOLD, PREDICTED)]
    return pl.concat([relations.filter(~apart), *halves]).drop("same_end_types")

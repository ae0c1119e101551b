"""What both sides say, compared as sets per chunk, in every mode."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

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


GOLD, PREDICTED, BOTH = (pl.lit(side, pl.UInt8) for side in (1, 2, 3))
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
    """Every distinct item of either side in one mode: row, the columns of its key, and side."""

    mode: Mode
    items: pl.DataFrame

    def counts(self, *by: str) -> pl.DataFrame:
        """True and false positives and false negatives by some of the columns: mode, by, tp, fp, fn."""
        side = pl.col("side")
        sums = [(side == it).sum().alias(name) for name, it in (("tp", BOTH), ("fp", PREDICTED), ("fn", GOLD))]
        counted = self.items.group_by(by).agg(sums) if by else self.items.select(sums)
        return counted.select(pl.lit(self.mode.value, MODE).alias("mode"), pl.all())


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


def matches(gold: Items, predicted: Items, keys: Keys) -> Matches:
    """Compare both sides as sets per chunk, in every mode.

    Each looser mode is made of the distinct keys of the stricter one. In directed modes the ends of a symmetric
    relation type are sorted; in `pair`, where types are not compared, a symmetric relation therefore counts as the pair
    in alphabetical order.
    """
    gold, predicted = gold.named(), predicted.named()
    named_typed = _distinct(_both(gold.entities, predicted.entities), "name", "type")
    strictest = _distinct(
        _both(_with_entity_types(gold, keys), _with_entity_types(predicted, keys)),
        *("source", "target", "type", "source_type", "target_type"),
    )
    typed_pairs = _distinct(strictest.lazy(), "source", "target", "type")
    pairs = _distinct(typed_pairs.lazy(), "source", "target")
    by_mode = (
        Matched(Mode.NAME, _distinct(named_typed.lazy(), "name")),
        Matched(Mode.NAME_TYPE, named_typed),
        Matched(
            Mode.PAIR_UNDIRECTED, _distinct(pairs.lazy().with_columns(sorted_ends(pl.lit(True))), "source", "target")
        ),
        Matched(Mode.PAIR, pairs),
        Matched(Mode.PAIR_TYPE, typed_pairs),
        Matched(Mode.PAIR_TYPE_ENTITY_TYPES, strictest),
    )
    return Matches(by_mode)


def _both(gold: pl.LazyFrame, predicted: pl.LazyFrame) -> pl.LazyFrame:
    return pl.concat([gold.with_columns(side=GOLD), predicted.with_columns(side=PREDICTED)])


def _distinct(items: pl.LazyFrame, *key: str) -> pl.DataFrame:
    """Each key of a chunk once, with the sides that have it; worked out at once, because looser modes build on it."""
    return items.group_by("row", *key).agg(pl.col("side").bitwise_or()).collect()


def _with_entity_types(side: Items, keys: Keys) -> pl.LazyFrame:
    """The side's relations, symmetric ones with sorted ends, with the type that the same side gives to each end.

    A name with several types in a chunk counts as its first by alphabet; a name that is no entity there has none.
    """
    types = side.entities.group_by("row", "name").agg(pl.col("type").min().alias("end_type"))
    relations = side.relations.with_columns(sorted_ends(pl.col("type").is_in(sorted(keys.symmetric))))
    for end in ("source", "target"):
        relations = relations.join(types.rename({"name": end, "end_type": f"{end}_type"}), on=["row", end], how="left")
    return relations


def sorted_ends(where: pl.Expr) -> list[pl.Expr]:
    """Source and target in alphabetical order, where `where` holds."""
    swap = where & (pl.col("source") > pl.col("target"))
    return [
        pl.when(swap).then("target").otherwise("source").alias("source"),
        pl.when(swap).then("source").otherwise("target").alias("target"),
    ]

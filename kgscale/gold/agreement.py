"""How far two annotations of the same chunks agree, and where they do not."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from kgscale.config import SchemaConfig
from kgscale.errors import UserError
from kgscale.formats.common import grounded
from kgscale.records import GOLD_SCHEMA, GoldChunk, to_table
from kgscale.score.batches import to_frame
from kgscale.score.items import Items, gold_aliases, items
from kgscale.score.keys import Keys
from kgscale.score.match import Mode, matches
from kgscale.score.metrics import F1
from kgscale.score.spans import ALIGNED, outcomes


@dataclass(frozen=True, slots=True)
class ModeF1:
    """F1 in one mode, the same whichever side counts as the gold; null where neither side has anything."""

    mode: str
    f1: float | None
    both: int
    only_first: int
    only_second: int


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa on the types of the mentions that both sides marked at overlapping places.

    (p_o - p_e) / (1 - p_e), where p_o is the share of these mentions with the same type, and p_e the share that two
    annotators with these frequencies of types would agree on by chance (Cohen 1960). It says nothing about mentions
    that only one side marked: texts have no countable set of things that nobody marked, so that kappa is undefined
    there, and F1 is what it tends to (Hripcsak and Rothschild 2005).
    """

    kappa: float | None
    """Null where chance alone agrees fully: no aligned mention, or one type everywhere on both sides."""
    observed: float | None
    expected: float | None
    aligned: int
    only_first: int
    only_second: int
    without_offsets: int
    """Mentions of either side that are not in the text; aligned with nothing."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One thing that the two sides do not say alike; names and types as they are compared."""

    chunk_id: str
    kind: str
    """`entity`, `type` (the same entity with other types), `relation`, `relation type` (the same ends)."""
    what: str
    first: str
    """What the first side says; empty for nothing."""
    second: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two gold sets beside each other."""

    chunks: int
    only_first: list[str]
    """Chunk ids that the second set does not have; they are left out."""
    only_second: list[str]
    other_texts: list[str]
    """Chunk ids that have another text on each side, so that their offsets mean nothing to each other."""
    modes: list[ModeF1]
    kappa: Kappa
    disagreements: list[Disagreement]


def agreement(first: Sequence[GoldChunk], second: Sequence[GoldChunk], schema: SchemaConfig) -> Agreement:
    """Compare the chunks that both sets have, by the keys, aliases and symmetric types of a schema.

    Mentions without offsets count where their name first occurs. Raises `UserError` if no chunk is in both.
    """
    ones, others = ({it.chunk_id: it for it in side} for side in (first, second))
    shared = [it for it in ones if it in others]
    if not shared:
        raise UserError("the two gold sets have no chunk in common", hint="they are joined by chunk_id")
    keys = Keys.of(schema)
    sides = [_rows([_grounded(side[it]) for it in shared]) for side in (ones, others)]
    aliases = gold_aliases(pl.concat(sides), keys)
    one, other = (items(rows, keys).through(aliases.lazy()).collected() for rows in sides)
    return Agreement(
        len(shared),
        [it for it in ones if it not in others],
        [it for it in others if it not in ones],
        [it for it in shared if None not in (a := ones[it].text, b := others[it].text) and a != b],
        _modes(one, other, keys),
        _kappa(one, other),
        list(_disagreements(one, other, shared, keys)),
    )


def _grounded(chunk: GoldChunk) -> GoldChunk:
    return chunk if chunk.text is None else grounded(chunk, chunk.text)


def _rows(chunks: Sequence[GoldChunk]) -> pl.DataFrame:
    table = to_table((replace(it, text=None) for it in chunks), GOLD_SCHEMA)
    return to_frame(table).with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))


def _modes(one: Items, other: Items, keys: Keys) -> list[ModeF1]:
    counts = matches(one, other, keys).counts().with_columns(F1)
    found = {row["mode"]: row for row in counts.iter_rows(named=True)}
    rows = [(mode.value, found[mode.value]) for mode in Mode]
    return [ModeF1(mode, it["f1"], it["tp"], it["fn"], it["fp"]) for mode, it in rows]


def _kappa(one: Items, other: Items) -> Kappa:
    found = outcomes(one, other).with_columns(pl.col("type", "predicted_type", "outcome").cast(pl.String))
    aligned = found.filter(pl.col("outcome").is_in([it.value for it in ALIGNED]))
    pairs = Counter(aligned.select("type", "predicted_type").iter_rows())
    kappa, observed, expected = cohen(pairs)
    lost = Counter(found["outcome"].to_list())
    return Kappa(
        kappa,
        observed,
        expected,
        aligned.height,
        lost["missed"],
        lost["spurious"],
        sum(it.entities.filter(pl.col("start").is_null()).collect().height for it in (one, other)),
    )


def cohen(pairs: Mapping[tuple[str, str], int]) -> tuple[float | None, float | None, float | None]:
    """Cohen's kappa, observed and expected agreement, from how often the two annotators chose each pair of labels."""
    total = sum(pairs.values())
    if not total:
        return None, None, None
    observed = sum(count for (a, b), count in pairs.items() if a == b) / total
    left, right = Counter[str](), Counter[str]()
    for (a, b), count in pairs.items():
        left[a] += count
        right[b] += count
    expected = sum(left[it] * right[it] for it in left) / total**2
    # All in one label on both sides: the count is exact where the float might not be.
    certain = sum(left[it] * right[it] for it in left) == total**2
    return None if certain else (observed - expected) / (1 - expected), observed, expected


Said = dict[tuple[int, str], set[str]]
"""Types by chunk and what has them."""


def _disagreements(one: Items, other: Items, ids: Sequence[str], keys: Keys) -> Iterator[Disagreement]:
    pairs = [(_entities(it), _relations(it, keys)) for it in (one, other)]
    for index, (whole, kind) in enumerate((("entity", "type"), ("relation", "relation type"))):
        first, second = pairs[0][index], pairs[1][index]
        for key in sorted({**first, **second}):
            mine, theirs = first.get(key, set()), second.get(key, set())
            if mine != theirs:
                told = [", ".join(sorted(it or "(no type)" for it in side)) for side in (mine, theirs)]
                yield Disagreement(ids[key[0]], kind if mine and theirs else whole, key[1], *told)


def _entities(of: Items) -> Said:
    frame = of.named().entities.select("row", pl.col("name", "type").cast(pl.String)).collect()
    return _gathered((row, name, kind) for row, name, kind in frame.iter_rows())


def _relations(of: Items, keys: Keys) -> Said:
    frame = of.named().relations.select("row", pl.col("source", "target", "type").cast(pl.String)).collect()

    def ends(source: str, target: str, kind: str) -> str:
        if kind in keys.symmetric:
            return " ↔ ".join(sorted((source, target)))
        return f"{source} → {target}"

    return _gathered((row, ends(source, target, kind), kind) for row, source, target, kind in frame.iter_rows())


def _gathered(said: Iterable[tuple[int, str, str]]) -> Said:
    found: Said = {}
    for row, what, kind in said:
        found.setdefault((row, what), set()).add(kind)
    return found

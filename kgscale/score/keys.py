"""The one normal form in which names and types are compared, on both sides."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from kgscale.config import Aliases, RelationType, SchemaConfig


def normal(text: pl.Expr) -> pl.Expr:
    """The normal form of a text column: NFKC, lower case, inner white space collapsed, stripped.

    Lower case is not case folding: `ß` stays apart from `ss`. A text of white space alone becomes the empty string.
    """
    # Printable ASCII with single spaces needs lower case alone, which costs a third.
    odd = text.str.contains(r"[^ -~]|  ")
    full = pl.when(odd).then(text).str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\s+", " ")
    return pl.coalesce(full, text.str.to_lowercase()).str.strip_chars()


def normals(texts: Iterable[str]) -> list[str]:
    """The normal forms of a few texts, by the same expression that the tables use."""
    column = pl.Series("text", list(texts), dtype=pl.String)
    return column.to_frame().select(normal(pl.col("text")))["text"].to_list()


def _categories() -> pl.Categorical:
    return pl.Categorical(pl.Categories.random())


@dataclass(slots=True)
class Coder:
    """Gives texts their keys; each distinct text is normalised once, in whichever column of either side it stands."""

    aliases: Mapping[str, str]
    code: pl.Categorical
    """The type of the keys."""
    _texts: pl.Categorical = field(default_factory=_categories)
    _keys: pl.Series | None = None
    """The key of each text, by its number in `_texts`."""
    _held: pl.Series | None = None
    """Keeps the numbers of the texts, which Polars forgets with the last column that has them."""

    def of(self, texts: pl.Series) -> pl.Series:
        """The keys of a column of texts."""
        coded = texts.cast(self._texts)
        self._held = coded.clear()
        number = coded.to_physical()
        known = 0 if self._keys is None else len(self._keys)
        new = coded.filter(number >= known).unique()
        if len(new):
            # Texts are numbered in the order in which they come up, so the new ones follow the known ones.
            new = new.gather(new.to_physical().arg_sort())
            assert new.to_physical()[-1] == known + len(new) - 1
            key = normal(pl.col("text")).replace(list(self.aliases), list(self.aliases.values())).cast(self.code)
            keys = new.cast(pl.String).alias("text").to_frame().select(key).to_series()
            self._keys = keys if self._keys is None else pl.concat([self._keys, keys])
        if self._keys is None:
            return pl.Series(texts.name, [None] * len(texts), dtype=self.code)
        return self._keys.gather(number).alias(texts.name)


@dataclass(frozen=True, slots=True)
class Keys:
    """How a schema's names and types become keys; every key in here is in normal form already.

    Key columns are categories of their own, so that keys are compared as numbers but ordered as text.
    """

    names: Mapping[str, str]
    """Name aliases: key to key; an alias is followed once, never in a chain."""
    entity_types: Mapping[str, str]
    relation_types: Mapping[str, str]
    known_entity_types: frozenset[str]
    """The types that the schema declares; others are off-schema."""
    known_relation_types: frozenset[str]
    symmetric: frozenset[str]
    """Relation types whose source and target may be swapped."""
    name: Coder
    entity_type: Coder
    relation_type: Coder

    @classmethod
    def of(cls, schema: SchemaConfig) -> "Keys":
        """The keys of a config's schema."""
        aliases: Aliases = schema.aliases
        relations: Mapping[str, RelationType] = schema.relation_types
        names, entity_types, relation_types = (
            _alias_keys(it) for it in (aliases.names, aliases.entity_types, aliases.relation_types)
        )
        code = _categories()
        return cls(
            names,
            entity_types,
            relation_types,
            known_entity_types=frozenset(normals(schema.entity_types)),
            known_relation_types=frozenset(normals(relations)),
            symmetric=frozenset(normals(name for name, it in relations.items() if it.symmetric)),
            name=Coder(names, code),
            entity_type=Coder(entity_types, code),
            relation_type=Coder(relation_types, code),
        )

    def fresh(self) -> "Keys":
        """The same keys with no text in use: what one batch has seen is forgotten with it."""
        code = _categories()
        return replace(
            self,
            name=Coder(self.names, code),
            entity_type=Coder(self.entity_types, code),
            relation_type=Coder(self.relation_types, code),
        )


def _alias_keys(aliases: Mapping[str, str]) -> dict[str, str]:
    return dict(zip(normals(aliases), normals(aliases.values()), strict=True))

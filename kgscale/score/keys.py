"""The one normal form in which names and types are compared, on both sides."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from kgscale.config import Aliases, RelationType, SchemaConfig


def normal(text: pl.Expr) -> pl.Expr:
    """The normal form of a text column: NFKC, lower case, inner white space collapsed, stripped.

    Lower case is not case folding: `ß` stays apart from `ss`. A text of white space alone becomes the empty string.
    """
    return text.str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()


def normals(texts: Iterable[str]) -> list[str]:
    """The normal forms of a few texts, by the same expression that the tables use."""
    column = pl.Series("text", list(texts), dtype=pl.String)
    return column.to_frame().select(normal(pl.col("text")))["text"].to_list()


@dataclass(frozen=True, slots=True)
class Keys:
    """How a schema's names and types become keys; every key in here is in normal form already."""

    names: Mapping[str, str]
    """Name aliases: key to key."""
    entity_types: Mapping[str, str]
    relation_types: Mapping[str, str]
    known_entity_types: frozenset[str]
    """The types that the schema declares; others are off-schema."""
    known_relation_types: frozenset[str]
    symmetric: frozenset[str]
    """Relation types whose source and target may be swapped."""
    code: pl.Categorical = field(default_factory=lambda: pl.Categorical(pl.Categories.random()))
    """The type of key columns: categories of their own, so that keys are compared as numbers but ordered as text."""

    @classmethod
    def of(cls, schema: SchemaConfig) -> "Keys":
        """The keys of a config's schema; an alias is followed once, never in a chain."""
        aliases: Aliases = schema.aliases
        relations: Mapping[str, RelationType] = schema.relation_types
        return cls(
            names=_alias_keys(aliases.names),
            entity_types=_alias_keys(aliases.entity_types),
            relation_types=_alias_keys(aliases.relation_types),
            known_entity_types=frozenset(normals(schema.entity_types)),
            known_relation_types=frozenset(normals(relations)),
            symmetric=frozenset(normals(name for name, it in relations.items() if it.symmetric)),
        )

    def fresh(self) -> "Keys":
        """The same keys with no category in use: what one batch has seen is forgotten with it."""
        return replace(self, code=pl.Categorical(pl.Categories.random()))

    def of_names(self, *texts: pl.Series) -> "Lookup":
        """The keys of the entity names in columns of type `code`."""
        return self._lookup(texts, self.names)

    def of_entity_types(self, labels: pl.Series) -> "Lookup":
        """The keys of the entity types in a column of type `code`."""
        return self._lookup((labels,), self.entity_types)

    def of_relation_types(self, labels: pl.Series) -> "Lookup":
        """The keys of the relation types in a column of type `code`."""
        return self._lookup((labels,), self.relation_types)

    def _lookup(self, texts: Iterable[pl.Series], aliases: Mapping[str, str]) -> "Lookup":
        distinct = pl.concat([it.rename("text") for it in texts]).unique()
        key = normal(pl.col("text").cast(pl.String)).replace(list(aliases), list(aliases.values()))
        return Lookup(distinct, distinct.to_frame().lazy().select(key.cast(self.code)).collect().to_series())


@dataclass(frozen=True, slots=True)
class Lookup:
    """The key of each distinct text: normalised once, however often it occurs."""

    text: pl.Series
    key: pl.Series

    def of(self, column: str) -> pl.Expr:
        """The keys of a column, all of whose values must be in `text`."""
        return pl.col(column).replace_strict(self.text, self.key)


def _alias_keys(aliases: Mapping[str, str]) -> dict[str, str]:
    return dict(zip(normals(aliases), normals(aliases.values()), strict=True))

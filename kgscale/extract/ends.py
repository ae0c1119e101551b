"""Relations between entities of types that the schema does not let them join: left out of the row, and counted."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kgscale.config import RelationType, SchemaConfig
from kgscale.records import Entity, Extraction, GoldEntity, Relation
from kgscale.text import normal_form


@dataclass(frozen=True)
class Ends:
    """What the schema says of the ends of relations, in the normal form in which scores compare types."""

    entity_types: Mapping[str, str]
    """The schema's entity types by their normal form."""
    relation_types: Mapping[str, RelationType]
    """The relation types that name their ends, by their normal form."""

    @classmethod
    def of(cls, schema: SchemaConfig) -> "Ends":
        """The ends of a config's schema."""
        return cls(
            {normal_form(name): name for name in schema.entity_types},
            {normal_form(name): it for name, it in schema.relation_types.items() if it.source or it.target},
        )

    def without_misfits(self, row: Extraction) -> Extraction:
        """The row without its misfits."""
        misfits = self.misfits(row.entities, row.relations)
        kept = [it for it in row.relations if it not in misfits] if misfits else row.relations
        return replace(row, relations=kept, relations_left_out=row.relations_left_out + len(row.relations) - len(kept))

    def misfits(self, entities: Iterable[Entity | GoldEntity], relations: Iterable[Relation]) -> list[Relation]:
        """The relations of a chunk whose ends are of other types than `source` and `target` of their type name.

        An end has every type that the chunk's entities of that name have. One that is no entity of the chunk, or that
        has no type of the schema, is let pass: aliases are the scores' affair, and may change when the rows are there.
        """
        if not self.relation_types:
            return []
        known: defaultdict[str, set[str]] = defaultdict(set)
        for entity in entities:
            if kind := self.entity_types.get(normal_form(entity.type)):
                known[normal_form(entity.text)].add(kind)
        return [it for it in relations if not self._fits(it, known)]

    def _fits(self, relation: Relation, known: Mapping[str, Collection[str]]) -> bool:
        of = self.relation_types.get(normal_form(relation.type))
        if of is None:
            return True
        source, target = (known.get(normal_form(name)) for name in (relation.source, relation.target))
        forward = _may_be(source, of.source) and _may_be(target, of.target)
        return forward or (of.symmetric and _may_be(target, of.source) and _may_be(source, of.target))


def _may_be(found: Collection[str] | None, allowed: Collection[str]) -> bool:
    return not found or not allowed or not set(allowed).isdisjoint(found)

"""What is to be extracted: the types, and other spellings of them."""

from typing import Any, Self

from pydantic import field_validator, model_validator

from kgscale.config.section import Section, UnknownNameError


class RelationType(Section):
    """One relation type of the schema."""

    description: str | None = None
    """What the relation means, for the prompt."""
    symmetric: bool = False
    """Whether source and target may be swapped."""
    source: tuple[str, ...] = ()
    """Entity types that the source may have, one or a list; any where none is named."""
    target: tuple[str, ...] = ()
    """The same of the target. What an engine relates against this is left out of its rows, and counted."""

    @field_validator("source", "target", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, str | list | tuple):
            raise ValueError(f"the name of an entity type, or a list of names (it is {value!r})")
        return (value,) if isinstance(value, str) else value or ()


class Aliases(Section):
    """Other spellings, mapped to the ones that the schema uses; applied to both sides when scoring."""

    entity_types: dict[str, str] = {}
    """For example `ORG: organization`."""
    relation_types: dict[str, str] = {}
    """For example `employed_by: works_for`."""
    names: dict[str, str] = {}
    """For example `PostgreSQL: Postgres`."""


class SchemaConfig(Section):
    """What is to be extracted."""

    entity_types: dict[str, str | None] = {
        "organization": "companies and institutions",
        "person": None,
        "location": "cities, countries and regions",
        "product": "devices, programs and services",
        "technology": "languages, protocols, formats and methods",
        "date": None,
    }
    """Entity types, each with an optional description; a plain list works too."""
    relation_types: dict[str, RelationType] = {
        "founded_by": RelationType(),
        "works_for": RelationType(),
        "located_in": RelationType(),
        "developed_by": RelationType(),
        "uses": RelationType(),
        "part_of": RelationType(),
        "partner_of": RelationType(symmetric=True),
    }
    """Relation types, each with `description`, `symmetric`, `source` and `target`; a plain list works too."""
    aliases: Aliases = Aliases()

    @field_validator("entity_types", mode="before")
    @classmethod
    def _entity_list(cls, value: Any) -> Any:
        return _from_list(value, None)

    @field_validator("relation_types", mode="before")
    @classmethod
    def _relation_list(cls, value: Any) -> Any:
        value = _from_list(value, {})
        if not isinstance(value, dict):
            return value
        return {
            name: {"description": it} if isinstance(it, str) else {} if it is None else it for name, it in value.items()
        }

    @field_validator("entity_types")
    @classmethod
    def _some(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not value:
            raise ValueError("at least one type is needed")
        return value

    @field_validator("entity_types", "relation_types")
    @classmethod
    def _names(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if not name.strip():
                raise ValueError("a type needs a name")
        return value

    @model_validator(mode="after")
    def _ends(self) -> Self:
        for name, relation in self.relation_types.items():
            for end in ("source", "target"):
                for kind in getattr(relation, end):
                    if kind not in self.entity_types:
                        known = ", ".join(self.entity_types)
                        field = ("schema", "relation_types", name, end)
                        raise UnknownNameError(field, f"no entity type is named {kind!r}; there are: {known}")
        return self


def _from_list(value: Any, default: Any) -> Any:
    if not isinstance(value, list):
        return value
    for at, name in enumerate(value):
        if not isinstance(name, str):
            raise ValueError(f"a type is named by a text (it is {name!r})")
        if name in value[:at]:
            raise ValueError(f"{name!r} stands twice")
    return dict.fromkeys(value, default)

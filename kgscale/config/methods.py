"""Ways of extracting, built from the engines."""

from typing import Literal

from kgscale.config.section import Section, Share


class Fallback(Section):
    """When a chunk goes to an LLM for its entities too, because GLiNER's answer is uncertain."""

    engine: str = "llm"
    """The LLM that takes over."""
    when: tuple[Literal["empty", "low_score", "truncated"], ...] = ("empty", "low_score", "truncated")
    """No entity found; mean score below `min_score`; answer cut."""
    min_score: Share = 0.6
    """Below this mean score of GLiNER's entities a chunk is uncertain."""


class MethodConfig(Section):
    """A way of extracting: which engine finds the entities, which the relations."""

    entities: str
    """Name of an engine."""
    relations: str | None = None
    """Name of an LLM engine, or of the GLiNER engine of `entities` if its model finds relations; the same as `entities`
    asks for both at once; null for entities alone."""
    fallback: Fallback | None = None
    """LLM fallback on uncertain chunks, for GLiNER entities."""

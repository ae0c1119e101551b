"""When a candidate may replace the baseline."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kgscale.config.section import Section, Share

Points = Annotated[float, Field(ge=0, le=100)]


class AllowedDrop(Section):
    """How far a score may fall below the baseline's, in points (hundredths)."""

    minimum: Points
    """From here on the candidate is at best worth a closer look."""
    recommended: Points
    """What the LightRAG guide recommends to stay below; reported."""

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.recommended > self.minimum:
            raise ValueError("`recommended` is the stricter of the two: it must not be above `minimum`")
        return self


class Threshold(Section):
    """What is expected of a score; a score without a threshold is only shown."""

    floor: Share | None = None
    """What a candidate needs (0 to 1), unless it is no worse than the baseline."""
    drop: AllowedDrop | None = None
    """How far it may fall below the baseline's."""


class RagThresholds(Section):
    """Scores of answers by retrieval on the graph, from `rag.json` in the run; they do not enter the matrix."""

    faithfulness: Threshold = Threshold(floor=0.80)
    """Share of an answer's statements that the retrieved context supports."""
    answer_relevance: Threshold = Threshold(floor=0.85)
    """How far an answer is about its question."""
    context_recall: Threshold = Threshold(floor=0.75, drop=AllowedDrop(minimum=10, recommended=5))
    """Share of the true answer that the retrieved context supports."""
    context_precision: Threshold = Threshold(floor=0.70)
    """How far up in the retrieved context the useful parts are."""
    ragas: Threshold = Threshold(floor=0.75, drop=AllowedDrop(minimum=5, recommended=2))
    """The mean of the four."""


Action = Literal["use", "look", "keep"]


class CompareConfig(Section):
    """The question: may `candidate` replace `baseline`? The numbers are the LightRAG guide's."""

    baseline: str = "llm"
    """The method that is trusted."""
    candidate: str = "hybrid"
    """The method that may replace it."""
    entity_mode: Literal["name", "name+type"] = "name+type"
    """When an entity counts as found."""
    relation_mode: Literal[
        "pair_undirected", "pair", "pair+type", "pair+type+entity_types", "directional", "relaxed", "strict"
    ] = "pair+type"
    """When a relation counts as found; the last three are the guide's names for the first three."""
    drop_steps: tuple[float, ...] = (2, 5, 10)
    """Borders between the rows of `matrix`: points of F1 lost, the larger of the entity and the relation drop."""
    speed_steps: tuple[float, ...] = (2, 5, 10)
    """Borders between the columns of `matrix`: how many times faster the candidate is."""
    matrix: tuple[tuple[Action, ...], ...] = (
        ("use", "use", "use", "use"),
        ("look", "use", "use", "use"),
        ("keep", "look", "use", "use"),
        ("keep", "keep", "look", "use"),
    )
    """What to do: `use` the candidate, `look` closer, or `keep` the baseline."""
    entity_drop: AllowedDrop = AllowedDrop(minimum=10, recommended=5)
    relation_drop: AllowedDrop = AllowedDrop(minimum=8, recommended=3)
    entity_floor: Share = 0.80
    """Entity F1 that a candidate needs, unless it is no worse than the baseline."""
    relation_floor: Share = 0.75
    """Relation F1 that a candidate needs, unless it is no worse than the baseline."""
    rag: RagThresholds = RagThresholds()
    min_coverage: Share = 0.95
    """No verdict where a smaller share of the gold chunks has a usable answer, of either method."""

    @model_validator(mode="after")
    def _shape(self) -> Self:
        for steps in (self.drop_steps, self.speed_steps):
            if list(steps) != sorted(set(steps)):
                raise ValueError("`drop_steps` and `speed_steps` must rise")
        if [len(row) for row in self.matrix] != [len(self.speed_steps) + 1] * (len(self.drop_steps) + 1):
            shape = f"{len(self.drop_steps) + 1} rows of {len(self.speed_steps) + 1}"
            raise ValueError(f"`matrix` needs {shape}: one more than the steps")
        return self

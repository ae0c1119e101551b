"""The labels that GLiNER is asked for: worded, and cut into prompts that leave the text its room."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kgscale.errors import UserError

LABELS_PER_PASS = 25
"""Most labels of a kind in one prompt where the model does not say what it was trained with (`max_types`)."""
PROMPT_SHARE = 0.4
"""Largest share of the encoder's input that labels may take from the text."""


@dataclass(frozen=True)
class Prompt:
    """What is asked for at once."""

    entities: list[str]
    relations: list[str]


class Prompts:
    """The types of a schema as one model is asked for them.

    Most schemas need one prompt. Where entity and relation types take more, every group of entity types is asked for
    with every group of relation types. A relation is found between entities of one group: so entity types are kept
    together as long as that leaves room for a relation type beside them.
    """

    def __init__(
        self,
        entity_types: Iterable[str],
        relation_types: Iterable[str],
        labels: Mapping[str, str],
        *,
        cost: Callable[[str], int],
        room: int,
        most: int | None,
    ) -> None:
        """Word the types, by `labels` where these have a wording, and group them.

        `cost` tells the tokens that a label takes, `room` is the tokens for all labels of a prompt, and `most` the
        largest number of one kind. Raises `UserError` for two types of one wording, and for one that is too long.
        """
        self.entity_of = _worded("entity", entity_types, lambda name: labels.get(name, name))
        """The entity type that each wording means."""
        self.relation_of = _worded("relation", relation_types, lambda it: labels.get(it, relation_wording(it)))
        """The relation type that each wording means."""
        entities, relations = list(self.entity_of), list(self.relation_of)
        most = most or LABELS_PER_PASS
        whole = sum(map(cost, entities))
        together = len(entities) <= most and whole + max(map(cost, relations), default=0) <= room
        of_entities = room if together or not relations else room // 2
        of_relations = room - whole if together else room - of_entities
        groups = (
            _group("entity", entities, of_entities, most, cost),
            _group("relation", relations, of_relations, most, cost),
        )
        self.passes = [Prompt(some, others) for some in groups[0] for others in groups[1]]
        self.tokens = max(sum(map(cost, (*it.entities, *it.relations))) for it in self.passes)
        """Tokens that the labels of the longest prompt take."""


def relation_wording(name: str) -> str:
    """How a model is asked for a relation type where the engine's `labels` do not say; training asks so, too."""
    return name.replace("_", " ")


def _worded(kind: str, names: Iterable[str], wording: Callable[[str], str]) -> dict[str, str]:
    meant: dict[str, str] = {}
    for name in names:
        label = wording(name)
        if label in meant:
            raise UserError(
                f"{meant[label]!r} and {name!r} have the same wording for GLiNER, {label!r}",
                hint=f"give each {kind} type its own under the engine's `labels`",
            )
        meant[label] = name
    return meant


def _group(kind: str, labels: list[str], room: int, most: int, cost: Callable[[str], int]) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    taken = 0
    for label in labels:
        tokens = cost(label)
        if tokens > room:
            raise UserError(
                f"the {kind} type {label[:60]!r} takes {tokens} tokens, more than GLiNER can read ({room})",
                hint="give it a shorter wording under the engine's `labels`",
            )
        if groups[-1] and (taken + tokens > room or len(groups[-1]) >= most):
            groups.append([])
            taken = 0
        groups[-1].append(label)
        taken += tokens
    return groups

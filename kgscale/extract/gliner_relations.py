"""What a GLiNER with a relation part says of a window, and what that makes of a whole chunk."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgscale.errors import UserError
from kgscale.extract.gliner_faster import pair_scores, without_pairs
from kgscale.records import Entity, Relation

Place = tuple[int, int]
"""Start and end of an entity in the text, in characters, end exclusive."""


@dataclass(frozen=True, slots=True)
class Link:
    """A relation between two places of a text; `type` is the model's wording, or the type that it means."""

    source: Place
    target: Place
    type: str
    score: float


class RelationReader:
    """Runs the batches of a model with a relation part, whose forward pass it may change."""

    def __init__(self, gliner: Any, threshold: float, relation_threshold: float) -> None:
        """Take a model on its device; what scores at most a threshold is left out."""
        self._gliner = gliner
        self._threshold, self._relation_threshold = threshold, relation_threshold
        self._scores_pairs = _scores_pairs(gliner)
        if self._scores_pairs:
            without_pairs(gliner.model)

    def read(self, batch: dict[str, Any]) -> tuple[list[Any], list[list[tuple[int, str, int, float]]]]:
        """The spans of each text of a collated batch, and its relations by the positions of their spans."""
        gliner = self._gliner
        output = gliner.run_batch(batch, threshold=self._threshold)
        spans, links = gliner.decode_batch(
            output, batch, threshold=self._threshold, relation_threshold=self._relation_threshold
        )
        if self._scores_pairs and batch["rel_id_to_classes"]:
            links = self._links(output, spans, list(batch["rel_id_to_classes"].values()))
        return spans, links

    def _links(self, output: Any, spans: Sequence[Any], labels: list[str]) -> list[list[tuple[int, str, int, float]]]:
        import torch

        links: list[list[tuple[int, str, int, float]]] = [[] for _ in spans]
        several = [i for i, them in enumerate(spans) if len(them) > 1]
        if not several:
            return links
        device = output.words_embedding.device
        places = [torch.tensor([(it.start, it.end) for it in spans[i]], device=device) for i in several]
        with torch.inference_mode():
            scored = pair_scores(
                self._gliner.model, output.words_embedding[several], places, output.rel_prompts_embedding[several]
            )
            for i, logits in zip(several, scored, strict=True):
                scores = logits.float().sigmoid()
                for head, tail, label in (scores > self._relation_threshold).nonzero().tolist():
                    if head != tail:
                        links[i].append((head, labels[label], tail, float(scores[head, tail, label])))
        return links


def has_relations(gliner: Any) -> bool:
    """Whether a loaded model has a relation part."""
    return getattr(gliner.config, "relations_layer", None) is not None


def refuse_without_relations(model: str, found: Path | str) -> None:
    """Raise `UserError` if the model is in a directory whose configuration tells of no relation part.

    Of a model on a hub this is known when a worker has loaded it.
    """
    if isinstance(found, str):
        return
    try:
        settings = json.loads((found / "gliner_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # Loading it tells what is wrong.
    if settings.get("relations_layer") is None:
        raise entities_only(model)


def entities_only(model: str) -> UserError:
    """The error that says that a model finds no relations."""
    return UserError(
        f"the GLiNER {model} finds entities only, and a method wants its relations",
        hint="name a GLiNER with a relation part, such as gliner-relex-minilm, or an LLM engine for `relations`",
    )


def _scores_pairs(gliner: Any) -> bool:
    """Whether the model scores every pair of entities as `pair_scores` does; others have their own ways."""
    from gliner.modeling.base import UniEncoderTokenRelexModel

    # Compiled or exported models, and other classes, keep theirs.
    return (
        type(gliner.model) is UniEncoderTokenRelexModel
        and gliner.config.relations_layer == "none"
        and hasattr(gliner.model, "pair_rep_layer")
    )


def relations_of(entities: Iterable[Entity], links: Iterable[Link], symmetric: Collection[str]) -> list[Relation]:
    """The relations of a chunk between the entities that it has been found to hold, each once, in order of the text.

    A pair of names may be linked at several places and in several windows: the best score stays, and of the two
    directions of a `symmetric` type the better one. A name is not related to itself.
    """
    name = {(it.start, it.end): it.text for it in entities}
    best: dict[tuple[str, str, str], Link] = {}
    for it in sorted(links, key=lambda it: (-it.score, it.source, it.target)):
        source, target = name.get(it.source), name.get(it.target)
        if source is None or target is None or source == target:
            continue
        if it.type in symmetric and (target, source, it.type) in best:
            continue
        best.setdefault((source, target, it.type), it)
    ordered = sorted(best.items(), key=lambda pair: (pair[1].source, pair[1].target, pair[1].type))
    return [Relation(source, target, kind, it.score) for (source, target, kind), it in ordered]

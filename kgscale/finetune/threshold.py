"""Choose the score from which a GLiNER's entities count, on held-out examples, and build it into the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgscale.finetune.examples import Example
from kgscale.finetune.sampling import fixed

if TYPE_CHECKING:
    from torch import Tensor

CANDIDATES = tuple(round(0.1 + 0.025 * i, 3) for i in range(29))
BATCH = 16
BUILT_IN = 0.5
LAST_BIAS = "scorer.out_mlp.3.bias"
# Their spans are not complete for any type, so precision on them means nothing.
INCOMPLETE = frozenset({"tekgen"})


@dataclass(frozen=True)
class Chosen:
    """A threshold and what it gives on the held-out texts, micro-averaged."""

    threshold: float
    precision: float
    recall: float
    f1: float


def choose_threshold(gliner: Any, examples: Sequence[Example], candidates: Sequence[float] = CANDIDATES) -> Chosen:
    """The candidate with the best micro F1 on `examples`, each asked with all labels of its source.

    What counts is that span and label are both right.
    """
    scores: list[tuple[float, bool]] = []
    gold = 0
    items = (fixed(example) for example in examples if example.source not in INCOMPLETE)
    ordered = sorted(items, key=lambda item: len(item["tokenized_text"]))
    for at in range(0, len(ordered), BATCH):
        batch = ordered[at : at + BATCH]
        right = [{tuple(entity) for entity in item["ner"]} for item in batch]
        gold += sum(map(len, right))
        for found, wanted in zip(predict(gliner, batch, min(candidates)), right, strict=True):
            scores += [(span.score, (span.start, span.end, span.entity_type) in wanted) for span in found]
    return best_threshold(scores, gold, candidates)


def best_threshold(scores: Sequence[tuple[float, bool]], gold: int, candidates: Sequence[float] = CANDIDATES) -> Chosen:
    """The candidate with the best F1, given each found item's score and whether it is right, and how many are to find.

    Of equals the lowest is taken.
    """
    return max((_at(threshold, scores, gold) for threshold in candidates), key=lambda chosen: chosen.f1)


def predict(gliner: Any, items: Sequence[dict[str, Any]], threshold: float) -> list[list[Any]]:
    """The spans (start, end, entity_type, score) that `gliner` finds in items of its training format, by their labels.

    Spans are chosen greedily by score, so those above a higher threshold are what that threshold would have given.
    """
    labels = [item["ner_labels"] for item in items]
    batch = gliner.collate_batch([{**item, "ner": []} for item in items], labels, gliner.create_collator())
    return gliner.decode_batch(gliner.run_batch(batch, threshold=threshold), batch, threshold=threshold)  # type: ignore[no-any-return]


def build_in(learnt: dict[str, Tensor], threshold: float) -> dict[str, Tensor]:
    """The learnt weights of a token-level model, shifted so that `threshold` becomes gliner's default of 0.5.

    An entity's score is the least of its words' sigmoids, and one layer's biases enter all: the order of scores stays.
    """
    shift = math.log(threshold / (1 - threshold))
    bias = learnt[LAST_BIAS]
    return {**learnt, LAST_BIAS: (bias.float() - shift).to(bias.dtype)}


def _at(threshold: float, scores: Sequence[tuple[float, bool]], gold: int) -> Chosen:
    kept = [right for score, right in scores if score >= threshold]
    hits = sum(kept)
    precision, recall = hits / max(1, len(kept)), hits / max(1, gold)
    return Chosen(threshold, precision, recall, 2 * precision * recall / max(1e-9, precision + recall))

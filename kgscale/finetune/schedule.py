"""How a GLiNER is trained: the recipe, which texts each step sees, and the learning rate at each step."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

SORTED_TOGETHER = 50  # batches; enough to even lengths out, few enough to keep the order random


@dataclass(frozen=True)
class Recipe:
    """How to train; the defaults are those of the model that kgscale ships."""

    steps: int = 1600
    batch: int = 16
    head_rate: float = 1e-3
    """The learning rate of everything but the encoder."""
    rate: float = 1e-3
    """The learning rate of the encoder, or of its adapters."""
    warmup: float = 0.06
    """Share of the steps in which the rates rise."""
    weight_decay: float = 0.01
    rank: int = 28
    """Of the adapters on the encoder; 0 trains all weights."""
    untouched: float = 0.0
    """Share of the encoder's blocks, from the input on, that get no adapter: this makes a step quicker."""
    clip: float = 1.0
    save_every: int = 200
    evaluate_every: int = 0
    """Steps between two evaluations; 0 for none."""
    patience: int = 0
    """Evaluations in a row without a better F1 after which training stops; 0 for all steps."""
    seed: int = 7
    bf16: bool = True


def plan(lengths: Sequence[int], recipe: Recipe) -> list[list[int]]:
    """The text numbers of each step: passes in random order, batches of like length, the same for the same seed."""
    rng = random.Random(recipe.seed)  # noqa: S311
    batches: list[list[int]] = []
    while len(batches) < recipe.steps:
        order = rng.sample(range(len(lengths)), len(lengths))
        block = recipe.batch * SORTED_TOGETHER
        for at in range(0, len(order), block):
            alike = sorted(order[at : at + block], key=lambda i: lengths[i])
            cut = [alike[i : i + recipe.batch] for i in range(0, len(alike), recipe.batch)]
            rng.shuffle(cut)
            batches += cut
    return batches[: recipe.steps]


def rate_at(step: int, recipe: Recipe) -> float:
    """The share of the full learning rate at a step: linear warm-up, then a cosine down to nothing."""
    warm = max(1, int(recipe.steps * recipe.warmup))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, recipe.steps - warm)))

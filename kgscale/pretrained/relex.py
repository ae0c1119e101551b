"""The default GLiNER that finds relations too: gliner-minilm with a relation part, and what kgscale taught both.

GLiNER's relation models put two networks between what gliner-minilm computes and what it answers: one over the labels
and one over the ends of an entity. They begin here as networks that change nothing, so that a relation model begins
with all that gliner-minilm knows, and only low-rank changes of them have to be shipped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgscale.pretrained import minilm
from kgscale.pretrained.quiet import quiet_transformers

if TYPE_CHECKING:
    from torch import Tensor

SHIPPED_FOLDER = Path(__file__).parent / "gliner_relex_minilm"
LEARNT = SHIPPED_FOLDER / "learnt.safetensors"
SETTINGS = SHIPPED_FOLDER / "kgscale.json"
SHIPPED = (minilm.LEARNT, LEARNT, SETTINGS)
RELATION = "relation"
"""The word as which the marker before a relation's name begins, half of it; the other half is the mask."""
LIFT = 1.0
"""Added to the ends of an entity, which lie between -1 and 1: GLiNER cuts off what is below zero."""


def build(source: Path, target: Path, say: Callable[[str], None]) -> None:
    """Assemble encoder, adapters and heads of both trainings into `target` (fp32), with the card and the thresholds."""
    say("assembling gliner-relex-minilm from its encoder, adapters and heads")
    with quiet_transformers():
        gliner = new_relex(source)
    minilm.write_model(gliner, SHIPPED_FOLDER, target)


def new_relex(encoder: Path, seed: int = 0, learnt: Path | None = minilm.LEARNT) -> Any:
    """A relation model that finds the entities that gliner-minilm finds, and whose relation part knows nothing yet.

    `encoder` is the directory with the files of `minilm.WHEEL`, and `learnt` what gliner-minilm learnt: null for
    another encoder, with heads that know nothing. The same seed gives the same model, to the bit.
    """
    import torch
    from safetensors.torch import load_file

    from kgscale.pretrained.assemble import merge, new_gliner

    gliner = new_gliner(encoder, seed, relations_layer="none", augment_data_prob=0.0)
    if learnt is not None:
        merge(gliner.model, load_file(str(learnt)))
    model: Any = gliner.model
    tokenizer = gliner.data_processor.transformer_tokenizer
    table = model.token_rep_layer.bert_layer.model.get_input_embeddings().weight
    with torch.no_grad():
        own = [table[tokenizer.convert_tokens_to_ids(it)] for it in (tokenizer.mask_token, RELATION)]
        table[tokenizer.convert_tokens_to_ids(gliner.config.rel_token)] = (own[0] + own[1]) / 2
        marker = model.span_rep_layer.span_rep_layer
        size = gliner.config.hidden_size
        same = torch.eye(size)
        _becomes(model.prompt_rep_layer, same)
        for layer in (marker.project_start, marker.project_end):
            _becomes(layer, same, LIFT)
        _becomes(marker.out_project, torch.cat([same, same], dim=1) / 2, -LIFT)
    return gliner


def _becomes(layers: Any, wanted: Tensor, shift: float = 0.0) -> None:
    """Let linear, ReLU, dropout, linear compute `wanted`·x + `shift`, in place.

    The first units carry x, the next ones -x; the others, where there are any, stay as they are drawn, unheard.
    """
    import torch

    first, *_, last = layers
    size = first.in_features
    first.weight[: 2 * size] = torch.cat([torch.eye(size), -torch.eye(size)])
    first.bias.zero_()
    last.weight.zero_()
    last.weight[:, : 2 * size] = torch.cat([wanted, -wanted], dim=1)
    last.bias.fill_(shift)


def stored_relation_threshold(model: Path) -> float | None:
    """The score from which a model's relations count, as its training chose it; None for a model that does not say."""
    try:
        return float(json.loads((model / SETTINGS.name).read_text(encoding="utf-8"))["relation_threshold"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def base_digest() -> str:
    """The sha256 of what gliner-minilm learnt, on which the relation model was trained."""
    return hashlib.sha256(minilm.LEARNT.read_bytes()).hexdigest()

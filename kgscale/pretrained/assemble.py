"""Put a model together: what training learnt merged into its base; for a GLiNER, fresh heads on an encoder first.

What training learnt is a flat set of tensors: heads under their own names, and for each adapted layer `<name>.lora_A`
(rank by in) and `<name>.lora_B` (out by rank, scale folded in), so that the merged weight is W + B·A.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgscale.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

LORA_A, LORA_B = ".lora_A", ".lora_B"
# Words, not tokens: the 512 positions of a BERT encoder have to hold them and the labels too.
MAX_WORDS = 256
MAX_LABELS = 60


def new_gliner(encoder: Path, seed: int = 0, **settings: Any) -> Any:
    """A token-level GLiNER with fresh heads on the encoder in `encoder` (configuration, weights and tokenizer).

    The same seed gives the same heads, to the bit. `settings` are further ones of GLiNER's configuration.

    The two markers that GLiNER adds to the vocabulary begin as the encoder's own mask and separator tokens: the table
    stays frozen in training, so they should mean something from the start.
    """
    import torch
    from gliner import GLiNER, GLiNERConfig
    from transformers import AutoConfig

    config = GLiNERConfig(
        model_name=str(encoder),
        span_mode="token_level",
        hidden_size=AutoConfig.from_pretrained(str(encoder)).hidden_size,
        dropout=0.0,
        max_len=MAX_WORDS,
        max_types=MAX_LABELS,
        **settings,
    )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        gliner = GLiNER.from_config(config, local_files_only=True)
    tokenizer = gliner.data_processor.transformer_tokenizer
    table = gliner.model.token_rep_layer.bert_layer.model.get_input_embeddings().weight
    with torch.no_grad():
        for added, own in ((config.ent_token, tokenizer.mask_token), (config.sep_token, tokenizer.sep_token)):
            table[tokenizer.convert_tokens_to_ids(added)] = table[tokenizer.convert_tokens_to_ids(own)]
    return gliner


def merge(model: nn.Module, learnt: Mapping[str, Tensor]) -> None:
    """Put heads and adapters into `model` (the bare network, without adapters), in place.

    Raises UserError if a tensor belongs to another network.
    """
    import torch

    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in merged(parameters, learnt):
            parameters[name].copy_(weight)


def merged(weights: Mapping[str, Tensor], learnt: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The weights that training changed, as they are with what was learnt; the others are left out.

    Raises UserError if a tensor belongs to another network.
    """
    for name, tensor in learnt.items():
        if name.endswith(LORA_B):
            continue
        layer = name.removesuffix(LORA_A)
        own = f"{layer}.weight" if name.endswith(LORA_A) else name
        if own not in weights:
            raise UserError(f"the learnt weights do not fit this model: it has no {name}")
        if name.endswith(LORA_A):
            yield own, weights[own].float() + learnt[layer + LORA_B].float() @ tensor.float()
        else:
            yield own, tensor

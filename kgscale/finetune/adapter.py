"""Low-rank adapters on a GLiNER's encoder, and the file that holds them with the heads.

`kgscale.pretrained.assemble` says what the tensors in the file are.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kgscale.finetune import lora

if TYPE_CHECKING:
    from torch import Tensor, nn

ENCODER = "token_rep_layer."
SCALE = 2.0
BLOCK = re.compile(r"\.(\d+)\.")


def add_adapters(model: nn.Module, rank: int, untouched: float = 0.0) -> None:
    """Freeze the encoder of `model` (the network inside a GLiNER) and put adapters on its linear layers, in place.

    This share of its blocks, from the input on, gets none: nothing has to be propagated back through them.
    """
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not name.startswith(ENCODER)
    linear = [
        name
        for name, layer in model.named_modules()
        if name.startswith(ENCODER) and isinstance(layer, torch.nn.Linear) and ".pooler." not in name
    ]
    blocks = {name: int(found[1]) if (found := BLOCK.search(name)) else -1 for name in linear}
    first = untouched * (1 + max(blocks.values()))
    lora.adapt(model, [name for name in linear if not untouched or blocks[name] >= first], rank, SCALE)


def learnt(model: nn.Module, dtype: torch.dtype = torch.float16) -> dict[str, Tensor]:
    """What training changed, on the CPU and in the layout of the file: adapters, and whatever else learns."""
    tensors = lora.learnt(model, dtype)
    inside = {id(weight) for it in model.modules() if isinstance(it, lora.Adapted) for weight in (it.a, it.b)}
    tensors |= {name: it for name, it in model.named_parameters() if it.requires_grad and id(it) not in inside}
    return {name: it.detach().to("cpu", dtype).contiguous() for name, it in tensors.items()}


def save_learnt(tensors: dict[str, Tensor], path: Path) -> None:
    """Write the file, whole or not at all."""
    from safetensors.torch import save_file

    unfinished = path.with_name(f".{path.name}.partial")
    save_file(tensors, str(unfinished))
    unfinished.chmod(0o644)
    unfinished.replace(path)

"""Low-rank adapters on a GLiNER's encoder, and the file that holds them with the heads.

`kgscale.pretrained.assemble` says what the tensors in the file are; they are stored in fp16.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgscale.errors import UserError
from kgscale.pretrained.assemble import LORA_A, LORA_B

if TYPE_CHECKING:
    from torch import Tensor, nn

ENCODER = "token_rep_layer."


def add_adapters(model: nn.Module, rank: int, alpha: float) -> None:
    """Freeze the encoder of `model` (the network inside a GLiNER) and put adapters on its linear layers, in place.

    Raises UserError where peft is not installed: only training needs it.
    """
    import torch

    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise UserError("training needs the package peft", hint="pip install peft") from error

    for name, parameter in model.named_parameters():
        parameter.requires_grad = not name.startswith(ENCODER)
    linear = [
        name
        for name, layer in model.named_modules()
        if name.startswith(ENCODER) and isinstance(layer, torch.nn.Linear) and ".pooler." not in name
    ]
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=alpha, target_modules=linear), model)
    for name, parameter in model.named_parameters():
        # peft freezes what it does not adapt; the heads are to learn.
        parameter.requires_grad = not name.startswith(ENCODER) or "lora_" in name


def learnt(model: nn.Module) -> dict[str, Tensor]:
    """What training changed, in fp16 and in the layout of the file."""
    import torch

    tensors: dict[str, Tensor] = {}
    for name, layer in model.named_modules():
        if hasattr(layer, "lora_A"):
            adapted: Any = layer
            tensors[name + LORA_A] = adapted.lora_A["default"].weight
            tensors[name + LORA_B] = adapted.lora_B["default"].weight * adapted.scaling["default"]
    tensors |= {name: parameter for name, parameter in model.named_parameters() if not name.startswith(ENCODER)}
    return {name: tensor.detach().to(torch.float16).contiguous() for name, tensor in tensors.items()}


def save_learnt(tensors: dict[str, Tensor], path: Path) -> None:
    """Write the file, whole or not at all."""
    from safetensors.torch import save_file

    unfinished = path.with_name(f".{path.name}.partial")
    save_file(tensors, str(unfinished))
    unfinished.chmod(0o644)
    unfinished.replace(path)

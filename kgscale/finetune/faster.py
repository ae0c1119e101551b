"""The same network in fewer operations: what makes training on a CPU three times as fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def without_dropout(model: nn.Module) -> None:
    """Switch off every dropout of `model`, in place.

    Drawing the masks takes a quarter of a step on a CPU, and keeps attention off its fused path; a frozen encoder that
    sees each text once or twice does not need them.
    """
    import torch

    for layer in model.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0


def plain_attention(model: nn.Module) -> None:
    """Let the encoder of a GLiNER attend by plain matrix products, in place.

    The fused attention of PyTorch on a CPU is fast forward, but its backward pass takes a third of a training step.
    """
    from transformers import PreTrainedModel

    for layer in model.modules():
        if isinstance(layer, PreTrainedModel):
            layer.set_attn_implementation("eager")


def frozen_in_bf16(model: nn.Module) -> None:
    """Store the frozen weights of adapted layers in bfloat16, in place: autocast would convert them in every step."""
    import torch

    for layer in model.modules():
        if hasattr(layer, "lora_A") and isinstance(layer.base_layer, torch.nn.Linear):
            layer.base_layer.to(torch.bfloat16)

"""Low-rank adapters on every linear layer of a causal model, and the quick forward pass that trains them.

The instruction that a batch shares is run once; its keys and values serve every example, with gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from kgscale.pretrained.assemble import LORA_A, LORA_B

if TYPE_CHECKING:
    from torch import Tensor

STRANGERS = 2048
"""Tokens drawn at random that compete with those of the batch: a tenth of the time that all 49,152 would take."""


class Adapted(nn.Module):
    """A frozen linear layer plus `B·A`, which begins as nothing; A and B are fp32, and used in the layer's type."""

    def __init__(self, layer: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.layer = layer
        self.scale = scale
        self.a = nn.Parameter(torch.empty(rank, layer.in_features))
        self.b = nn.Parameter(torch.zeros(layer.out_features, rank))
        nn.init.normal_(self.a, std=layer.in_features**-0.5)

    @property
    def weight(self) -> Tensor:
        """The frozen weight, at which some models look."""
        return self.layer.weight

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output with the adapter's added."""
        x = x.to(self.layer.weight.dtype)
        out: Tensor = _LowRank.apply(  # type: ignore[no-untyped-call]
            x.flatten(0, -2), self.layer.weight, self.layer.bias, self.a.to(x.dtype), (self.b * self.scale).to(x.dtype)
        )
        return out.view(*x.shape[:-1], -1)


class _LowRank(torch.autograd.Function):
    """x·Wᵀ + bias + x·Aᵀ·Bᵀ with W and bias frozen, each sum made in place: on a CPU, memory is what takes time."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor) -> Tensor:
        down = x @ a.t()
        context.save_for_backward(x, weight, a, b, down)
        return functional.linear(x, weight, bias).addmm_(down, b.t())

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None, Tensor, Tensor]:
        x, weight, a, b, down = context.saved_tensors
        (out,) = gradients
        up = out @ b
        inner = (out @ weight).addmm_(up, a) if context.needs_input_grad[0] else None
        return inner, None, None, up.t() @ x, out.t() @ down


def add_adapters(model: Any, rank: int, scale: float, untouched: int = 0) -> None:
    """Freeze `model` and put adapters on every linear layer of its blocks, in place.

    The first `untouched` blocks get none: nothing has to be propagated back through them.
    """
    model.requires_grad_(requires_grad=False)
    for block in model.model.layers[untouched:]:
        adapt(block, [name for name, it in block.named_modules() if isinstance(it, nn.Linear)], rank, scale)


def adapt(module: nn.Module, layers: Sequence[str], rank: int, scale: float) -> None:
    """Put adapters on the linear layers of these names, in place."""
    for name in layers:
        parent, _, child = name.rpartition(".")
        layer: Any = module.get_submodule(name)
        setattr(module.get_submodule(parent), child, Adapted(layer, rank, scale))


def learnt(model: nn.Module, dtype: torch.dtype = torch.float16) -> dict[str, Tensor]:
    """The adapters in the layout that `kgscale.pretrained.assemble.merge` reads, the scale folded into B."""
    tensors: dict[str, Tensor] = {}
    for name, it in model.named_modules():
        if isinstance(it, Adapted):
            tensors[name + LORA_A] = it.a.detach().to(dtype).contiguous()
            tensors[name + LORA_B] = (it.b.detach() * it.scale).to(dtype).contiguous()
    return tensors


def take_up(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Go on from adapters that `learnt` gave, in place."""
    with torch.no_grad():
        for name, it in model.named_modules():
            if isinstance(it, Adapted):
                it.a.copy_(weights[name + LORA_A])
                it.b.copy_(weights[name + LORA_B].float() / it.scale)


class _Normalise(torch.autograd.Function):
    """Division by the root mean square, in the type of the input, for weights that stay as they are."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        size = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        inverse = torch.rsqrt(size * size / x.shape[-1] + epsilon).to(x.dtype)
        even = x * inverse
        context.save_for_backward(even, weight, inverse)
        return even * weight

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        even, weight, inverse = context.saved_tensors
        scaled = gradients[0] * weight
        return (scaled - even * (scaled * even).mean(-1, keepdim=True)) * inverse, None, None


def quick_norms(model: nn.Module) -> None:
    """Let the frozen RMS norms of `model` compute in their own type, in place: less memory moved on a CPU."""
    for it in model.modules():
        if type(it).__name__.endswith("RMSNorm") and hasattr(it, "variance_epsilon"):
            norm: Any = it
            norm.forward = lambda x, norm=norm: _Normalise.apply(  # type: ignore[no-untyped-call]
                x, norm.weight, norm.variance_epsilon
            )


def use_plain_attention() -> str:
    """Register an attention of plain products, faster to train on a CPU than torch's own; returns its name."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register("kgscale_plain", _attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register("kgscale_plain", eager_mask)
    return "kgscale_plain"


def _attention(
    _module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    batch, heads, length, size = q.shape
    groups = k.shape[1]
    folded = (q * scaling).reshape(batch, groups, heads // groups * length, size)
    scores = torch.matmul(folded, k.transpose(-1, -2)).view(batch, heads, length, -1)
    if mask is not None:
        scores = scores + mask
    weights = torch.softmax(scores, -1).view(batch, groups, heads // groups * length, -1)
    return torch.matmul(weights, v).view(batch, heads, length, size).transpose(1, 2).contiguous(), None


def answer_loss(
    model: Any, prefix: Sequence[int], prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> tuple[Tensor, int]:
    """The summed loss on the answers' tokens after prefix and prompt, and how many tokens these are."""
    from transformers import DynamicCache

    count, longest = len(prompts), max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
    first = torch.tensor([list(prefix)])
    tokens = torch.zeros(count, longest, dtype=torch.long)
    mask = torch.zeros(count, len(prefix) + longest, dtype=torch.long)
    wanted = torch.zeros(count, longest, dtype=torch.bool)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        size = len(prompt) + len(answer)
        tokens[row, :size] = torch.tensor([*prompt, *answer])
        mask[row, : len(prefix) + size] = 1
        wanted[row, len(prompt) : size] = True
    first, tokens, mask, wanted = (it.to(model.device) for it in (first, tokens, mask, wanted))
    cache = DynamicCache()
    model.model(input_ids=first, past_key_values=cache, use_cache=True)
    cache.batch_repeat_interleave(count)
    hidden = model.model(input_ids=tokens, attention_mask=mask, past_key_values=cache, use_cache=True).last_hidden_state
    states, targets = hidden[:, :-1][wanted[:, 1:]], tokens[:, 1:][wanted[:, 1:]]
    words = model.lm_head.weight
    if not torch.is_grad_enabled():
        return functional.cross_entropy(functional.linear(states, words).float(), targets, reduction="sum"), len(
            targets
        )
    # An answer is made of its prompt's tokens and JSON's. All others are stood for by a sample, each for as many as it
    # takes to make up their number: an unbiased estimate of what the softmax divides by.
    near = torch.cat([tokens.flatten(), first.flatten()]).unique()  # type: ignore[no-untyped-call]
    drawn = torch.randint(len(words), (STRANGERS,)).to(model.device)
    strangers = drawn[~torch.isin(drawn, near)]
    logits = functional.linear(states, words[torch.cat([near, strangers])]).float()
    if len(strangers):
        logits[:, len(near) :] += math.log((len(words) - len(near)) / len(strangers))
    return functional.cross_entropy(logits, torch.searchsorted(near, targets), reduction="sum"), len(targets)

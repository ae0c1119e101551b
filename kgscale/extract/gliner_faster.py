"""The same GLiNER in fewer operations; what changes is checked against the original in the tests."""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


def best_dtype(device: str) -> torch.dtype:
    """The floating-point type to compute in: bfloat16 where the device multiplies in it, else float32.

    On a CPU these are the ones with AMX tiles; elsewhere bfloat16 is emulated, and slower.
    """
    import torch

    quick = torch.cuda.is_bf16_supported() if device == "cuda" else torch.cpu.get_capabilities().get("amx_bf16", False)
    return torch.bfloat16 if quick else torch.float32


def quick_span_labels(processor: Any) -> None:
    """Let a span-level GLiNER's processor make the labels of a text without gold at once, in place.

    The original looks up every span of every text in a dictionary that is empty at inference, which takes more time
    than all else that is done before the encoder.
    """
    original = getattr(processor, "prepare_span_labels", None)
    if original is None:
        return

    def labels(_self: Any, ner: Any, classes: Any, words: int, spans: Any) -> tuple[Tensor, Tensor]:
        import torch

        if ner:
            return original(ner, classes, words, spans)  # type: ignore[no-any-return]
        spans = torch.as_tensor(spans, dtype=torch.long)
        return -(spans[:, 1] > words - 1).long(), spans

    processor.prepare_span_labels = MethodType(labels, processor)


def factor_scorer(model: nn.Module) -> None:
    """Let a token-level GLiNER score each pair of word and label with a third of the multiplications, in place.

    The first layer of its scorer works on the concatenation of a word's part, a label's part and their product. Its
    weight is cut in three, so that the first two parts are computed once for each word and each label instead of once
    for each pair. Same parameters, same result up to rounding; models with another scorer are left as they are.
    """
    from gliner.modeling.scorers import Scorer

    scorer = getattr(model, "scorer", None)
    if isinstance(scorer, Scorer):
        scorer.forward = MethodType(_factored, scorer)


def _factored(self: Any, words: Tensor, labels: Tensor) -> Tensor:
    """`Scorer.forward`: words (B, W, H) and labels (B, C, H) to scores (B, W, C, 3)."""
    from torch.nn import functional

    size = words.shape[-1]
    first, dropout, activation, last = self.out_mlp
    word_sum, word_product = self.proj_token(words).split(size, dim=-1)
    label_sum, label_product = self.proj_label(labels).split(size, dim=-1)
    word_weight, label_weight, product_weight = first.weight.split(size, dim=1)
    of_words = functional.linear(word_sum, word_weight, first.bias)
    of_labels = functional.linear(label_sum, label_weight)
    of_pairs = functional.linear(word_product.unsqueeze(2) * label_product.unsqueeze(1), product_weight)
    hidden = of_pairs + of_words.unsqueeze(2) + of_labels.unsqueeze(1)
    return last(activation(dropout(hidden)))  # type: ignore[no-any-return]

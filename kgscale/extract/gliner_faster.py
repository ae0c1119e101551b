"""The same GLiNER in fewer operations; what changes is checked against the original in the tests."""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


def best_dtype(device: str) -> torch.dtype:
    """The floating-point type to compute in: bfloat16 where the device multiplies in it, else float32.

    On a CPU these are the ones with AMX tiles or the AVX-512 instructions for it; elsewhere bfloat16 is emulated, and
    slower.
    """
    import torch

    if device == "cuda":
        quick = torch.cuda.is_bf16_supported()
    else:
        can = torch.cpu.get_capabilities()
        quick = can.get("amx_bf16", False) or can.get("avx512_bf16", False)
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


def without_pairs(model: Any) -> None:
    """Let a token-level relation model's forward pass form no pairs, in place: `pair_scores` does, of fewer entities.

    The original forms all pairs of whatever may be an entity, once for each type that it may have, and pads them to
    those of the text with most.
    """

    def represent_spans(self: Any, words: Tensor, _mask: Any, prompts: Tensor, *_: Any, **options: Any) -> Any:
        texts, size = len(words), words.shape[-1]
        nothing = words.new_zeros(texts, 0, size), words.new_zeros(texts, 0), words.new_zeros(texts, 0, 2).long()
        found = (self.scorer(words, prompts), *nothing)
        return (*found, None) if options.get("return_embeddings") else found

    model.represent_spans = MethodType(represent_spans, model)


def pair_scores(model: Any, words: Tensor, spans: Sequence[Tensor], prompts: Tensor) -> list[Tensor]:
    """The logits of each text's relations from each of its E spans to each, (E, E, C) by head, tail and relation.

    `words` (B, W, H) and `prompts` (B, C, H) are the model's embeddings of words and relations, `spans` each text's
    first and last words (E, 2). A pair's representation is a network's of two layers over both ends: the first layer is
    computed once for each end, and the second one is folded into the relations, of which there are fewer than pairs.
    """
    import torch
    from torch.nn import functional

    marker = model.span_rep_layer.span_rep_layer
    first, *_, last = model.pair_rep_layer.children()
    counts = [len(it) for it in spans]
    of_heads, of_tails = torch.chunk(first.weight, 2, dim=1)
    starts, ends = (torch.cat([it[ends[:, side]] for it, ends in zip(words, spans, strict=True)]) for side in (0, 1))
    both = torch.cat([marker.project_start(starts), marker.project_end(ends)], dim=-1)
    found = marker.out_project(both.relu())
    heads = torch.split_with_sizes(functional.linear(found, of_heads, first.bias), counts)
    tails = torch.split_with_sizes(functional.linear(found, of_tails), counts)
    keys, constants = functional.linear(prompts, last.weight.t()), functional.linear(prompts, last.bias.unsqueeze(0))
    return [
        functional.linear((head.unsqueeze(1) + tail.unsqueeze(0)).relu(), key) + constant.squeeze(-1)
        for head, tail, key, constant in zip(heads, tails, keys, constants, strict=True)
    ]

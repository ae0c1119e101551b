"""Models of the real architectures with random weights, made on the spot: the speed does not hang on the weights.

Their tokenizers are made up as well: words for the encoder of which two in five have two pieces, as English has, and a
byte-level vocabulary of the usual size for the LLM, so that a grammar's masks are as large as they would be.
"""

import json
import os
import random
from itertools import islice, product
from pathlib import Path
from shutil import rmtree
from string import ascii_lowercase

LABELS = ("person", "organization", "location", "product", "technology", "date", "event", "law", "disease", "protein")
STEMS, TAILS = 20_000, 2_000
TWO_PIECES = 0.4
ENCODERS = {
    # Sizes of microsoft/deberta-v3-small, -base and -large, on which GLiNER small, medium and large are built.
    "small": {"hidden_size": 768, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 3072},
    "medium": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    "tiny": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64},
}
ENCODER_VOCABULARY = 128_100
LLMS = {
    # Qwen/Qwen3-4B-Instruct-2507.
    "4b": {
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": 4096,
    },
}


def text(words: int, seed: int) -> str:
    """A text of made-up words."""
    draw = random.Random(seed)

    def word() -> str:
        stem = f"w{draw.randrange(STEMS)}"
        return f"{stem}x{draw.randrange(TAILS)}" if draw.random() < TWO_PIECES else stem

    return " ".join(word() for _ in range(words))


def make_gliner(size: str, folder: Path) -> Path:
    """Save a span-level GLiNER on a DeBERTa-v3 of some size; once for each folder."""
    import torch
    from gliner import GLiNER, GLiNERConfig
    from transformers import BertTokenizer, DebertaV2Config

    target = folder / f"gliner-{size}"
    if target.exists():
        return target
    unfinished = folder / f"{target.name}.{os.getpid()}"
    encoder = unfinished / "encoder"
    encoder.mkdir(parents=True)
    pieces = [*(f"w{n}" for n in range(STEMS)), *(f"##x{n}" for n in range(TAILS)), *LABELS]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]
    (encoder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizer(str(encoder / "vocab.txt"), model_max_length=1024).save_pretrained(encoder)
    DebertaV2Config(
        vocab_size=ENCODER_VOCABULARY,
        max_position_embeddings=512,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
        **ENCODERS[size],
    ).save_pretrained(encoder)
    torch.manual_seed(0)
    hidden = min(512, int(ENCODERS[size]["hidden_size"]))
    config = GLiNERConfig(model_name=str(encoder), span_mode="markerV0", hidden_size=hidden, max_len=384, max_width=12)
    model = GLiNER.from_config(config, local_files_only=True, backbone_from_pretrained=False)
    model.save_pretrained(str(unfinished / "model"), safe_serialization=True)
    (unfinished / "model").rename(target)
    rmtree(unfinished)
    return target


def make_llm(size: str, folder: Path) -> Path:
    """Write config and tokenizer of a Qwen3 of some size; its weights are made up when it is loaded."""
    from transformers import PreTrainedTokenizerFast, Qwen3Config

    target = folder / f"qwen3-{size}"
    if target.exists():
        return target
    unfinished = folder / f"{target.name}.{os.getpid()}"
    unfinished.mkdir(parents=True)
    values = LLMS[size]
    config = Qwen3Config(**values, tie_word_embeddings=True, max_position_embeddings=40_960, dtype="bfloat16")
    config.architectures = ["Qwen3ForCausalLM"]
    config.save_pretrained(unfinished)
    (unfinished / "tokenizer.json").write_text(json.dumps(_byte_level(int(values["vocab_size"]) - 1)))
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(unfinished / "tokenizer.json"), eos_token="<|end|>")
    tokenizer.save_pretrained(unfinished)
    unfinished.rename(target)
    return target


def _byte_level(size: int) -> dict[str, object]:
    """A byte-level BPE tokenizer whose tokens are the bytes and combinations of two to four letters."""
    from tokenizers.pre_tokenizers import ByteLevel

    words = ("".join(it) for length in (2, 3, 4) for it in product(ascii_lowercase, repeat=length))
    alphabet = sorted(ByteLevel.alphabet())
    tokens = [*alphabet, *islice(words, size - len(alphabet))]
    merges = [(it[:-1], it[-1]) for it in tokens[len(alphabet) :]]
    end = {"id": size, "content": "<|end|>", "special": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {token: n for n, token in enumerate(tokens)}, "merges": merges}
    return {
        "version": "1.0",
        "added_tokens": [{**end, **flags}],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": model,
    }

"""A trained adapter merged into its base: a plain directory that transformers and vLLM load, with its card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgscale.finetune.result import card_of_data, card_of_recipe, write_result
from kgscale.pretrained.assemble import merge
from kgscale.pretrained.quiet import quiet_transformers


def export(base: Path | str, weights: Mapping[str, Any], target: Path, record: Mapping[str, Any], card: str) -> None:
    """Write base plus adapter (bfloat16), tokenizer, `kgscale.json` (how it was made) and README.md into `target`.

    The directory appears whole or not at all; raises `UserError` if something is there already.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    def save(folder: Path) -> None:
        with quiet_transformers():
            model = AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.bfloat16)
            merge(model, weights)
            model.save_pretrained(str(folder))
            AutoTokenizer.from_pretrained(str(base)).save_pretrained(str(folder))

    write_result(target, save, record, card)


def card(record: Mapping[str, Any]) -> str:
    """The model card: base, data with hashes, how it was trained, how the loss on held-out text fell."""
    curve = [
        f"| {row['step']} | {row['held_out_both']:.3f} | {row['held_out_relations']:.3f} |" for row in record["curve"]
    ]
    kept, recipe = record["kept_step"], card_of_recipe(record)
    counts = f"{record['texts']:,} texts with {record['entities']:,} entities and {record['relations']:,} relations."
    return "\n".join(
        [
            f"# {record['name']}",
            "",
            f"`{record['base']}` with a low-rank adapter trained by `kgscale finetune llm` and merged in. It answers "
            "the prompts of kgscale's extraction, with JSON of entities and relations.",
            "",
            *card_of_data(record, counts),
            "## Training",
            "",
            f"{recipe}. Kept: the weights of step {kept}, which had the lowest loss on the held-out texts.",
            "",
            "| step | loss per answer token, entities and relations | relations of given entities |",
            "|---|---|---|",
            *curve,
            "",
            "Quality on your own gold: `kgscale run` with `llm: {model: <this directory>}`.",
            "",
        ]
    )

"""A trained GLiNER as a plain directory: weights, tokenizer, the threshold of its entities, and a card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgscale.finetune.gliner_base import Base
from kgscale.finetune.result import card_of_data, card_of_recipe, write_result
from kgscale.finetune.threshold import BUILT_IN, LAST_BIAS, build_in
from kgscale.pretrained.assemble import merge

if TYPE_CHECKING:
    from torch import Tensor


def export(base: Base, weights: Mapping[str, Tensor], target: Path, record: Mapping[str, Any]) -> None:
    """Write base plus learnt weights into `target` (fp32), which `GLiNER.from_pretrained` and extraction load.

    Where the model allows it the threshold of the record is built into the weights, so that GLiNER's default of 0.5 is
    the chosen one for everybody; else `kgscale.json` says it to extraction. Raises `UserError` if something is there.
    """
    chosen = record["best"]["threshold"]
    inside = LAST_BIAS in weights and not record["spans_scored_apart"]
    if inside:
        weights = build_in(dict(weights), chosen)
    stored = {"threshold": BUILT_IN if inside else chosen, **record}

    def save(folder: Path) -> None:
        gliner = base.open()
        merge(gliner.model, weights)
        gliner.save_pretrained(str(folder), safe_serialization=True)

    write_result(target, save, stored, card(stored))


def card(record: Mapping[str, Any]) -> str:
    """The model card: base, data with hashes, how it was trained, how the F1 on held-out texts rose."""
    curve = [
        f"| {row['step']} | {row['f1']:.3f} | {row['precision']:.3f} | {row['recall']:.3f} | {row['threshold']:g} "
        f"| {'█' * round(row['f1'] * 40)} |"
        for row in record["curve"]
    ]
    best, recipe = record["best"], card_of_recipe(record)
    built_in = record["threshold"] != best["threshold"]
    threshold = (
        f"It was {best['threshold']:g} and is built into the weights: use GLiNER's default, {BUILT_IN}."
        if built_in
        else f"It is {best['threshold']:g}; kgscale reads it from `kgscale.json`, other programs have to be told."
    )
    counts = (
        f"{record['texts']:,} texts with {record['entities']:,} mentions of entities; {record['held_out']:,} texts "
        "held out."
    )
    return "\n".join(
        [
            f"# {record['name']}",
            "",
            f"`{record['base']}` trained by `kgscale finetune gliner` to find: {', '.join(record['types'])}. Other "
            "labels can be asked for too.",
            "",
            *card_of_data(record, counts),
            "## Training",
            "",
            f"{recipe}. Kept: the weights of step {best['step']}, which had the best F1 on the held-out texts.",
            "",
            "Micro F1 on distinct pairs of name and type in each text, as `kgscale score` counts them, at the "
            "threshold that is best for each step. Step and threshold were chosen on these texts, so others may give "
            "less.",
            "",
            "| step | F1 | precision | recall | threshold | |",
            "|---|---|---|---|---|---|",
            *curve,
            "",
            f"The score from which an entity counts was chosen there too. {threshold}",
            "",
            "Quality on your own gold: `kgscale run` with `gliner: {model: <this directory>}`.",
            "",
        ]
    )

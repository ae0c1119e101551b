"""Train the default GLiNER: heads and adapters on a bare encoder, from files of examples.

`python -m kgscale.finetune.gliner --help` shows how to start a run, or to go on with one that was killed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgscale.extract.gliner_faster import factor_scorer
from kgscale.finetune.adapter import learnt, save_learnt
from kgscale.finetune.examples import Example, read_examples
from kgscale.finetune.gliner_training import Training
from kgscale.finetune.sampling import Sampler, fine_counts
from kgscale.finetune.schedule import Recipe
from kgscale.finetune.threshold import BUILT_IN, Chosen, build_in, choose_threshold
from kgscale.pretrained.assemble import merge, new_gliner

if TYPE_CHECKING:
    import torch

MAX_WORDS = 180


def training(gliner: Any, examples: Sequence[Example], recipe: Recipe, folder: Path) -> Training:
    """The run that `folder` holds, or a new one, over examples whose sources `labels.txt` knows."""
    sampler = Sampler(fine_counts(examples))

    def draw(number: int, rng: random.Random) -> dict[str, Any]:
        return shorten(sampler.draw(examples[number], rng), MAX_WORDS)

    lengths = [len(it.words) for it in examples]
    data = hashlib.sha256(repr(list(examples)).encode()).hexdigest()
    return Training(gliner, lengths, draw, recipe, folder, data)


def shorten(item: dict[str, Any], max_words: int) -> dict[str, Any]:
    """Cut an item in gliner's format to its first words, with the spans that lie in them."""
    if len(item["tokenized_text"]) <= max_words:
        return item
    ner = [entity for entity in item["ner"] if entity[1] < max_words]
    return {**item, "tokenized_text": item["tokenized_text"][:max_words], "ner": ner}


def export(encoder: Path, weights: dict[str, torch.Tensor], held_out: Sequence[Example], folder: Path) -> Chosen:
    """Choose the threshold on `held_out`, build it into `weights`, and write `learnt.safetensors` and `kgscale.json`.

    The threshold is chosen on the model as it will be assembled: weights rounded to fp16 and merged.
    """
    gliner = new_gliner(encoder).eval()
    merge(gliner.model, weights)
    factor_scorer(gliner.model)
    chosen = choose_threshold(gliner, held_out)
    save_learnt(build_in(weights, chosen.threshold), folder / "learnt.safetensors")
    settings = {"threshold": BUILT_IN, "held_out": {k: round(v, 4) for k, v in asdict(chosen).items()}}
    unfinished = folder / ".kgscale.json.partial"
    unfinished.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(folder / "kgscale.json")
    return chosen


def train_default(
    encoder: Path, train: Path, held_out: Path, folder: Path, steps: int = Recipe.steps, threads: int = 1
) -> Chosen:
    """Train on files of examples (`kgscale.finetune.corpus` writes them) and export what was learnt into `folder`."""
    import torch

    torch.set_num_threads(threads)
    examples, kept = list(read_examples(train)), list(read_examples(held_out))
    run = training(new_gliner(encoder), examples, Recipe(steps=steps), folder)
    run.run()
    return export(encoder, learnt(run.model), kept, folder)


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", type=Path, required=True, help="a directory with an encoder, e.g. MiniLM-L6")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--held-out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="checkpoints and log; an existing run is resumed")
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--threads", type=int, default=1)
    it = parser.parse_args()
    print(train_default(it.encoder, it.train, it.held_out, it.folder, it.steps, it.threads))


if __name__ == "__main__":
    main()

"""Train the adapter of smollm2-135m-kg: documents written for the purpose, and two annotated sets.

`python -m kgscale.finetune.default_llm --data DIR --folder DIR --apart FILE ...`, where DIR holds the public sets under
their usual names, the folder holds checkpoints and log (an existing run is resumed), and `--apart` names gold files:
nothing that shares eight words in a row with their texts is trained on.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from kgscale.finetune import asking
from kgscale.finetune.contamination import Apart, gold_texts
from kgscale.finetune.default_data import HELD_OUT, annotated_sets
from kgscale.finetune.facts import WRITTEN
from kgscale.finetune.llm import TASKS, Recipe, Training, load
from kgscale.finetune.llm_batches import Batch, Mixture
from kgscale.finetune.lora import take_up
from kgscale.pretrained import prepare

LIMIT = 640
"""Longest text and answer together in tokens: time goes into many short examples."""


def main() -> None:
    """Train from the command line."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--apart", type=Path, nargs="+", required=True)
    parser.add_argument("--begin", type=Path, help="adapters to go on from, instead of fresh ones")
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    apart = Apart(gold_texts(options.apart))
    asking.read_properties(options.data / "re_docred" / "pid2name_wiki.json")
    base = prepare("smollm2-135m", say=print)
    tokenizer = AutoTokenizer.from_pretrained(str(base))
    sets = annotated_sets(options.data, apart)
    recipe = Recipe(steps=options.steps)
    train = {name: documents[:-HELD_OUT] for name, documents in sets.items()}
    kept = {name: documents[-HELD_OUT:] for name, documents in sets.items()}
    mixture = Mixture(tokenizer, train, size=recipe.batch, limit=LIMIT, apart=apart)
    held_out = _held_out(Mixture(tokenizer, kept, size=6, limit=LIMIT, apart=apart))
    counts = {name: len(documents) for name, documents in sets.items()}
    model = load(base, recipe)
    if options.begin:
        take_up(model, load_file(str(options.begin)))
    Training(model, mixture.draw, held_out, recipe, options.folder, f"{counts}").run()


def _held_out(mixture: Mixture) -> dict[str, list[Batch]]:
    """One batch for each task and source that says much."""
    rng = random.Random(99)  # noqa: S311
    return {
        f"{source}_{task.value}": [mixture.draw(rng, task, source)]
        for source in (WRITTEN, "re_docred")
        for task in TASKS
    }


if __name__ == "__main__":
    main()

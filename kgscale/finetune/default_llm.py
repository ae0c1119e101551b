"""Train the adapter of smollm2-135m-kg: documents written for the purpose, and two annotated sets.

`python -m kgscale.finetune.default_llm --data DIR --folder DIR --apart FILE ...`, where DIR holds the public sets under
their usual names, the folder holds checkpoints and log (an existing run is resumed), and `--apart` names gold files:
nothing that shares eight words in a row with their texts is trained on.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from kgscale.errors import UserError
from kgscale.finetune import annotated, asking
from kgscale.finetune.contamination import Apart, Named
from kgscale.finetune.facts import WRITTEN, Document
from kgscale.finetune.llm import TASKS, Recipe, Training, load
from kgscale.finetune.llm_batches import Batch, Mixture
from kgscale.formats import load_gold
from kgscale.pretrained import prepare

LIMIT = 560
"""Longest text and answer together in tokens: time goes into many short examples."""
HELD_OUT = 60
"""Documents of each annotated set that are kept for the curve."""
EMPTY = 0.1
"""Share kept of SoMeSci's lines that hold nothing."""
NO_RELATION = 0.5
"""Share kept of SoMeSci's lines with entities alone."""
SEED = 5


def annotated_sets(data: Path, apart: Apart) -> dict[str, list[Document]]:
    """The documents of Re-DocRED and SoMeSci that share no run of words with texts that will be scored."""
    rng = random.Random(SEED)  # noqa: S311
    somesci = (it for it in annotated.somesci(data / "somesci") if len(it.text) > 30)
    found = {
        "re_docred": list(annotated.re_docred(data / "re_docred" / "dev_200docs.json")),
        "somesci": [
            it for it in somesci if it.relations or (it.entities and rng.random() < NO_RELATION) or rng.random() < EMPTY
        ],
    }
    return {name: [it for it in them if apart.behind(it.text) is None] for name, them in found.items()}


def main() -> None:
    """Train from the command line."""
    import torch
    from transformers import AutoTokenizer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--apart", type=Path, nargs="+", required=True)
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    scored = [Named(f"{path}, {it.chunk_id}", it.text or "") for path in options.apart for it in load_gold(path).chunks]
    if not all(it.text for it in scored):
        raise UserError("gold without texts cannot be kept apart", hint="name gold files whose chunks carry their text")
    apart = Apart(scored)
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
    Training(load(base, recipe), mixture.draw, held_out, recipe, options.folder, f"{counts}").run()


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

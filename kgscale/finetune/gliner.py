"""Train a GLiNER: length-sorted batches, mixed precision, checkpoints, and an exact resume after any death.

Every random choice of a step comes from the seed and the number of the step, so that a run that was killed and resumed
gives the weights of one that was not. `python -m kgscale.finetune.gliner --help` shows how to start one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgscale.extract.gliner_faster import factor_scorer
from kgscale.finetune.adapter import add_adapters, learnt, save_learnt
from kgscale.finetune.checkpoint import read_checkpoint, write_checkpoint, write_log
from kgscale.finetune.examples import Example, read_examples
from kgscale.finetune.faster import frozen_in_bf16, plain_attention, without_dropout
from kgscale.finetune.sampling import Sampler, fine_counts
from kgscale.finetune.threshold import BUILT_IN, Chosen, build_in, choose_threshold
from kgscale.pretrained.assemble import merge, new_gliner

if TYPE_CHECKING:
    import torch

SORTED_TOGETHER = 50  # batches; enough to even lengths out, few enough to keep the order random
LOG_EVERY = 50  # steps


@dataclass(frozen=True)
class Recipe:
    """How to train; the defaults are those of the model that kgscale ships."""

    steps: int = 1600
    batch: int = 16
    head_rate: float = 1e-3
    adapter_rate: float = 1e-3
    warmup: float = 0.06
    weight_decay: float = 0.01
    rank: int = 28
    clip: float = 1.0
    max_words: int = 180
    save_every: int = 200
    seed: int = 7
    bf16: bool = True


def plan(examples: Sequence[Example], recipe: Recipe) -> list[list[int]]:
    """The example numbers of each step: passes in random order, batches of like length, the same for the same seed."""
    rng = random.Random(recipe.seed)  # noqa: S311
    batches: list[list[int]] = []
    while len(batches) < recipe.steps:
        order = rng.sample(range(len(examples)), len(examples))
        block = recipe.batch * SORTED_TOGETHER
        for at in range(0, len(order), block):
            alike = sorted(order[at : at + block], key=lambda i: len(examples[i].words))
            cut = [alike[i : i + recipe.batch] for i in range(0, len(alike), recipe.batch)]
            rng.shuffle(cut)
            batches += cut
    return batches[: recipe.steps]


def rate_at(step: int, recipe: Recipe) -> float:
    """The share of the full learning rate at a step: linear warm-up, then a cosine down to nothing."""
    warm = max(1, int(recipe.steps * recipe.warmup))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, recipe.steps - warm)))


class Training:
    """A training run in a folder: the model, its optimizer, and how far it is."""

    def __init__(self, gliner: Any, examples: Sequence[Example], recipe: Recipe, folder: Path) -> None:
        """Take up the run that `folder` holds, or begin one; UserError if it holds a run of another recipe or data."""
        import torch

        torch.manual_seed(recipe.seed)
        self.gliner, self.examples, self.recipe, self.folder = gliner, list(examples), recipe, folder
        self.model: Any = gliner.model
        self.sampler = Sampler(fine_counts(examples))
        self.collator = gliner.data_collator_class(gliner.config, data_processor=gliner.data_processor)
        add_adapters(self.model, recipe.rank, alpha=2 * recipe.rank)
        without_dropout(self.model)
        plain_attention(self.model)
        if recipe.bf16:
            frozen_in_bf16(self.model)
        factor_scorer(self.model)
        groups: dict[bool, list[torch.nn.Parameter]] = {False: [], True: []}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                groups["lora_" in name].append(parameter)
        self.trainable = groups[False] + groups[True]
        rates = ((groups[False], recipe.head_rate), (groups[True], recipe.adapter_rate))
        self.optimizer = torch.optim.AdamW(
            [{"params": parameters, "lr": rate, "full": rate} for parameters, rate in rates],
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        self.step = 0
        folder.mkdir(parents=True, exist_ok=True)
        data = hashlib.sha256(repr(self.examples).encode()).hexdigest()
        self._identity = {"recipe": asdict(recipe), "data": data}
        self._resume()

    def run(self, until: int | None = None) -> None:
        """Train up to step `until` (default: the recipe's last), logging to `log.jsonl` and saving checkpoints."""
        batches = plan(self.examples, self.recipe)
        stop = min(self.recipe.steps, self.recipe.steps if until is None else until)
        started, seen, losses = time.monotonic(), 0, []
        self.model.train()
        while self.step < stop:
            losses.append(self._train_on(batches[self.step]))
            seen += len(batches[self.step])
            self.step += 1
            if self.step % LOG_EVERY == 0 or self.step == stop:
                speed = round(seen / (time.monotonic() - started), 1)
                write_log(
                    self.folder, {"step": self.step, "loss": sum(losses) / len(losses), "sentences_per_second": speed}
                )
                losses = []
            if self.step % self.recipe.save_every == 0 or self.step == stop:
                self.save()

    def _train_on(self, batch: Sequence[int]) -> float:
        import torch

        seed = self.recipe.seed * 1_000_003 + self.step
        torch.manual_seed(seed)
        rng = random.Random(seed)  # noqa: S311
        drawn = [self.sampler.draw(self.examples[i], rng) for i in batch]
        inputs = self.collator([shorten(item, self.recipe.max_words) for item in drawn])
        for group in self.optimizer.param_groups:
            group["lr"] = group["full"] * rate_at(self.step, self.recipe)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.recipe.bf16):
            loss = self.model(**inputs, reduction="sum").loss
        loss = loss / sum(len(item["tokenized_text"]) for item in drawn)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trainable, self.recipe.clip)
        self.optimizer.step()
        return float(loss.detach())

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        names = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        weights = {name: tensor for name, tensor in self.model.state_dict().items() if name in names}
        state = {"identity": self._identity, "step": self.step, "weights": weights}
        state["optimizer"] = self.optimizer.state_dict()
        write_checkpoint(self.folder, state)

    def _resume(self) -> None:

        state = read_checkpoint(self.folder, self._identity)
        if state is None:
            return
        self.model.load_state_dict(state["weights"], strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]


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


def finetune_gliner(
    encoder: Path, train: Path, held_out: Path, folder: Path, steps: int = Recipe.steps, threads: int = 1
) -> Chosen:
    """Train on files of examples (`kgscale.finetune.corpus` writes them) and export what was learnt into `folder`."""
    import torch

    torch.set_num_threads(threads)
    examples, kept = list(read_examples(train)), list(read_examples(held_out))
    training = Training(new_gliner(encoder), examples, Recipe(steps=steps), folder)
    training.run()
    return export(encoder, learnt(training.model), kept, folder)


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
    print(finetune_gliner(it.encoder, it.train, it.held_out, it.folder, it.steps, it.threads))


if __name__ == "__main__":
    main()

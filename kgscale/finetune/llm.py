"""Train a causal language model for extraction: adapters only, loss on the answers, exact resume after any death.

Every random choice of a step comes from the seed and the number of the step, so that a run that was killed and resumed
gives the weights of one that was not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgscale.extract.prompt import Task
from kgscale.finetune.checkpoint import read_checkpoint, write_checkpoint, write_log
from kgscale.finetune.lora import Adapted, add_adapters, answer_loss, learnt, quick_norms, use_plain_attention

if TYPE_CHECKING:
    from kgscale.finetune.llm_batches import Batch, Draw

TASKS = (Task.BOTH, Task.RELATIONS)
LOG_EVERY = 10
BEST = "best.safetensors"


@dataclass(frozen=True)
class Recipe:
    """How to train; the defaults are those of the model that kgscale ships."""

    steps: int = 240
    rate: float = 1.5e-3
    warmup: int = 12
    rank: int = 28
    untouched: float = 0.47
    """Share of the model's blocks, from the input on, that get no adapter: this halves the work of a step."""
    scale: float = 2.0
    clip: float = 1.0
    batch: int = 8
    """Examples that share an instruction; a step has one such batch for each task."""
    limit: int = 1024
    """Longest prompt after the instruction and answer together, in tokens; longer examples are left out."""
    save_every: int = 10
    evaluate_every: int = 30
    seed: int = 7
    bf16: bool = True


def rate_at(step: int, recipe: Recipe) -> float:
    """The share of the full learning rate at a step: up over `warmup` steps, level, down over the last third."""
    return min(1.0, (step + 1) / recipe.warmup, 3 * (recipe.steps - step) / recipe.steps)


def load(folder: Path | str, recipe: Recipe) -> Any:
    """The model of a directory or id, with fresh adapters (the same for the same seed), ready to train."""
    import torch
    from transformers import AutoModelForCausalLM

    dtype = torch.bfloat16 if recipe.bf16 else torch.float32
    gpu = torch.cuda.is_available()
    attention = "sdpa" if gpu else use_plain_attention()
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype, attn_implementation=attention)
    torch.manual_seed(recipe.seed)
    add_adapters(model, recipe.rank, recipe.scale, int(recipe.untouched * len(model.model.layers)))
    if gpu:
        model.to("cuda")
    if recipe.bf16:
        quick_norms(model)
    return model.train()


class Training:
    """A training run in a folder: the model, its optimizer, and how far it is."""

    def __init__(
        self, model: Any, draw: Draw, held_out: Mapping[str, Sequence[Batch]], recipe: Recipe, folder: Path, data: str
    ) -> None:
        """Take up the run that `folder` holds, or begin one; UserError if it holds a run of another recipe or data.

        `draw` makes a batch from a random state and a task; `data` identifies what it draws from.
        """
        import torch

        self.model, self.draw, self.held_out, self.recipe, self.folder = model, draw, held_out, recipe, folder
        self.adapters = [it for it in model.modules() if isinstance(it, Adapted)]
        self.trainable = [weight for it in self.adapters for weight in (it.a, it.b)]
        self.optimizer = torch.optim.AdamW(self.trainable, lr=recipe.rate, weight_decay=0.0, betas=(0.9, 0.98))
        self.step = 0
        self.curve: list[dict[str, float]] = []
        """Losses on the held-out batches, by step."""
        folder.mkdir(parents=True, exist_ok=True)
        self._identity = {"recipe": asdict(recipe), "data": data}
        self._resume()

    def run(self, until: int | None = None) -> None:
        """Train up to step `until` (default: the recipe's last), logging to `log.jsonl` and saving checkpoints."""
        stop = min(self.recipe.steps, self.recipe.steps if until is None else until)
        started, seen, losses = time.monotonic(), 0, []
        while self.step < stop:
            loss, tokens = self._train()
            losses.append(loss)
            seen += tokens
            self.step += 1
            if self.step % LOG_EVERY == 0 or self.step == stop:
                speed = round(seen / (time.monotonic() - started), 1)
                write_log(
                    self.folder, {"step": self.step, "loss": sum(losses) / len(losses), "tokens_per_second": speed}
                )
                losses = []
            if self.step % self.recipe.evaluate_every == 0 or self.step == self.recipe.steps:
                self._measure()
            if self.step % self.recipe.save_every == 0 or self.step == stop:
                self.save()

    def evaluate(self) -> dict[str, float]:
        """Mean loss per answer token on each set of held-out batches."""
        import torch

        found = {}
        with torch.no_grad():
            for name, batches in self.held_out.items():
                parts = [answer_loss(self.model, it.prefix, it.prompts, it.answers) for it in batches]
                found[f"held_out_{name}"] = float(sum(loss for loss, _ in parts)) / max(1, sum(n for _, n in parts))
        return found

    @property
    def best(self) -> dict[str, float]:
        """The row of the curve with the lowest mean loss; its adapters are in `best.safetensors`."""
        return min(self.curve, key=_mean_loss)

    def _measure(self) -> None:
        from safetensors.torch import save_file

        row = {"step": self.step, **self.evaluate()}
        self.curve.append(row)
        write_log(self.folder, row)
        if self.best is row:
            unfinished = self.folder / ".best.partial"
            save_file(learnt(self.model), str(unfinished))
            unfinished.replace(self.folder / BEST)

    def _train(self) -> tuple[float, int]:
        import torch

        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate * rate_at(self.step, self.recipe)
        self.optimizer.zero_grad(set_to_none=True)
        seed = self.recipe.seed * 1_000_003 + self.step
        rng = random.Random(seed)  # noqa: S311
        torch.manual_seed(seed)
        batches = [self.draw(rng, task) for task in TASKS]
        answers = sum(len(it) for batch in batches for it in batch.answers)
        whole = 0.0
        for batch in batches:
            loss, _ = answer_loss(self.model, batch.prefix, batch.prompts, batch.answers)
            (loss / answers).backward()  # type: ignore[no-untyped-call]
            whole += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(self.trainable, self.recipe.clip)
        self.optimizer.step()
        return whole / answers, sum(batch.tokens for batch in batches)

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        state = {
            "identity": self._identity,
            "step": self.step,
            "curve": self.curve,
            "weights": [weight.detach() for weight in self.trainable],
            "optimizer": self.optimizer.state_dict(),
        }
        write_checkpoint(self.folder, state)

    def _resume(self) -> None:
        import torch

        state = read_checkpoint(self.folder, self._identity)
        if state is None:
            return
        with torch.no_grad():
            for weight, stored in zip(self.trainable, state["weights"], strict=True):
                weight.copy_(stored)
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.curve = state["step"], state["curve"]


def _mean_loss(row: dict[str, float]) -> float:
    losses = [value for name, value in row.items() if name != "step"]
    return sum(losses) / len(losses)

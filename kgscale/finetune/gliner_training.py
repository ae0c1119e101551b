"""The training loop of a GLiNER: mixed precision, early stopping, checkpoints, and an exact resume after any death.

Every random choice of a step comes from the seed and the number of the step, so that a run that was killed and resumed
gives the weights of one that was not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgscale.extract.gliner_faster import factor_scorer
from kgscale.finetune.adapter import ENCODER, add_adapters, learnt, save_learnt
from kgscale.finetune.checkpoint import read_checkpoint, write_checkpoint, write_log
from kgscale.finetune.faster import encoder_in_bf16, plain_attention, without_dropout
from kgscale.finetune.progress import Progress
from kgscale.finetune.schedule import Recipe, plan, rate_at

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LOG_EVERY = 50  # steps
BEST = "best.safetensors"

Draw = Callable[[int, random.Random], dict[str, Any]]
"""Makes a text, by its number, an item in the training format of gliner, with labels to ask for."""
Evaluate = Callable[[Mapping[str, Any]], dict[str, float]]
"""Tells, of learnt weights, at least their `f1` on held-out texts."""


def _silent(_: str) -> None:
    """Say nothing."""


class Training:
    """A training run in a folder: the model, its optimizer, and how far it is.

    Where torch.distributed is up, each of its processes computes a part of every batch, and the first one evaluates and
    writes.
    """

    def __init__(
        self,
        gliner: Any,
        lengths: Sequence[int],
        draw: Draw,
        recipe: Recipe,
        folder: Path,
        data: str,
        *,
        evaluate: Evaluate | None = None,
        say: Callable[[str], None] = _silent,
    ) -> None:
        """Take up the run that `folder` holds, or begin one; UserError if it holds a run of another recipe or data.

        `lengths` are those of the texts in words, and `data` identifies what `draw` draws from.
        """
        import torch

        torch.manual_seed(recipe.seed)
        self.gliner, self.lengths, self.draw, self.recipe, self.folder = gliner, lengths, draw, recipe, folder
        self.evaluate, self.say = evaluate, say
        self.model: Any = gliner.model
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.collator = gliner.data_collator_class(gliner.config, data_processor=gliner.data_processor)
        self._speed_up()
        self.model.to(self.device)
        parts: dict[bool, list[torch.nn.Parameter]] = {False: [], True: []}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                parts[name.startswith(ENCODER)].append(parameter)
        self.trainable = parts[False] + parts[True]
        rates = ((parts[False], recipe.head_rate), (parts[True], recipe.rate))
        self.optimizer = torch.optim.AdamW(
            [{"params": parameters, "lr": rate, "full": rate} for parameters, rate in rates],
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        together = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.rank, self.world = (
            (torch.distributed.get_rank(), torch.distributed.get_world_size()) if together else (0, 1)
        )
        # The pooler of many encoders takes no part in the loss.
        self.forward = (
            torch.nn.parallel.DistributedDataParallel(self.model, find_unused_parameters=not recipe.rank)
            if together
            else self.model
        )
        self.step = 0
        self.curve: list[dict[str, float]] = []
        """What the evaluations gave, by step."""
        self._loss = 0.0
        folder.mkdir(parents=True, exist_ok=True)
        self._identity = {"recipe": asdict(recipe), "data": data}
        self._resume()

    def _speed_up(self) -> None:
        if self.recipe.rank:
            add_adapters(self.model, self.recipe.rank, self.recipe.untouched)
            if self.recipe.bf16:
                encoder_in_bf16(self.model)
        without_dropout(self.model)
        if self.device == "cpu":
            plain_attention(self.model)
        factor_scorer(self.model)

    @property
    def best(self) -> dict[str, float]:
        """The row of the curve with the best F1, the first of equals; its weights are in `best.safetensors`."""
        return max(self.curve, key=lambda row: row["f1"])

    @property
    def stopped(self) -> bool:
        """Whether the F1 has not become better for as long as the recipe's patience."""
        patience = self.recipe.patience
        return bool(patience and self.curve) and len(self.curve) - 1 - self.curve.index(self.best) >= patience

    def run(self, until: int | None = None) -> None:
        """Train up to step `until` (default: the recipe's last), logging to `log.jsonl` and saving checkpoints."""
        batches = plan(self.lengths, self.recipe)
        last = self.recipe.steps
        stop = last if until is None else min(last, until)
        progress = Progress(self.step, last, self.say)
        losses = []
        self.model.train()
        while self.step < stop and not self.stopped:
            losses.append(self._train_on(batches[self.step]))
            self.step += 1
            progress.count(len(batches[self.step - 1]))
            if self.step % LOG_EVERY == 0 or self.step == stop:
                row = {"step": self.step, "loss": sum(losses) / len(losses)}
                self._log({**row, "sentences_per_second": round(progress.speed, 1)})
                losses = []
            every = self.recipe.evaluate_every
            measured = every and (self.step % every == 0 or self.step == last)
            if measured:
                with progress.pausing():
                    self._measure()
            if measured or self.step % self.recipe.save_every == 0 or self.step == stop:
                with progress.pausing():
                    self.save()
            if self.rank == 0:
                progress.tell(self.step, self._loss, self.curve, at_once=bool(measured) or self.step == stop)

    def _train_on(self, batch: Sequence[int]) -> float:
        import torch

        seed = self.recipe.seed * 1_000_003 + self.step
        torch.manual_seed(seed)
        random.seed(seed)  # gliner draws spans from it for some models
        rng = random.Random(seed)  # noqa: S311
        drawn = [self.draw(i, rng) for i in batch]
        words = sum(len(item["tokenized_text"]) for item in drawn)
        # A batch smaller than the number of processes leaves some with a text that others have too, at no weight.
        mine = drawn[self.rank :: self.world]
        inputs = self.collator(mine or drawn[:1])
        inputs = {name: it.to(self.device) if isinstance(it, torch.Tensor) else it for name, it in inputs.items()}
        for group in self.optimizer.param_groups:
            group["lr"] = group["full"] * rate_at(self.step, self.recipe)
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.recipe.bf16):
            loss: Any = self.loss_of(inputs)
        # Gradients are averaged over the processes, but the loss is a sum over all words.
        loss = loss * (self.world if mine else 0) / words
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trainable, self.recipe.clip)
        self.optimizer.step()
        self._loss = float(loss.detach())
        return self._loss

    def loss_of(self, inputs: dict[str, Any]) -> Tensor:
        """The loss of a batch, summed over its words."""
        loss: Tensor = self.forward(**inputs, reduction="sum").loss
        return loss

    def _measure(self) -> None:
        import torch

        assert self.evaluate is not None
        found: list[dict[str, float] | None] = [None]
        if self.rank == 0:
            weights = learnt(self.model, torch.float32)
            found = [{"step": self.step, **self.evaluate(weights)}]
            if not self.curve or found[0]["f1"] > self.best["f1"]:  # type: ignore[index]
                save_learnt(weights, self.folder / BEST)
        if self.world > 1:
            torch.distributed.broadcast_object_list(found)
        assert found[0] is not None
        self.curve.append(found[0])
        self._log(found[0])
        self.model.train()

    def _log(self, row: dict[str, float]) -> None:
        if self.rank == 0:
            write_log(self.folder, row)

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        if self.rank:
            return
        names = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        weights = {name: tensor for name, tensor in self.model.state_dict().items() if name in names}
        state = {"identity": self._identity, "step": self.step, "weights": weights, "curve": self.curve}
        state["optimizer"] = self.optimizer.state_dict()
        write_checkpoint(self.folder, state)

    def _resume(self) -> None:
        state = read_checkpoint(self.folder, self._identity)
        if state is None:
            return
        self.model.load_state_dict(state["weights"], strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.curve = state["step"], state["curve"]

    def best_weights(self) -> dict[str, Tensor]:
        """The weights that gave the best F1."""
        from safetensors.torch import load_file

        weights: dict[str, Tensor] = load_file(str(self.folder / BEST))
        return weights

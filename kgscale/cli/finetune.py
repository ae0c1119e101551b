"""The commands of `kgscale finetune`; what they do is in `kgscale.finetune`."""

from pathlib import Path
from typing import Annotated

import typer

from kgscale.cli.common import say, tell

training = typer.Typer(help="Train models on your own annotated texts.", no_args_is_help=True)


@training.command("llm")
def llm(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The config file (YAML).")],
    train: Annotated[list[Path], typer.Option(help="Annotated texts, in any format that kgscale reads.")],
    out: Annotated[Path, typer.Option(help="The model's directory, which must not be there yet.")],
    eval_: Annotated[
        list[Path] | None, typer.Option("--eval", help="Held-out texts; by default a tenth of the training texts.")
    ] = None,
    scored: Annotated[
        list[Path] | None, typer.Option(help="Gold that training must stay clear of; the config's always is.")
    ] = None,
    base: Annotated[str, typer.Option(help="A default model, a directory, or a Hugging Face id.")] = "smollm2-135m-kg",
    steps: Annotated[int, typer.Option(min=1)] = 300,
    batch: Annotated[int, typer.Option(min=1, help="Texts in a batch.")] = 10,
    rate: Annotated[float, typer.Option(help="The learning rate.")] = 5e-4,
    rank: Annotated[int, typer.Option(min=1, help="Of the adapters.")] = 16,
    seed: Annotated[int, typer.Option()] = 7,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a field of the config.")
    ] = None,
) -> None:
    """Train adapters for extraction by the config's schema, and write a model that vLLM serves. Again to resume."""
    from kgscale.configfile import load_config
    from kgscale.finetune.llm import Recipe
    from kgscale.finetune.llm_job import Job, finetune_llm

    settings = load_config(config, set_ or ())
    gold = [*(scored or ()), *([Path(settings.gold)] if settings.gold else ())]
    recipe = Recipe(steps=steps, batch=batch, rate=rate, rank=rank, seed=seed)
    tell(finetune_llm(Job(settings.schema_, train, eval_ or (), gold, base, out, recipe), say))


@training.command("gliner")
def gliner(
    train: Annotated[Path, typer.Option(help="A file of examples; `python -m kgscale.finetune.corpus` writes them.")],
    eval_: Annotated[Path, typer.Option("--eval", help="Held-out examples, on which the threshold is chosen.")],
    encoder: Annotated[Path, typer.Option(help="A directory with the encoder.")],
    out: Annotated[Path, typer.Option(help="Checkpoints, log and what was learnt; an existing run is resumed.")],
    steps: Annotated[int, typer.Option(min=1)] = 1600,
    threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Train heads and adapters of a new GLiNER on an encoder. Again to resume."""
    from kgscale.finetune.gliner import finetune_gliner

    tell(finetune_gliner(encoder, train, eval_, out, steps, threads))

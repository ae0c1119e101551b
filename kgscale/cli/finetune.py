"""The commands of `kgscale finetune`; what they do is in `kgscale.finetune`."""

from pathlib import Path
from typing import Annotated

import typer

from kgscale.cli.common import ConfigPath, Set, say, tell

training = typer.Typer(help="Train models on your own annotated texts.", no_args_is_help=True)


Train = Annotated[list[Path], typer.Option(help="Annotated texts, in any format that kgscale reads.")]
Out = Annotated[Path, typer.Option(help="The model's directory, which must not be there yet.")]
Scored = Annotated[
    list[Path] | None, typer.Option(help="Gold that training must stay clear of; the config's always is.")
]


@training.command("llm")
def llm(
    config: ConfigPath,
    train: Train,
    out: Out,
    eval_: Annotated[
        list[Path] | None, typer.Option("--eval", help="Held-out texts; by default a tenth of the training texts.")
    ] = None,
    scored: Scored = None,
    base: Annotated[str, typer.Option(help="A default model, a directory, or a Hugging Face id.")] = "smollm2-135m-kg",
    steps: Annotated[int, typer.Option(min=1)] = 300,
    batch: Annotated[int, typer.Option(min=1, help="Texts in a batch.")] = 10,
    rate: Annotated[float, typer.Option(help="The learning rate.")] = 5e-4,
    rank: Annotated[int, typer.Option(min=1, help="Of the adapters.")] = 16,
    seed: Annotated[int, typer.Option()] = 7,
    set_: Set = None,
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
    config: ConfigPath,
    train: Train,
    out: Out,
    eval_: Annotated[
        list[Path] | None, typer.Option("--eval", help="Held-out texts; by default a tenth of the documents.")
    ] = None,
    scored: Scored = None,
    base: Annotated[
        str, typer.Option(help="A default model, or a directory or Hugging Face id of a GLiNER or a bare encoder.")
    ] = "gliner-minilm",
    steps: Annotated[int, typer.Option(min=1, help="At most; see --patience.")] = 400,
    batch: Annotated[int, typer.Option(min=1, help="Windows of text in a batch.")] = 8,
    rate: Annotated[
        float | None, typer.Option(help="The encoder's learning rate; by default 1e-3, with --full 5e-5.")
    ] = None,
    head_rate: Annotated[
        float | None, typer.Option(help="That of the other layers; by default 3e-4, of fresh ones 1e-3.")
    ] = None,
    rank: Annotated[int, typer.Option(min=1, help="Of the adapters on the encoder.")] = 16,
    full: Annotated[bool, typer.Option("--full", help="Train all weights instead of adapters.")] = False,
    patience: Annotated[
        int, typer.Option(min=0, help="Evaluations in a row without a better F1 that end the training; 0: never.")
    ] = 4,
    seed: Annotated[int, typer.Option()] = 7,
    threads: Annotated[int | None, typer.Option(min=1, help="On a CPU; by default one per core.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes of Ray Train, each with a GPU if there is one.")] = 1,
    set_: Set = None,
) -> None:
    """Train a GLiNER on the config's entity types, with the threshold chosen on held-out texts. Again to resume."""
    from kgscale.config import GlinerEngine
    from kgscale.configfile import load_config
    from kgscale.finetune.gliner_job import Job, finetune_gliner

    settings = load_config(config, set_ or ())
    gold = [*(scored or ()), *([Path(settings.gold)] if settings.gold else ())]
    engine = next((it for it in settings.engines.values() if isinstance(it, GlinerEngine)), GlinerEngine())
    job = Job(
        settings.schema_,
        engine,
        train,
        eval_ or (),
        gold,
        base,
        out,
        steps=steps,
        batch=batch,
        rate=rate,
        head_rate=head_rate,
        rank=0 if full else rank,
        patience=patience,
        seed=seed,
        threads=threads,
        workers=workers,
    )
    tell(finetune_gliner(job, say))

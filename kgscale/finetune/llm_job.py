"""`kgscale finetune llm`: one's own annotated texts in, a model directory out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kgscale import __version__
from kgscale.config import SchemaConfig
from kgscale.errors import UserError
from kgscale.finetune.contamination import file_hashes, refuse_shared
from kgscale.finetune.facts import Document
from kgscale.finetune.llm import BEST, TASKS, Recipe, Training, load
from kgscale.finetune.llm_export import card, export
from kgscale.finetune.own import OwnMixture, OwnTexts, read_own, scored_texts
from kgscale.pretrained import fingerprint, locate

HELD_BACK = 0.1
"""Share of the training texts that is held back where no file to evaluate on is given."""
STATE = "training"


@dataclass(frozen=True)
class Job:
    """What to train: `scored` are gold files that the training texts must stay clear of."""

    schema: SchemaConfig
    train: Sequence[Path]
    evaluate: Sequence[Path]
    scored: Sequence[Path]
    base: str
    out: Path
    recipe: Recipe


def finetune_llm(job: Job, say: Callable[[str], None]) -> Path:
    """Train, merge and write the model; returns its directory. A run that was killed goes on where it was.

    Checkpoints and log lie beside the result, in a directory of the same name with `.training` at its end. Raises
    `UserError` for data that cannot be used, or that is in the gold to be scored.
    """
    from transformers import AutoTokenizer

    if job.out.exists():
        raise UserError("there is something already", where=str(job.out), hint="name another directory with --out")
    found = read_own(job.train, job.schema)
    apart = [*job.scored, *job.evaluate]
    refuse_shared(found.texts, scored_texts(job.scored, job.evaluate, job.schema))
    train, held = _parts(job, found, say)
    base = locate(job.base, "llm", say=say)
    tokenizer = AutoTokenizer.from_pretrained(str(base))
    batch, limit = job.recipe.batch, job.recipe.limit
    mixture = OwnMixture(tokenizer, train, job.schema, size=batch, limit=limit)
    measured = OwnMixture(tokenizer, held, job.schema, size=batch, limit=limit)
    hashes = {"train": file_hashes(job.train), "eval": file_hashes(job.evaluate)}
    identity = f"{hashes} {job.schema.model_dump_json()} {fingerprint(base)}"
    folder = job.out.with_name(f"{job.out.name}.{STATE}")
    training = Training(
        load(base, job.recipe),
        mixture.draw,
        {task.value: measured.in_order(task) for task in TASKS},
        job.recipe,
        folder,
        identity,
    )
    say(f"{len(train)} texts to train on, {len(held)} held out; from step {training.step} of {job.recipe.steps}")
    say(f"progress: {folder}/log.jsonl")
    training.run()
    record = {
        "name": job.out.name,
        "base": job.base,
        "base_fingerprint": fingerprint(base),
        "kgscale": __version__,
        "recipe": asdict(job.recipe),
        **hashes,
        "apart_from": [path.name for path in apart],
        "texts": len(train),
        "entities": sum(len(it.entities) for it in train),
        "relations": sum(len(it.relations) for it in train),
        "curve": training.curve,
        "kept_step": training.best["step"],
    }
    from safetensors.torch import load_file

    export(base, load_file(str(folder / BEST)), job.out, record, card(record))
    return job.out


def _parts(job: Job, found: OwnTexts, say: Callable[[str], None]) -> tuple[list[Document], list[Document]]:
    """What is trained on and what is held out; everything that was left out is told."""
    for problem in found.problems[:5]:
        say(problem)
    for name, count in found.left_out.most_common():
        say(f"left out: {count} annotations of type {name!r}, which the schema does not have")
    if job.evaluate:
        return found.documents, read_own(job.evaluate, job.schema).documents
    shuffled = random.Random(job.recipe.seed).sample(found.documents, len(found.documents))  # noqa: S311
    held = max(1, int(len(shuffled) * HELD_BACK))
    if len(shuffled) < 2:
        raise UserError("one text is too little to train on", where=", ".join(map(str, job.train)))
    return shuffled[held:], shuffled[:held]

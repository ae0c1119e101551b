"""`kgscale finetune gliner`: one's own annotated texts in, a GLiNER directory out."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kgscale import __version__
from kgscale.config import GlinerEngine, SchemaConfig
from kgscale.errors import UserError
from kgscale.extract.gliner_faster import best_dtype
from kgscale.finetune.contamination import file_hashes, refuse_shared
from kgscale.finetune.gliner_base import Base, find_base, widest_entity
from kgscale.finetune.gliner_export import export
from kgscale.finetune.gliner_held import HeldOut
from kgscale.finetune.gliner_own import OwnExamples, OwnLabels, scheme_of, windows_of
from kgscale.finetune.gliner_training import Training
from kgscale.finetune.own import OwnTexts, read_own, scored_texts
from kgscale.finetune.result import refuse_existing
from kgscale.finetune.schedule import Recipe
from kgscale.formats.common import Record
from kgscale.pretrained import fingerprint
from kgscale.text import words

HELD_BACK = 0.1
"""Share of the documents that is held back where no file to evaluate on is given."""
EVALUATIONS = 16
"""How many there are in a run that is not stopped early."""
ADAPTER_RATE, FULL_RATE = 1e-3, 5e-5
FRESH_HEAD_RATE, HEAD_RATE = 1e-3, 3e-4
STATE = "training"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """What to train: `scored` are gold files that the training texts must stay clear of; the rates may be left open."""

    schema: SchemaConfig
    engine: GlinerEngine
    """How extraction will ask the model: its wordings of the types, and its windows."""
    train: Sequence[Path]
    evaluate: Sequence[Path]
    scored: Sequence[Path]
    base: str
    out: Path
    steps: int = 400
    batch: int = 8
    rate: float | None = None
    head_rate: float | None = None
    rank: int = 16
    """Of the adapters; 0 trains all weights."""
    patience: int = 4
    seed: int = 7
    threads: int | None = None
    workers: int = 1


def finetune_gliner(job: Job, say: Say) -> Path:
    """Train and write the model; returns its directory. A run that was killed goes on where it was.

    Checkpoints and log lie beside the result, in a directory of the same name with `.training` at its end. Raises
    `UserError` for data or a base that cannot be used, or data that is in the gold to be scored.
    """
    refuse_existing(job.out)
    found = read_own(job.train, job.schema)
    refuse_shared(found.texts, scored_texts(job.scored, job.evaluate, job.schema))
    base = find_base(job.base, say)
    for problem in found.problems[:5]:
        say(problem)
    if job.workers > 1:
        from kgscale.finetune.gliner_workers import train_on_workers

        train_on_workers(job, say)
    else:
        train(job, base, found, say)
    return job.out


def train(job: Job, base: Base, found: OwnTexts, say: Say) -> None:
    """Train in this process, which may be one of several, and write the model."""
    import torch

    if job.threads:
        torch.set_num_threads(job.threads)
    learning, held = _parts(job, found.records)
    evaluate = HeldOut(base.open(), job.engine, job.schema, held)
    gliner = base.open()
    own = windows_of(learning, job.schema, evaluate.reader, widest_entity(gliner))
    if not own.entities:
        raise UserError("no annotated entity can be learnt", hint=_told(own)[0] if _told(own) else None)
    mean = sum(len(it.words) for it in own.examples) / len(own.examples)
    recipe = _recipe(job, base.fresh, sum(words(it.text) for it in held) / mean / job.batch)
    scheme = scheme_of(job.schema, job.engine.labels)
    labels = OwnLabels(own, scheme, evaluate.reader, int(getattr(gliner.config, "max_types", 0) or 25))
    hashes = {"train": file_hashes(job.train), "eval": file_hashes(job.evaluate)}
    engine = job.engine.model_dump(include={"labels", "window_overlap"})
    identity = f"{hashes} {job.schema.model_dump_json()} {engine} {fingerprint(base.source)}"
    folder = job.out.with_name(f"{job.out.name}.{STATE}")
    lengths = [len(it.words) for it in own.examples]
    run = Training(gliner, lengths, labels, recipe, folder, identity, evaluate=evaluate, say=say)
    if run.rank == 0:
        for line in _told(own):
            say(line)
        say(
            f"{len(learning)} texts ({len(lengths)} windows, {own.entities} mentions) to train on, "
            f"{len(held)} held out; from step {run.step} of {recipe.steps} on {run.device}"
        )
        say(f"progress: {folder}/log.jsonl")
    run.run()
    if run.rank:
        return
    if run.stopped:
        say(f"stopped at step {run.step}: no better F1 in {recipe.patience} evaluations")
    best = run.best
    say(f"kept: step {best['step']}, F1 {best['f1']:.3f} at threshold {best['threshold']:g}")
    record = {
        "name": job.out.name,
        "base": job.base,
        "base_fingerprint": fingerprint(base.source),
        "kgscale": __version__,
        "recipe": asdict(recipe),
        **hashes,
        "apart_from": [path.name for path in (*job.scored, *job.evaluate)],
        "types": list(job.schema.entity_types),
        "texts": len(learning),
        "entities": own.entities,
        "held_out": len(held),
        "curve": run.curve,
        "best": best,
        "spans_scored_apart": bool(getattr(gliner.config, "represent_spans", False)),
    }
    export(base, run.best_weights(), job.out, record)


def _recipe(job: Job, fresh: bool, share: float) -> Recipe:
    """The recipe of a job; `share` is how much there is to evaluate on, in batches."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    # To read a text takes a third of the time that it takes to train on it: no more than a quarter goes to evaluating.
    every = min(job.steps, max(1, round(job.steps / EVALUATIONS), math.ceil(share)))
    return Recipe(
        steps=job.steps,
        batch=job.batch,
        rate=job.rate or (ADAPTER_RATE if job.rank else FULL_RATE),
        head_rate=job.head_rate or (FRESH_HEAD_RATE if fresh else HEAD_RATE),
        rank=job.rank,
        save_every=every,
        evaluate_every=every,
        patience=job.patience,
        seed=job.seed,
        bf16=best_dtype(device) == torch.bfloat16,
    )


def _parts(job: Job, records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """What is trained on and what is held out: whole documents, since pieces of one may share words."""
    if job.evaluate:
        return list(records), read_own(job.evaluate, job.schema).records
    documents = list(dict.fromkeys(it.doc_id for it in records))
    if len(documents) < 2:
        documents = [it.gold.chunk_id for it in records]
        records = [replace(it, doc_id=it.gold.chunk_id) for it in records]
    if len(documents) < 2:
        raise UserError("one text is too little to train on", where=", ".join(map(str, job.train)))
    held = set(random.Random(job.seed).sample(documents, max(1, int(len(documents) * HELD_BACK))))  # noqa: S311
    return [it for it in records if it.doc_id not in held], [it for it in records if it.doc_id in held]


def _told(own: OwnExamples) -> list[str]:
    """Everything that is left out or used otherwise than one may think."""
    lines = [f"left out: {count} entities {reason}" for reason, count in own.left_out.most_common()]
    return lines + [
        f"{count} annotations of type {name!r}, which the schema does not have: learnt as a further label"
        for name, count in own.further.most_common()
    ]

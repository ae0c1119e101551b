"""The run card: what was run, on what, with what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from kgscale.report.figures import UNDEFINED, significant, whole
from kgscale.report.tables import engine_hours
from kgscale.report.texts import Texts
from kgscale.report.view import Focus, Table, named
from kgscale.runs import Run
from kgscale.score.results import GoldSummary, Scores
from kgscale.talk import visible

HASH_SHOWN = 16
"""Characters of a hash: enough to compare by eye."""
_NO_SETTINGS = ("kind", "model", "revision", "labels", "engine_args")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the card."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Card:
    """The whole card; `config` is YAML."""

    entries: tuple[Entry, ...]
    tables: tuple[Table, ...]
    config: str


def card(run: Run, scores: Scores, focus: Focus, devices: Sequence[str], t: Texts) -> Card:
    """What `run.json` and the scores say about the run."""
    info = run.info
    corpus: Mapping[str, Any] = info.get("corpus") or {}
    size = {key: whole(corpus.get(key)) for key in ("documents", "words")}
    entries = [
        Entry(t("run"), run.store.uri.rstrip("/").rsplit("/", 1)[-1]),
        Entry(t("created"), str(info.get("created_at") or UNDEFINED)),
        Entry(t("corpus"), t("corpus_text", chunks=whole(run.rows), **size)),
        Entry(t("corpus_hash"), _hash(run.fingerprint.get("corpus"))),
        *(_gold(scores.gold, t) if scores.gold else [Entry(t("gold"), UNDEFINED)]),
        Entry(t("seed"), str(run.config.seed)),
        Entry(t("hardware"), _listed(info.get("hardware"))),
    ]
    hours = [f"{it.method} {significant(engine_hours(it.latency.amortised.mean))}" for it in scores.methods]
    entries.append(Entry(t("cost_card"), ", ".join(hours)))
    if devices:
        entries.append(Entry(t("devices"), ", ".join(devices)))
    entries.append(Entry(t("versions"), _listed(info.get("versions"))))
    config = yaml.safe_dump(info["config"], allow_unicode=True, sort_keys=False, width=100)
    shown = tuple(Entry(it.label, visible(it.text)) for it in entries)
    return Card(shown, (_engines(run, t), _methods(run, focus, t)), visible(config))


def _gold(gold: GoldSummary, t: Texts) -> list[Entry]:
    origins = ", ".join(f"{it.what} {whole(it.count)}" for it in gold.origins)
    counts = {"chunks": whole(gold.chunks), "entities": whole(gold.entities), "relations": whole(gold.relations)}
    entries = [
        Entry(t("gold"), t("gold_text", origins=origins, **counts)),
        Entry(t("gold_hash"), gold.digest[:HASH_SHOWN]),
    ]
    if gold.annotator:
        entries.append(Entry(t("gold_annotator"), gold.annotator))
    if gold.partial:
        entries.append(Entry(t("gold_partial"), whole(gold.partial)))
    if gold.outside_corpus:
        entries.append(Entry(t("gold_outside"), whole(gold.outside_corpus)))
    if gold.nameless:
        entries.append(Entry(t("gold_nameless"), whole(gold.nameless)))
    return entries


def _engines(run: Run, t: Texts) -> Table:
    rows = []
    for name, engine in run.config.engines.items():
        values = engine.model_dump(mode="json", exclude_defaults=True)
        settings = ", ".join(f"{key} {value}" for key, value in values.items() if key not in _NO_SETTINGS)
        cells = (name, engine.kind, engine.model, getattr(engine, "revision", None) or UNDEFINED, settings or UNDEFINED)
        rows.append(tuple(named(visible(it)) for it in cells))
    return Table(t("engines"), (t("engine"), t("kind"), t("model"), t("revision"), t("settings")), tuple(rows))


def _methods(run: Run, focus: Focus, t: Texts) -> Table:
    stamps: Mapping[str, Any] = run.fingerprint.get("methods") or {}
    rows = []
    for name in focus.ordered(stamps):
        of = stamps[name] if isinstance(stamps[name], dict) else {}
        declared = run.config.methods.get(name)
        engine: Mapping[str, Any] = of.get("engine") or {}
        cells = (
            name,
            declared.entities if declared else UNDEFINED,
            (declared.relations if declared else None) or UNDEFINED,
            str(engine.get("model") or UNDEFINED),
            str(of.get("stamp") or UNDEFINED),
        )
        rows.append(tuple(named(visible(it)) for it in cells))
    head = (t("method"), t("entities_by"), t("relations_by"), t("contents_hash"), t("stamp"))
    return Table(t("how_methods"), head, tuple(rows))


def _hash(corpus: Any) -> str:
    text = str(corpus.get("sha256", "")) if isinstance(corpus, dict) else str(corpus or "")
    return text[:HASH_SHOWN] or UNDEFINED


def _listed(values: Any) -> str:
    if not isinstance(values, dict) or not values:
        return UNDEFINED
    return ", ".join(f"{key} {_value(value)}" for key, value in values.items())


def _value(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)

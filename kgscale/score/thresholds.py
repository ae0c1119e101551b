"""What a candidate is held to: F1 of entities and relations, and the scores of answers by retrieval."""

import difflib
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kgscale.config import AllowedDrop, CompareConfig, Threshold
from kgscale.errors import UserError
from kgscale.runs import Run
from kgscale.score.bootstrap import Paired
from kgscale.score.match import relation_mode
from kgscale.score.results import Interval, MethodScores
from kgscale.score.verdict import Difference, Standing

RAG_FILE = "rag.json"
RagScores = Mapping[str, Mapping[str, float | None]]
"""For each method its scores by name, from 0 to 1; null where undefined."""
_PARTS = ("faithfulness", "answer_relevance", "context_recall", "context_precision")
_MEAN = "ragas"


class _RagFile(BaseModel):
    """What `rag.json` holds; scores without a threshold and fields beside `methods` are left to others."""

    model_config = ConfigDict(extra="ignore")

    methods: dict[str, dict[str, Annotated[float, Field(ge=0, le=1, strict=True)] | None]]


def read_rag(run: Run) -> RagScores:
    """The scores in a run's `rag.json`, `{"methods": {NAME: {SCORE: 0.8, …}}}`; empty where there is none.

    `ragas`, the mean of the four, is worked out where it is missing. Raises `UserError` if the file is damaged, or
    holds a name that is nearly a known one.
    """
    if not run.store.exists(RAG_FILE):
        return {}
    try:
        found = _RagFile.model_validate_json(run.store.read(RAG_FILE)).methods
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(
            f"{field}: {first['msg']}",
            where=run.store.url(RAG_FILE),
            hint='it should be {"methods": {"llm": {"faithfulness": 0.8, …}, …}}, with scores from 0 to 1',
        ) from None
    _refuse_misspelt(run, found)
    return {method: _with_mean(scores) for method, scores in found.items()}


def _refuse_misspelt(run: Run, found: RagScores) -> None:
    """Other scores and methods may stand there too, but not what is nearly the name of one that is looked for."""
    for known, given in (([*_PARTS, _MEAN], {it for of in found.values() for it in of}), (run.methods, {*found})):
        for name in sorted(given - {*known}):
            near = difflib.get_close_matches(name.lower().replace(" ", "_").replace("-", "_"), known, n=1, cutoff=0.8)
            if near and near[0] not in given:
                raise UserError(
                    f"{name!r} is not known", where=run.store.url(RAG_FILE), hint=f"did you mean {near[0]}?"
                )


def f1_differences(
    baseline: MethodScores,
    candidate: MethodScores,
    rules: CompareConfig,
    entity: Paired | None,
    relation: Paired | None,
) -> tuple[Difference, Difference]:
    """Entity and relation F1 in the modes of `rules`, with what is known of their intervals."""
    pair = (baseline, candidate)
    relations = relation_mode(rules.relation_mode).mode.value
    return (
        _f1("entity", rules.entity_mode, pair, rules.entity_floor, rules.entity_drop, entity),
        _f1("relation", relations, pair, rules.relation_floor, rules.relation_drop, relation),
    )


def rag_differences(scores: RagScores, rules: CompareConfig) -> tuple[Difference, ...]:
    """Every RAG threshold, measured or not."""
    baseline, candidate = (scores.get(it, {}) for it in (rules.baseline, rules.candidate))
    return tuple(
        _rag(name, getattr(rules.rag, name), baseline.get(name), candidate.get(name))
        for name in type(rules.rag).model_fields
    )


def _f1(
    what: str,
    mode: str,
    methods: tuple[MethodScores, MethodScores],
    floor: float,
    allowed: AllowedDrop,
    found: Paired | None,
) -> Difference:
    metrics = [it.metric(mode) for it in methods]
    before, after = (it.f1 if it else None for it in metrics)
    drop = 100 * (before - after) if before is not None and after is not None else None
    sure = found.interval if found and drop is not None else None
    standing = Standing.COMPARED
    if drop is None:
        standing = Standing.UNDEFINED if all(metrics) else Standing.NOT_APPLICABLE
    return Difference(
        what=what,
        mode=mode,
        baseline=before,
        candidate=after,
        drop=drop,
        floor=floor,
        minimum=allowed.minimum,
        recommended=allowed.recommended,
        interval=Interval(100 * sure.low, 100 * sure.high) if sure else None,
        p_value=found.p_value if found and drop is not None else None,
        standing=standing,
    )


def _rag(name: str, threshold: Threshold, before: float | None, after: float | None) -> Difference:
    measured = before is not None and after is not None
    return Difference(
        what=name,
        mode="",
        baseline=before,
        candidate=after,
        drop=100 * (before - after) if before is not None and after is not None else None,
        floor=threshold.floor,
        minimum=threshold.drop.minimum if threshold.drop else None,
        recommended=threshold.drop.recommended if threshold.drop else None,
        standing=Standing.COMPARED if measured else Standing.NOT_MEASURED,
    )


def _with_mean(scores: Mapping[str, float | None]) -> dict[str, float | None]:
    parts = [value for it in _PARTS if (value := scores.get(it)) is not None]
    mean = {_MEAN: sum(parts) / len(parts)} if len(parts) == len(_PARTS) else {}
    return {**mean, **scores}

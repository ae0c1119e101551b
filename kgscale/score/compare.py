"""From scores to a verdict: which numbers are compared, and what stands in the way."""

import re
from dataclasses import dataclass

import polars as pl

from kgscale.config import CompareConfig
from kgscale.errors import UserError
from kgscale.runs import Run
from kgscale.score.attribution import ENTITY_MISSING
from kgscale.score.bootstrap import AFTER, COUNTS, Paired, by_unit, paired, units_of
from kgscale.score.decide import Case, decide
from kgscale.score.match import relation_mode
from kgscale.score.results import GoldSummary, Interval, Loss, MethodScores, Scores
from kgscale.score.samplesize import SampleSize, sample_sizes
from kgscale.score.tables import read_counts, read_scores
from kgscale.score.verdict import Difference, Verdict


@dataclass(frozen=True, slots=True)
class Evidence:
    """How sure the differences are; null where that is not known."""

    entity: Paired | None = None
    relation: Paired | None = None
    warnings: tuple[str, ...] = ()


UNKNOWN = Evidence()


def compare_run(run: Run, rules: CompareConfig) -> Verdict:
    """The verdict on a scored run, with intervals; raises `UserError` if the run or a method has no scores."""
    scores = read_scores(run)
    for name in (rules.baseline, rules.candidate):
        _method(scores, name)
    if scores.gold is None:
        return compare(scores, rules)
    favoured = _favoured(scores.gold, run, rules)
    modes = (rules.entity_mode, relation_mode(rules.relation_mode).mode)
    chunks = [paired_chunks(run, rules, mode) for mode in modes]
    units = [by_unit(it.drop("doc_id"), units_of(it)) for it in chunks]
    entity, relation = (paired(it, run.config.seed) for it in units)
    return compare(scores, rules, Evidence(entity, relation, favoured))


def paired_chunks(run: Run, rules: CompareConfig, mode: str) -> pl.DataFrame:
    """The counts of both methods in each gold chunk: row, doc_id, tp, fp, fn, tp_after, fp_after, fn_after."""
    before = read_counts(run, rules.baseline, mode)
    after = read_counts(run, rules.candidate, mode).rename(dict(zip(COUNTS, AFTER, strict=True)))
    return before.join(after.drop("doc_id"), on="row")


def samples_of(run: Run, rules: CompareConfig) -> tuple[SampleSize, ...]:
    """How wrong samples of this run's gold chunks would have been; empty without gold."""
    scores = read_scores(run)
    if scores.gold is None:
        return ()
    baseline, candidate = (_method(scores, name) for name in (rules.baseline, rules.candidate))
    chunks = paired_chunks(run, rules, rules.entity_mode)
    mode = relation_mode(rules.relation_mode).mode
    if baseline.metric(mode) and candidate.metric(mode):
        chunks = chunks.join(paired_chunks(run, rules, mode), on="row", suffix="_relation")
    return sample_sizes(chunks, speed_up(baseline, candidate), rules, run.config.seed)


def compare(scores: Scores, rules: CompareConfig, evidence: Evidence = UNKNOWN) -> Verdict:
    """Whether `rules.candidate` may replace `rules.baseline`, by the rules of `decide`.

    Where one of them finds no relations, entities alone are compared, and the verdict says so. Raises `UserError` if a
    method was not scored, or both are the same.
    """
    if rules.baseline == rules.candidate:
        raise UserError(f"baseline and candidate are both {rules.baseline!r}", hint="name two methods")
    baseline, candidate = (_method(scores, name) for name in (rules.baseline, rules.candidate))
    relations = relation_mode(rules.relation_mode)
    entity = _difference("entity", rules.entity_mode, (baseline, candidate), rules, evidence.entity)
    relation = _difference("relation", relations.mode, (baseline, candidate), rules, evidence.relation)
    notes = [
        f"the run is not finished: {it.method} has {it.statuses.rows} of {it.planned} rows"
        for it in (baseline, candidate)
        if it.statuses.rows < it.planned
    ]
    notes += evidence.warnings
    if relations.note:
        notes.append(relations.note)
    if scores.gold and relation.drop is None:
        notes.append(f"relations were not compared: {_why_not(baseline, candidate, relations.mode)}")
    notes += [
        _told(it)
        for it in scores.losses
        if it.relations and (it.before, it.after) == (baseline.method, candidate.method)
    ]
    case = Case(
        baseline=baseline.method,
        candidate=candidate.method,
        differences=(entity, relation),
        speed_up=speed_up(baseline, candidate),
        chunks=scores.gold.chunks if scores.gold else 0,
        obstacles=tuple(_obstacles(scores, (baseline, candidate), rules, entity)),
        notes=tuple(notes),
    )
    return decide(case, rules)


def speed_up(baseline: MethodScores, candidate: MethodScores) -> float | None:
    """The baseline's mean amortised time per chunk over the candidate's, or null where one is unknown."""
    before, after = baseline.latency.amortised.mean, candidate.latency.amortised.mean
    return before / after if before and after else None


def _difference(
    what: str, mode: str, methods: tuple[MethodScores, MethodScores], rules: CompareConfig, found: Paired | None
) -> Difference:
    allowed = rules.entity_drop if what == "entity" else rules.relation_drop
    baseline, candidate = (_f1(it, mode) for it in methods)
    known = baseline is not None and candidate is not None
    interval = found.interval if found and known else None
    return Difference(
        what=what,
        mode=str(mode),
        baseline=baseline,
        candidate=candidate,
        drop=100 * (baseline - candidate) if baseline is not None and candidate is not None else None,
        floor=rules.entity_floor if what == "entity" else rules.relation_floor,
        minimum=allowed.minimum,
        recommended=allowed.recommended,
        interval=Interval(100 * interval.low, 100 * interval.high) if interval else None,
        p_value=found.p_value if found and known else None,
    )


def _favoured(gold: GoldSummary, run: Run, rules: CompareConfig) -> tuple[str, ...]:
    """A warning for each method with a model of the annotator's family: such a gold favours it."""
    if gold.annotator is None:
        return ()
    config = run.config
    models = [
        (method, config.engines[engine].model)
        for method in (rules.baseline, rules.candidate)
        if (declared := config.methods.get(method))
        for engine in dict.fromkeys((declared.entities, declared.relations))
        if engine
    ]
    return tuple(
        f"the gold was made by {gold.annotator}, of the same model family as {model}: it favours {method}"
        for method, model in models
        if family(model) == family(gold.annotator)
    )


def family(model: str) -> str:
    """The family of a model, by the letters its name begins with: `Qwen/Qwen3-4B-Instruct` is of `qwen`."""
    found = re.match("[a-z]+", model.rstrip("/").rsplit("/", 1)[-1].lower())
    return found[0] if found else model.lower()


def _told(loss: Loss) -> str:
    blamed = sum(it.count for it in loss.causes if it.what in ENTITY_MISSING)
    return (
        f"of the {loss.relations:,} gold relations that {loss.before} finds and {loss.after} misses, "
        f"{blamed / loss.relations:.0%} have an entity missing; most often: {loss.causes[0].what}"
    )


def _obstacles(
    scores: Scores, methods: tuple[MethodScores, MethodScores], rules: CompareConfig, entity: Difference
) -> list[str]:
    if scores.gold is None:
        return ["there is no gold to compare with"]
    found = [
        f"{it.method} answered {it.coverage:.1%} of the gold chunks, and {rules.min_coverage:.0%} is needed"
        for it in methods
        if it.coverage is not None and it.coverage < rules.min_coverage
    ]
    if entity.drop is None:
        found.append(f"the entity F1 in mode {entity.mode} is undefined")
    return found


def _why_not(baseline: MethodScores, candidate: MethodScores, mode: str) -> str:
    without = [it.method for it in (baseline, candidate) if not it.checks.carries.relations]
    if without:
        return f"{' and '.join(without)} looks for none"
    return f"their F1 in mode {mode} is undefined"


def _f1(method: MethodScores, mode: str) -> float | None:
    metric = method.metric(mode)
    return metric.f1 if metric else None


def _method(scores: Scores, name: str) -> MethodScores:
    found = scores.method(name)
    if found is None:
        known = ", ".join(it.method for it in scores.methods)
        raise UserError(f"there are no scores of a method {name!r}", hint=f"there are scores of: {known}")
    return found

"""From scores to a verdict: which numbers are compared, and what stands in the way."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from kgscale.config import CompareConfig
from kgscale.errors import UserError
from kgscale.records import Origin
from kgscale.runs import Run
from kgscale.score.attribution import ENTITY_MISSING
from kgscale.score.bootstrap import AFTER, COUNTS, Paired, by_unit, paired, units_of
from kgscale.score.decide import Case, decide
from kgscale.score.match import relation_mode
from kgscale.score.results import GoldSummary, MethodScores, Scores
from kgscale.score.samplesize import sample_sizes
from kgscale.score.speed import ratio_interval, shard_times, speed_up
from kgscale.score.tables import read_counts, read_scores
from kgscale.score.thresholds import RagScores, f1_differences, rag_differences, read_rag
from kgscale.score.verdict import Difference, Fact, Kind, SampleSize, SpeedUp, Standing, Verdict


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run tells beyond its scores; null or empty where it does not."""

    entity: Paired | None = None
    relation: Paired | None = None
    speed_up: SpeedUp | None = None
    rag: RagScores | None = None
    samples: tuple[SampleSize, ...] = ()
    warnings: tuple[Fact, ...] = ()


UNKNOWN = Evidence()
Pair = tuple[MethodScores, MethodScores]
"""Baseline and candidate."""


def compare_run(run: Run, rules: CompareConfig) -> Verdict:
    """The verdict on a scored run, with intervals; raises `UserError` if the run or a method has no scores."""
    scores = read_scores(run)
    pair = _pair(scores, rules)
    speed = _sure_speed(run, pair)
    rag = read_rag(run)
    if scores.gold is None:
        return compare(scores, rules, Evidence(speed_up=speed, rag=rag))
    modes = (rules.entity_mode, relation_mode(rules.relation_mode).mode)
    entities, relations = (paired_chunks(run, rules, mode) for mode in modes)
    units = [by_unit(it.drop("doc_id"), units_of(it)) for it in (entities, relations)]
    entity, relation = (paired(it, run.config.seed) for it in units)
    sampled = entities
    if all(it.metric(modes[1]) for it in pair):
        sampled = entities.join(relations, on="row", suffix="_relation")
    evidence = Evidence(
        entity=entity,
        relation=relation,
        speed_up=speed,
        rag=rag,
        samples=sample_sizes(sampled, speed.times if speed else None, rules, run.config.seed),
        warnings=tuple(_favoured(scores.gold, run, rules)),
    )
    return compare(scores, rules, evidence)


def paired_chunks(run: Run, rules: CompareConfig, mode: str) -> pl.DataFrame:
    """The counts of both methods in each gold chunk: row, doc_id, tp, fp, fn, tp_after, fp_after, fn_after."""
    before = read_counts(run, rules.baseline, mode)
    after = read_counts(run, rules.candidate, mode).rename(dict(zip(COUNTS, AFTER, strict=True)))
    return before.join(after.drop("doc_id"), on="row")


def compare(scores: Scores, rules: CompareConfig, evidence: Evidence = UNKNOWN) -> Verdict:
    """Whether `rules.candidate` may replace `rules.baseline`, by the rules of `decide`.

    Where one of them finds no relations, entities alone are compared, and the verdict says so. Raises `UserError` if a
    method was not scored, or both are the same.
    """
    pair = _pair(scores, rules)
    baseline, candidate = pair
    entity, relation = f1_differences(baseline, candidate, rules, evidence.entity, evidence.relation)
    case = Case(
        baseline=baseline.method,
        candidate=candidate.method,
        differences=(entity, relation),
        speed_up=evidence.speed_up or speed_up(baseline, candidate),
        chunks=scores.gold.chunks if scores.gold else 0,
        rag=rag_differences(evidence.rag or {}, rules),
        obstacles=tuple(_obstacles(scores, pair, rules, entity)),
        notes=(*_notes(scores, pair, relation), *evidence.warnings, *_mode_name(rules), *_lost(scores, pair)),
        samples=evidence.samples,
    )
    return decide(case, rules)


def family(model: str) -> str:
    """The family of a model, by the letters its name begins with: `Qwen/Qwen3-4B-Instruct` is of `qwen`.

    `Meta-Llama-3-8B` and `Llama-3.1-8B` are one family: the maker's name in front is left out.
    """
    found = re.match("(?:meta-)?([a-z]+)", model.rstrip("/").rsplit("/", 1)[-1].lower())
    return found[1] if found else model.lower()


def _sure_speed(run: Run, pair: Pair) -> SpeedUp | None:
    """The speed-up with its interval."""
    found = speed_up(*pair)
    if found is None:
        return None
    times = shard_times(run, *(it.method for it in pair))
    return SpeedUp(found.times, ratio_interval(times), len(times))


def _notes(scores: Scores, pair: Pair, relation: Difference) -> Iterator[Fact]:
    if scores.gold and scores.gold.partial:
        yield Fact.of(Kind.PARTIAL_GOLD, partial=scores.gold.partial, chunks=scores.gold.chunks)
    if scores.gold and relation.drop is None:
        without = [it.method for it in pair if not it.checks.carries.relations]
        if without:
            yield Fact.of(Kind.NO_RELATIONS, methods=", ".join(without))
        else:
            yield Fact.of(Kind.UNDEFINED, what=relation.what, mode=relation.mode)
    for it in pair:
        if it.statuses.rows < it.planned:
            yield Fact.of(Kind.UNFINISHED, method=it.method, rows=it.statuses.rows, planned=it.planned)


def _mode_name(rules: CompareConfig) -> Iterator[Fact]:
    named = relation_mode(rules.relation_mode)
    if rules.relation_mode != named.mode:
        yield Fact.of(Kind.MODE_NAME, name=rules.relation_mode, mode=named.mode.value)


def _favoured(gold: GoldSummary, run: Run, rules: CompareConfig) -> Iterator[Fact]:
    """A warning for each method with a model of an annotator's family: such a gold favours it."""
    if gold.annotator is None:
        pseudo = sum(it.count for it in gold.origins if it.what == Origin.PSEUDO)
        if pseudo:
            yield Fact.of(Kind.UNKNOWN_ANNOTATOR, pseudo=pseudo)
        return
    config = run.config
    for method in (rules.baseline, rules.candidate):
        declared = config.methods.get(method)
        engines = (declared.entities, declared.relations) if declared else ()
        models = [config.engines[it].model for it in dict.fromkeys(engines) if it]
        for model in models:
            for annotator in gold.annotator.split(" + "):
                if family(model) == family(annotator):
                    yield Fact.of(Kind.SAME_FAMILY, annotator=annotator, model=model, method=method)


def _lost(scores: Scores, pair: Pair) -> Iterator[Fact]:
    for it in scores.losses:
        if it.relations and (it.before, it.after) == (pair[0].method, pair[1].method):
            blamed = sum(cause.count for cause in it.causes if cause.what in ENTITY_MISSING)
            yield Fact.of(
                Kind.LOST,
                relations=it.relations,
                baseline=it.before,
                candidate=it.after,
                entity_missing=blamed / it.relations,
                cause=it.causes[0].what,
            )


def _obstacles(scores: Scores, pair: Pair, rules: CompareConfig, entity: Difference) -> Iterator[Fact]:
    if scores.gold is None:
        yield Fact.of(Kind.NO_GOLD)
        return
    for it in pair:
        if it.coverage is not None and it.coverage < rules.min_coverage:
            yield Fact.of(Kind.COVERAGE, method=it.method, coverage=it.coverage, needed=rules.min_coverage)
    if entity.standing is not Standing.COMPARED:
        yield Fact.of(Kind.UNDEFINED, what=entity.what, mode=entity.mode)


def _pair(scores: Scores, rules: CompareConfig) -> Pair:
    if rules.baseline == rules.candidate:
        raise UserError(f"baseline and candidate are both {rules.baseline!r}", hint="name two methods")
    return _method(scores, rules.baseline), _method(scores, rules.candidate)


def _method(scores: Scores, name: str) -> MethodScores:
    found = scores.method(name)
    if found is None:
        known = ", ".join(it.method for it in scores.methods)
        raise UserError(f"there are no scores of a method {name!r}", hint=f"there are scores of: {known}")
    return found

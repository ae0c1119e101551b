"""The gate for CI: whether something got worse since an older run."""

from collections.abc import Sequence
from dataclasses import dataclass

from kgscale.config import SchemaConfig
from kgscale.errors import UserError
from kgscale.runs import Run
from kgscale.score.bootstrap import AFTER, COUNTS, Paired, by_unit, paired, units_of
from kgscale.score.match import Mode, relation_mode
from kgscale.score.results import Interval, Scores
from kgscale.score.tables import read_counts, read_scores

SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class MaxDrop:
    """How far a metric may fall: `entity_f1`, `relation_f1` or the F1 of any mode, from 0 to 1."""

    metric: str
    drop: float


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One metric of one method, then and now."""

    method: str
    metric: str
    mode: str
    before: float | None
    after: float | None
    drop: float | None
    """From -1 to 1: negative where it got better; null where undefined."""
    interval: Interval | None
    p_value: float | None
    allowed: float
    passed: bool
    """False where the drop is significant and larger than allowed, or the metric is no longer defined."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """What the gate found."""

    passed: bool
    checks: tuple[GateCheck, ...]
    reasons: tuple[str, ...]
    """Why it did not pass."""
    left_out: tuple[str, ...] = ()
    """Methods that only one of the runs has."""


def max_drop(text: str) -> MaxDrop:
    """Read `entity_f1=0.02`; raises `UserError`."""
    metric, equals, number = text.partition("=")
    try:
        drop = float(number)
    except ValueError:
        drop = -1
    if not equals or not 0 <= drop <= 1:
        raise UserError(f"--max-drop {text}: write it as metric=share, for example entity_f1=0.02")
    known = ("entity_f1", "relation_f1", *(it.value for it in Mode))
    if metric.strip() not in known:
        raise UserError(f"--max-drop {text}: there is no metric {metric!r}", hint=f"there are: {', '.join(known)}")
    return MaxDrop(metric.strip(), drop)


def gate(run: Run, against: Run, limits: Sequence[MaxDrop], methods: Sequence[str] = ()) -> GateResult:
    """Compare methods (by default every one that both runs have) with an older run, chunk by chunk.

    A check fails where the drop is larger than allowed and significant at 5 %. Raises `UserError` where the runs cannot
    be compared (not scored, or another corpus, gold or schema, each named), and where neither has a metric at all.
    """
    now, then = read_scores(run), read_scores(against)
    _comparable(run, against, now, then)
    names = list(methods) or [it.method for it in now.methods if then.method(it.method)]
    for name in names:
        for place, scores in ((run, now), (against, then)):
            if scores.method(name) is None:
                raise UserError(f"there are no scores of a method {name!r}", where=place.store.uri)
    if not names:
        raise UserError("the two runs have no method in common", where=run.store.uri)
    left_out = {it.method for it in (*now.methods, *then.methods)} - set(names) if not methods else set()
    checks = tuple(_check(run, against, name, limit, (then, now)) for name in names for limit in limits)
    for limit in limits:
        if all(it.before is None and it.after is None for it in checks if it.metric == limit.metric):
            raise UserError(
                f"neither run has {limit.metric} of {', '.join(names)}",
                where=run.store.uri,
                hint="a gate that measures nothing would always pass: name another metric or method",
            )
    floor = run.config.compare.min_coverage
    reasons = [
        f"{name} answered {it.coverage:.1%} of the gold chunks, and {floor:.0%} is needed"
        for name in names
        if (it := now.method(name)) and it.coverage is not None and it.coverage < floor
    ]
    reasons += [_reason(it) for it in checks if not it.passed]
    return GateResult(not reasons, checks, tuple(reasons), tuple(sorted(left_out)))


def _check(run: Run, against: Run, method: str, limit: MaxDrop, scores: tuple[Scores, Scores]) -> GateCheck:
    rules = run.config.compare
    modes = {"entity_f1": rules.entity_mode, "relation_f1": relation_mode(rules.relation_mode).mode.value}
    mode = modes.get(limit.metric, limit.metric)
    before, after = (_f1(it, method, mode) for it in scores)

    def checked(drop: float | None, found: Paired | None, *, passed: bool) -> GateCheck:
        sure, p = (found.interval, found.p_value) if found else (None, None)
        return GateCheck(method, limit.metric, mode, before, after, drop, sure, p, limit.drop, passed)

    if before is None or after is None:
        return checked(None, None, passed=before is None)
    old = read_counts(against, method, mode)
    new = read_counts(run, method, mode).rename(dict(zip(COUNTS, AFTER, strict=True))).drop("doc_id")
    found = paired(by_unit(old.join(new, on="row").drop("doc_id"), units_of(old)), run.config.seed)
    drop = before - after
    significant = found.p_value is not None and found.p_value < SIGNIFICANT
    # 0.80 - 0.78 is a little more than 0.02 in binary.
    return checked(drop, found, passed=not (significant and drop > limit.drop + 1e-9))


def _f1(scores: Scores, method: str, mode: str) -> float | None:
    of = scores.method(method)
    metric = of.metric(mode) if of else None
    return metric.f1 if metric else None


def _reason(it: GateCheck) -> str:
    if it.after is None or it.drop is None:
        return f"{it.method}: {it.metric} ({it.mode}) is no longer defined; it was {it.before:.3f}"
    return (
        f"{it.method}: {it.metric} ({it.mode}) fell by {it.drop:.3f} from {it.before:.3f} to {it.after:.3f}, "
        f"more than {it.allowed:g}, with p = {it.p_value:.2g}"
    )


def _scored_by(schema: SchemaConfig) -> dict[str, object]:
    """What scoring takes from a schema; descriptions belong to the prompt, whose changes a gate is there to judge."""
    return {
        "entity types": set(schema.entity_types),
        "relation types": {name: it.symmetric for name, it in schema.relation_types.items()},
        "aliases": schema.aliases,
    }


def _comparable(run: Run, against: Run, now: Scores, then: Scores) -> None:
    differences = []
    if now.corpus != then.corpus:
        differences.append("the corpus")
    if now.gold is None or then.gold is None:
        differences.append("the gold (one of the runs has none)")
    elif now.gold.digest != then.gold.digest:
        differences.append(f"the gold ({now.gold.chunks:,} chunks here, {then.gold.chunks:,} there)")
    here, there = (_scored_by(it.config.schema_) for it in (run, against))
    differences += [f"the schema's {name}" for name in here if here[name] != there[name]]
    if differences:
        raise UserError(
            f"the runs cannot be compared; they differ in {', '.join(differences)}",
            where=run.store.uri,
            hint=f"score both on the same corpus, gold and schema (the other run is {against.store.uri})",
        )

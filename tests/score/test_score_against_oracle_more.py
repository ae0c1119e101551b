"""The oracle once more: whole runs of two methods, with all that is reported of them, and chunks of very few names."""

import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
import score_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from score_helpers import answer, chunk_figures, gold_chunk, make_run
from test_score_oracle import IDS, KINDS, NAMES, RULES, TYPES

from kgscale.records import Entity, GoldEntity, Relation, Status
from kgscale.score.scorer import score_run
from kgscale.score.tables import CAUSES, CONFUSION, PER_DOCUMENT, PER_SOURCE, PER_TYPE, PER_TYPE_SPANS, read_table

DOCS = ["one", "one", "one", "two", "two", "three"]
TYPE_AT = {"name+type": 1, "pair+type": 2, "pair+type+entity_types": 2}
OUTCOMES = (
    *(f"{span}, {label} type" for span in ("same span", "overlap") for label in ("same", "other")),
    "missed",
    "spurious",
)
SPANS = st.none() | st.tuples(st.integers(0, 3), st.integers(1, 3))


def mentions(record, **more):
    def made(name, kind, span, **aliases):
        return record(name, kind, *((span[0], sum(span)) if span else (None, None)), **aliases)

    return st.lists(st.builds(made, NAMES, TYPES, SPANS, **more), max_size=5)


FEW_NAMES = st.sampled_from(["A", "a", "B"])
CROWDED = st.tuples(
    st.lists(st.builds(GoldEntity, FEW_NAMES, TYPES), max_size=6),
    st.lists(st.builds(Relation, FEW_NAMES, FEW_NAMES, KINDS), max_size=4),
    st.lists(st.builds(Entity, FEW_NAMES, TYPES), max_size=6),
    st.lists(st.builds(Relation, FEW_NAMES, FEW_NAMES, KINDS), max_size=4),
)
RELATIONS = st.lists(st.builds(Relation, NAMES, NAMES, KINDS), max_size=5)
GOLD = st.lists(st.sampled_from([*IDS, "elsewhere"]), unique=True, min_size=1).flatmap(
    lambda ids: st.tuples(
        *(
            st.builds(gold_chunk, st.just(it), mentions(GoldEntity, aliases=st.lists(NAMES, max_size=2)), RELATIONS)
            for it in ids
        )
    )
)
ANSWERS = st.lists(
    st.builds(answer, mentions(Entity), RELATIONS, status=st.sampled_from([Status.OK, *Status])), min_size=6, max_size=6
)


@dataclass
class Side:
    """What one side says in a chunk: a set of keys per mode, and its mentions."""

    sets: dict
    mentions: list

    @classmethod
    def of(cls, entities, relations, aliases=()):
        sets = oracle.chunk_sets(entities, relations, RULES, dict(aliases))
        spans = [(it.start, it.end, RULES.entity_type(it.type)) for it in entities if RULES.name(it.text)]
        return cls(sets, spans)


@dataclass
class Expected:
    """What the oracle counts of one method."""

    per_mode: dict
    per_type: dict
    per_document: dict
    spans: Counter
    span_types: dict
    confusion: Counter
    causes: Counter
    missed: dict
    """The cause of each gold relation that the method does not have: by chunk and key."""

    @classmethod
    def of(cls, gold, answers):
        """`answers` are the usable ones by chunk id."""
        it = cls(*(defaultdict(Counter) for _ in range(3)), Counter(), defaultdict(Counter), Counter(), Counter(), {})
        for chunk in gold:
            aliases = oracle.alias_map(chunk.entities, RULES)
            said = answers.get(chunk.chunk_id)
            found = (said.entities, said.relations) if said else ((), ())
            truth = Side.of(chunk.entities, chunk.relations, aliases)
            it.count(chunk, truth, Side.of(*found, aliases), answered=said is not None)
        return it

    def count(self, chunk, gold, said, answered):
        document = document_of(chunk)
        for mode in oracle.MODES:
            g, p = gold.sets[mode], said.sets[mode]
            for item in g | p:
                kind = {(True, True): "tp", (False, True): "fp", (True, False): "fn"}[item in g, item in p]
                self.per_mode[mode][kind] += 1
                self.per_document[mode, document][kind] += 1
                if mode in TYPE_AT:
                    self.per_type[mode, item[TYPE_AT[mode]]][kind] += 1
        for (kind, _, outcome), count in oracle.outcomes(gold.mentions, said.mentions).items():
            self.spans[outcome] += count
            self.span_types[kind][outcome] += count
        self.confusion += oracle.confused(gold.sets["name+type"], said.sets["name+type"])
        g, p = gold.sets["pair+type"], said.sets["pair+type"]
        for it in g - p:
            cause = oracle.why_missed(it, p, said.sets["name"]) if answered else "chunk not answered"
            self.missed[chunk.chunk_id, it] = cause
            self.causes["missed", it[2], cause] += 1
        for it in p - g:
            self.causes["spurious", it[2], oracle.why_spurious(it, g, gold.sets["name"])] += 1


def document_of(chunk):
    return DOCS[IDS.index(chunk.chunk_id)] if chunk.chunk_id in IDS else None


def carried(sides):
    """Whether entity types, relation types and offsets are given at all; `sides` are entities and relations."""
    sides = list(sides)
    entities = [it for side in sides for it in side[0]]
    relations = [it for side in sides for it in side[1]]
    return (
        not entities or any(RULES.entity_type(it.type) for it in entities),
        not relations or any(RULES.relation_type(it.type) for it in relations),
        not entities or any(it.start is not None for it in entities),
    )


def comparable(*carry):
    entity_types, relation_types, _ = (all(it) for it in zip(*carry, strict=True))
    needs = {"name+type": entity_types, "pair+type": relation_types}
    needs["pair+type+entity_types"] = entity_types and relation_types
    return [mode for mode in oracle.MODES if needs.get(mode, True)]


@settings(max_examples=40)
@given(st.lists(CROWDED, min_size=10, max_size=30))
def test_names_with_several_types_and_pairs_with_several_relations(chunks):
    ids = [f"c{n}" for n in range(len(chunks))]
    gold = [gold_chunk(name, *it[:2]) for name, it in zip(ids, chunks, strict=True)]
    said = {name: it[2:] for name, it in zip(ids, chunks, strict=True)}
    found = chunk_figures(gold, [answer(*it) for it in said.values()], ids)
    assert {(it["mode"], ids[it["row"]]): figures(it) for it in found.to_dicts()} == oracle.counts(gold, said, RULES)


def table(run, name, method, *by):
    """The rows of a method, by the columns `by`."""
    return {tuple(it[column] for column in by): it for it in read_table(run, name).to_dicts() if it["method"] == method}


def figures(it):
    return it["tp"], it["fp"], it["fn"]


@settings(max_examples=15)
@given(GOLD, ANSWERS, ANSWERS, st.integers(1, 6), st.sets(st.integers(0, 5), max_size=2))
def test_a_run_of_two_methods_is_what_the_oracle_says(gold, first, second, shard_chunks, without):
    """`without`: the chunks that the second method has not come to."""
    committed = {row // shard_chunks for row in range(6)} - {row // shard_chunks for row in without}
    answers = {"one": first, "two": [None if row in without else it for row, it in enumerate(second)]}
    rows = {
        "one": dict(zip(IDS, first, strict=True)),
        "two": {IDS[row]: it for row, it in enumerate(second) if row // shard_chunks in committed},
    }
    usable = {
        name: {chunk: it for chunk, it in all_rows.items() if it.status in (Status.OK, Status.TRUNCATED)}
        for name, all_rows in rows.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), IDS, answers, gold, docs=DOCS, shard_chunks=shard_chunks)
        scores = score_run(run)
        methods = [name for name in rows if rows[name]]
        assert [it.method for it in scores.methods] == methods
        expected = {name: Expected.of(gold, usable[name]) for name in methods}
        carry = {name: carried((it.entities, it.relations) for it in usable[name].values()) for name in methods}
        gold_carry = carried((it.entities, it.relations) for it in gold)
        for name in methods:
            modes = comparable(gold_carry, carry[name])
            check_scores(scores.method(name), expected[name], modes, spans=gold_carry[2] and carry[name][2])
            check_counts(scores.method(name), rows[name], usable[name], {it.chunk_id for it in gold})
            check_tables(run, name, expected[name], gold)
    if len(methods) == 2:
        both = comparable(gold_carry, *carry.values())
        check_agreement(scores.agreement, usable, comparable(*carry.values()))
        check_losses(scores.losses, expected, "pair+type" in both)
    else:
        assert scores.agreement == scores.losses == ()


def check_scores(scores, expected, modes, spans):
    assert [it.mode for it in scores.metrics] == modes
    for it in scores.metrics:
        counts = expected.per_mode[it.mode]
        assert (it.tp, it.fp, it.fn) == figures(counts)
        assert (it.precision, it.recall, it.f1) == pytest.approx(oracle.prf(*figures(counts)))
    found = {it.scheme: (it.correct, it.incorrect, it.partial, it.missed, it.spurious) for it in scores.spans}
    assert found == (oracle.schemes(expected.spans) if spans else {})
    for kind in ("missed", "spurious"):
        causes = Counter()
        for (side, _, cause), count in expected.causes.items():
            causes[cause] += count * (side == kind and "pair+type" in modes)
        assert {it.what: it.count for it in getattr(scores, kind)} == +causes


def check_counts(scores, rows, usable, annotated):
    assert scores.coverage == len(annotated & set(usable)) / len(annotated)
    assert scores.without_extraction == len(annotated - set(rows))
    assert scores.without_gold == len(set(rows) - annotated)
    statuses = Counter(it.status for it in rows.values())
    assert all(getattr(scores.statuses, it.value) == statuses[it] for it in Status)


def check_tables(run, name, expected, gold):
    types = {key: figures(it) for key, it in table(run, PER_TYPE, name, "mode", "type").items()}
    assert types == {key: figures(it) for key, it in expected.per_type.items()}
    documents = {document_of(it) for it in gold}
    by_document = {(mode, it): figures(expected.per_document[mode, it]) for mode in oracle.MODES for it in documents}
    found = table(run, PER_DOCUMENT, name, "mode", "doc_id")
    assert {key: figures(it) for key, it in found.items()} == by_document
    found = table(run, PER_SOURCE, name, "mode", "source")
    assert {(mode, it and it.removesuffix(".txt")): figures(row) for (mode, it), row in found.items()} == by_document
    spans = {
        kind: {outcome: it[outcome] for outcome in OUTCOMES if it[outcome]}
        for (kind,), it in table(run, PER_TYPE_SPANS, name, "type").items()
    }
    assert spans == expected.span_types
    confused = table(run, CONFUSION, name, "gold_type", "predicted_type")
    assert {key: it["count"] for key, it in confused.items()} == expected.confusion
    causes = table(run, CAUSES, name, "kind", "type", "cause")
    assert {key: it["count"] for key, it in causes.items()} == expected.causes


def check_agreement(agreement, usable, modes):
    """Over the chunks that both answered; the gold and its aliases have no part in it."""
    both = [it for it in IDS if all(it in of for of in usable.values())]
    sides = [[Side.of(of[it].entities, of[it].relations).sets for it in both] for of in usable.values()]
    f1s = {}
    for mode in modes:
        pairs = [(one[mode], two[mode]) for one, two in zip(*sides, strict=True)]
        shared, alone = (sum(map(len, it)) for it in ([a & b for a, b in pairs], [a ^ b for a, b in pairs]))
        f1s[mode] = 2 * shared / (2 * shared + alone) if shared or alone else None
    assert {it.mode: it.f1 for it in agreement} == pytest.approx(f1s)
    assert {it.chunks for it in agreement} == {len(both)}


def check_losses(losses, expected, comparable):
    assert len(losses) == 2 * comparable
    for it in losses:
        # A gold relation that only the second misses was found by the first.
        before, after = expected[it.before].missed, expected[it.after].missed
        causes = Counter(cause for relation, cause in after.items() if relation not in before)
        assert {x.what: x.count for x in it.causes} == causes
        assert it.relations == causes.total()

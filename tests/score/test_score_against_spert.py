"""Entities and relations beside SpERT's scores: the same numbers where each name is one span, and why not elsewhere.

SpERT (Eberts and Ulges, ECAI 2020, section 4) counts an entity as correct if its span and type are, and a relation if
its type and the spans of both ends are ("without NEC", PURE's `boundaries`), or also the types of both ends ("with
NEC", PURE's `strict`); sets per sentence, micro averages in percent. What is a span there is a name in kgscale.
"""

import json
import random
from dataclasses import dataclass, field

import pytest
import score_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from score_helpers import SCHEMA, answer, gold_chunk, score_once

from kgscale.records import Entity, GoldEntity, Relation

MODES = {"entities": "name+type", "boundaries": "pair+type", "strict": "pair+type+entity_types"}


@dataclass
class Sentence:
    """What one side says: spans, each with one type, and relations as head span, tail span, type."""

    entities: dict = field(default_factory=dict)
    relations: set = field(default_factory=set)


def spert(gold, found, symmetric=("partner_of",)):
    """Its three scores, each as precision, recall and F1."""

    def boundaries(it):
        """Of a symmetric relation the end that starts first is the head."""
        for head, tail, kind in it.relations:
            yield (tail, head, kind) if kind in symmetric and tail[0] < head[0] else (head, tail, kind)

    def strict(it):
        for head, tail, kind in boundaries(it):
            yield head, it.entities[head], tail, it.entities[tail], kind

    views = {"entities": lambda it: it.entities.items(), "boundaries": boundaries, "strict": strict}
    return {
        name: micro([(set(view(g)), set(view(f))) for g, f in zip(gold, found, strict=True)])
        for name, view in views.items()
    }


def micro(sides):
    correct = sum(len(gold & found) for gold, found in sides)
    possible, actual = (sum(len(it[number]) for it in sides) for number in (0, 1))
    precision, recall = correct / actual if actual else 0, correct / possible if possible else 0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0
    return 100 * precision, 100 * recall, 100 * f1


def kgscale(gold, found, names, schema=SCHEMA):
    """The same scores by kgscale's modes, and its span scores; `names` has the text of each sentence's spans."""

    def items(it, text, record):
        entities = [record(text[span], kind, *span) for span, kind in it.entities.items()]
        return entities, [Relation(text[head], text[tail], kind) for head, tail, kind in it.relations]

    numbered = list(enumerate(zip(gold, found, names, strict=True)))
    truth = [gold_chunk(f"s{n}", *items(it, text, GoldEntity)) for n, (it, _, text) in numbered]
    answers = [answer(*items(it, text, Entity)) for _, (_, it, text) in numbered]
    scores = score_once(truth, answers, schema=schema, shard_chunks=20)
    results = {name: scores.metric(mode) for name, mode in MODES.items()}
    results["spans"] = next(it for it in scores.spans if it.scheme == "strict")
    return {name: tuple(100 * (x or 0) for x in (it.precision, it.recall, it.f1)) for name, it in results.items()}


def same(ours, theirs):
    return all(ours[name] == pytest.approx(theirs[name]) for name in MODES)


@st.composite
def sentences(draw):
    """Gold and found, of few spans, so that they meet; no two spans of a side start at the same word."""
    sides = []
    for _ in range(2):
        starts = draw(st.sets(st.integers(0, 5), max_size=5))
        kinds = st.sampled_from(SCHEMA["entity_types"])
        entities = {(it, it + draw(st.integers(1, 2))): draw(kinds) for it in sorted(starts)}
        ends = st.sampled_from(sorted(entities) or [None])
        relation = st.tuples(ends, ends, st.sampled_from(list(SCHEMA["relation_types"])))
        sides.append(Sentence(entities, draw(st.sets(relation, max_size=5 if entities else 0))))
    return sides


@settings(max_examples=15)
@given(st.lists(sentences(), min_size=5, max_size=30))
def test_the_same_numbers_where_each_span_has_a_name_of_its_own(both):
    gold, found = zip(*both, strict=True)
    names = [{span: f"words {span}" for it in sides for span in it.entities} for sides in both]
    ours, theirs = kgscale(gold, found, names), spert(gold, found)
    assert same(ours, theirs)
    assert ours["spans"] == pytest.approx(theirs["entities"])


def test_the_same_numbers_on_real_sentences_where_each_name_is_one_span(data):
    rng = random.Random(3)
    rows = [json.loads(line) for line in data("crossre/ai-dev.json").read_text().splitlines()]
    all_gold = [crossre(it) for it in rows]
    kinds = sorted({kind for it in all_gold for kind in it.entities.values()})
    ties = sorted({kind for it in all_gold for *_, kind in it.relations})
    gold, found, names = [], [], []
    for row, it in zip(rows, all_gold, strict=True):
        said = perturbed(rng, it, len(row["sentence"]), kinds, ties)
        text = {span: " ".join(row["sentence"][slice(*span)]) for span in {**it.entities, **said.entities}}
        if len({oracle.key(name) for name in text.values()}) == len(text):
            gold.append(it)
            found.append(said)
            names.append(text)
    assert len(rows) * 0.9 < len(gold) < len(rows)
    schema = {"entity_types": kinds, "relation_types": {it: {"symmetric": it == "related-to"} for it in ties}}
    ours, theirs = kgscale(gold, found, names, schema), spert(gold, found, ["related-to"])
    assert same(ours, theirs)
    assert 20 < theirs["strict"][2] < theirs["boundaries"][2] < theirs["entities"][2] < 90


def crossre(row):
    """A line of CrossRE; its spans have inclusive ends."""
    spans = {(first, last + 1): kind for first, last, kind in row["ner"]}
    return Sentence(spans, {((a, b + 1), (c, d + 1), kind) for a, b, c, d, kind, *_ in row["relations"]})


def perturbed(rng, gold, words, kinds, ties):
    """As a model might have found it."""
    entities = {}
    for (start, end), kind in gold.entities.items():
        fate = rng.choices(["right", "longer", "type", "missed"], [70, 10, 10, 10])[0]
        if fate != "missed":
            span = (start, min(end + 1, words)) if fate == "longer" else (start, end)
            entities[span] = rng.choice(kinds) if fate == "type" else kind
    relations = set()
    for head, tail, kind in gold.relations:
        fate = rng.choices(["right", "turned", "type", "missed"], [70, 10, 10, 10])[0]
        if fate != "missed" and head in entities and tail in entities:
            ends = (tail, head) if fate == "turned" else (head, tail)
            relations.add((*ends, rng.choice(ties) if fate == "type" else kind))
    if len(entities) > 1 and rng.random() < 0.3:
        relations.add((*rng.sample(sorted(entities), 2), rng.choice(ties)))
    return Sentence(entities, relations)


FIRST, AGAIN, BOB = (0, 1), (4, 5), (8, 9)
NAMES = [{FIRST: "Acme", AGAIN: "Acme", BOB: "Bob"}]
ACME_TWICE = {FIRST: "organization", AGAIN: "organization", BOB: "person"}


def test_reason_names_a_name_mentioned_twice_is_one_entity():
    gold, found = [Sentence(ACME_TWICE)], [Sentence({FIRST: "organization", BOB: "person"})]
    ours, theirs = kgscale(gold, found, NAMES), spert(gold, found)
    assert theirs["entities"] == pytest.approx((100, 200 / 3, 80))
    assert ours["spans"] == pytest.approx(theirs["entities"])
    assert ours["entities"] == (100, 100, 100)


def test_reason_names_a_relation_of_another_mention_of_the_name_is_the_same():
    gold = [Sentence(ACME_TWICE, {(AGAIN, BOB, "founded_by")})]
    found = [Sentence(ACME_TWICE, {(FIRST, BOB, "founded_by")})]
    assert spert(gold, found)["boundaries"] == spert(gold, found)["strict"] == (0, 0, 0)
    ours = kgscale(gold, found, NAMES)
    assert ours["boundaries"] == ours["strict"] == (100, 100, 100)


def test_reason_names_a_relation_of_two_mentions_counts_once():
    gold = [Sentence(ACME_TWICE, {(FIRST, BOB, "founded_by"), (AGAIN, BOB, "founded_by")})]
    found = [Sentence(ACME_TWICE, {(FIRST, BOB, "founded_by")})]
    assert spert(gold, found)["boundaries"] == pytest.approx((100, 50, 200 / 3))
    assert kgscale(gold, found, NAMES)["boundaries"] == (100, 100, 100)


def test_reason_names_an_end_whose_name_has_two_types_has_the_first():
    types = {FIRST: "organization", AGAIN: "product", BOB: "person"}
    gold, found = [Sentence(types, {(FIRST, BOB, "uses")})], [Sentence(types, {(AGAIN, BOB, "uses")})]
    assert spert(gold, found)["strict"] == (0, 0, 0)
    assert kgscale(gold, found, NAMES)["strict"] == (100, 100, 100)


def test_reason_symmetric_also_where_both_ends_start_at_the_same_word():
    """SpERT orders the ends by where they start, and leaves those that start together as they are."""
    inner, outer = (0, 1), (0, 3)
    entities = {inner: "person", outer: "organization"}
    gold, found = ([Sentence(entities, {(*ends, "partner_of")})] for ends in ((inner, outer), (outer, inner)))
    assert spert(gold, found)["boundaries"] == (0, 0, 0)
    assert kgscale(gold, found, [{inner: "Bob", outer: "Bob & Sons"}])["boundaries"] == (100, 100, 100)


def test_reason_undefined_is_null_not_0():
    assert spert([Sentence()], [Sentence()])["entities"] == (0, 0, 0)
    metric = score_once([gold_chunk("s")], [answer()]).metric("name+type")
    assert metric.precision is metric.recall is metric.f1 is None

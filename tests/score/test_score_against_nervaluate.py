"""Spans beside nervaluate: the same numbers where its rules meet ours, and each difference with its reason.

They meet where no mention overlaps two of the other side. Elsewhere nervaluate pairs mentions greedily in the order of
its lists, and anew for each scheme; kgscale pairs them once, the best first, in any order of theirs.
"""

import random
import re
from itertools import groupby

import nervaluate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_helpers import answer, gold_chunk, make_run, score_once

from kgscale.formats.conll import read_conll
from kgscale.records import Entity, GoldEntity
from kgscale.score.scorer import score_run
from kgscale.score.tables import PER_TYPE_SPANS, read_table

KINDS = "ab"
SCHEMES = {"strict": "strict", "exact": "exact", "partial": "partial", "type": "ent_type"}
FIGURES = ("correct", "incorrect", "partial", "missed", "spurious", "possible", "actual", "precision", "recall", "f1")


def ours(gold, found, **more):
    """The `FIGURES` by scheme."""
    truth = [gold_chunk(f"c{n}", [GoldEntity("x", kind, s, e) for s, e, kind in it]) for n, it in enumerate(gold)]
    answers = [answer([Entity("x", kind, s, e) for s, e, kind in it]) for it in found]
    spans = score_once(truth, answers, shard_chunks=7, **more).spans
    scores = {}
    for it in spans:
        aligned = it.correct + it.incorrect + it.partial
        counts = it.correct, it.incorrect, it.partial, it.missed, it.spurious
        totals = aligned + it.missed, aligned + it.spurious
        scores[it.scheme] = *counts, *totals, it.precision, it.recall, it.f1
    return scores


def nervaluates(side):
    """Its ends are inclusive."""
    return [[{"label": kind, "start": s, "end": e - 1} for s, e, kind in it] for it in side]


def theirs(gold, found, tags=KINDS, **more):
    evaluator = nervaluate.Evaluator(nervaluates(gold), nervaluates(found), tags=list(tags), loader="dict", **more)
    overall = evaluator.evaluate()["overall"]
    counts = (
        "correct",
        "incorrect",
        "partial",
        "missed",
        "spurious",
        "possible",
        "actual",
        "precision",
        "recall",
        "f1",
    )
    return {ours: tuple(getattr(overall[theirs], it) for it in counts) for ours, theirs in SCHEMES.items()}


def same(ours, theirs):
    """Whether all ten figures are the same; nervaluate's ratios are 0 where they are undefined."""
    return all(tuple(it or 0 for it in ours[scheme]) == pytest.approx(theirs[scheme]) for scheme in SCHEMES)


def overlaps(one, other):
    return one[0] < other[1] and other[0] < one[1]


def clear(gold, found):
    """Whether no mention stands twice or overlaps two of the other side."""
    unique = len(set(gold)) == len(gold) and len(set(found)) == len(found)
    return unique and all(
        sum(overlaps(one, other) for other in others) <= 1
        for mentions, others in ((gold, found), (found, gold))
        for one in mentions
    )


def best_first(gold, found):
    """What was found, in the order in which nervaluate finds all that is to be found."""

    def twins_first(mention):
        return mention[:2], mention not in gold

    ranked = []
    for span, group in groupby(sorted(found, key=twins_first), key=lambda it: it[:2]):
        places = sum(it[:2] == span for it in gold)
        ranked += [((it not in gold, rank >= places), it) for rank, it in enumerate(group)]
    return [it for _, it in sorted(ranked)]


def mention(first, last, longest):
    return st.builds(
        lambda s, n, k: (s, s + n, k), st.integers(first, last), st.integers(1, longest), st.sampled_from("ab")
    )


MENTIONS = st.lists(mention(0, 9, 5), max_size=6, unique=True)
DOCUMENTS = st.lists(st.tuples(MENTIONS, MENTIONS), min_size=10, max_size=40)
PLACES = st.lists(st.tuples(st.none() | mention(0, 1, 3), st.none() | mention(0, 1, 3)), max_size=8)


def placed(places):
    """A document with at most one mention of either side at each place."""

    def side(number):
        there = [(10 * n, it[number]) for n, it in enumerate(places) if it[number]]
        return [(at + start, at + end, kind) for at, (start, end, kind) in there]

    return side(0), side(1)


APART = st.lists(st.builds(placed, PLACES), min_size=10, max_size=40)
FEW = settings(max_examples=15)


@FEW
@given(APART)
def test_the_same_numbers_where_no_mention_overlaps_two(documents):
    assert all(clear(*it) for it in documents)
    gold, found = zip(*documents, strict=True)
    assert same(ours(gold, found), theirs(gold, found))


@FEW
@given(DOCUMENTS)
def test_elsewhere_the_order_is_all_that_keeps_nervaluate_from_what_is_correct(documents):
    gold, found = zip(*documents, strict=True)
    sorted_found = [best_first(*it) for it in documents]
    us, them, at_best = ours(gold, found), theirs(gold, found), theirs(gold, sorted_found)
    for scheme in SCHEMES:
        assert us[scheme][5:7] == them[scheme][5:7], "possible and actual"
    for scheme in ("strict", "exact", "partial"):
        assert them[scheme][0] <= us[scheme][0] == at_best[scheme][0], "correct"


def test_the_same_numbers_on_real_sentences(data):
    rng = random.Random(17)
    records = list(read_conll(data("crossner/ai/dev.txt")).records)
    gold = [[(it.start, it.end, it.type) for it in record.gold.entities] for record in records]
    kinds = sorted({kind for it in gold for _, _, kind in it})
    found = [perturbed(rng, it, record.text, kinds) for it, record in zip(gold, records, strict=True)]
    documents = list(zip(gold, found, strict=True))
    plain = [it for it in documents if clear(*it)]
    assert len(records) > 300
    assert len(plain) > 0.8 * len(documents)
    gold, found = zip(*plain, strict=True)
    us = ours(gold, found)
    assert same(us, theirs(gold, found, kinds))
    # Every kind of error is there to be counted.
    assert all(all(us[scheme][:2]) and all(us[scheme][3:5]) for scheme in ("strict", "exact", "type"))
    assert us["partial"][2] > 0


def perturbed(rng, mentions, text, kinds):
    """As a model might have found them: some missed, some of another type, some with another end, some made up."""
    words = [it.span() for it in re.finditer(r"\S+", text)]
    found = set()
    for start, end, kind in mentions:
        shorter = max((it for _, it in words if start < it < end), default=end)
        longer = min((it for _, it in words if it > end), default=end)
        (as_found,) = rng.choices(
            [(start, end, kind), (start, shorter, kind), (start, longer, kind), (start, end, rng.choice(kinds)), None],
            [45, 15, 15, 10, 15],
        )
        found.add(as_found)
    if rng.random() < 0.3:
        found.add((*rng.choice(words), rng.choice(kinds)))
    found.discard(None)
    return rng.sample(sorted(found), len(found))


def counts(scores, scheme):
    """Correct, incorrect, partial, missed, spurious."""
    return scores[scheme][:5]


def test_reason_order_a_worse_match_that_comes_first_takes_the_place_of_a_better():
    gold, found = [[(0, 5, "a")]], [(0, 3, "a"), (0, 5, "a")]
    assert counts(theirs(gold, [found]), "strict") == (0, 1, 0, 0, 1)
    assert counts(theirs(gold, [found[::-1]]), "strict") == (1, 0, 0, 0, 1)
    assert counts(ours(gold, [found]), "strict") == counts(ours(gold, [found[::-1]]), "strict") == (1, 0, 0, 0, 1)


def test_reason_order_of_the_gold():
    gold, found = [(0, 4, "a"), (4, 8, "a")], [[(2, 7, "a"), (0, 1, "a")]]
    assert counts(theirs([gold], found), "partial") == (0, 0, 1, 1, 1)
    assert counts(theirs([gold[::-1]], found), "partial") == (0, 0, 2, 0, 0)
    # (4, 8) shares three characters with (2, 7), and (0, 4) two.
    assert counts(ours([gold], found), "partial") == counts(ours([gold[::-1]], found), "partial") == (0, 0, 2, 0, 0)


def test_reason_one_pairing_for_all_schemes_by_the_larger_overlap():
    """In the scheme `ent_type` nervaluate pairs by the closest ends, in the others by order; kgscale always alike."""
    gold, found = [[(0, 11, "a"), (10, 13, "a")]], [[(6, 12, "a"), (0, 3, "a")]]
    assert counts(theirs(gold, found), "type") == (2, 0, 0, 0, 0)
    assert counts(theirs(gold, found), "partial") == (0, 0, 1, 1, 1)
    assert counts(ours(gold, found), "type") == (1, 0, 0, 1, 1)
    assert counts(ours(gold, found), "partial") == (0, 0, 1, 1, 1)


def test_reason_sets_the_same_mention_twice_counts_once():
    one, twice = [[(0, 5, "a")]], [[(0, 5, "a")] * 2]
    assert counts(theirs(one, twice), "strict") == (1, 0, 0, 0, 1)
    assert counts(theirs(twice, one), "strict") == (1, 0, 0, 1, 0)
    assert counts(ours(one, twice), "strict") == counts(ours(twice, one), "strict") == (1, 0, 0, 0, 0)


def test_reason_least_overlap_a_character_is_enough():
    """Nervaluate asks for a hundredth of the gold mention, and for more where it is told to."""
    gold, found = [[(0, 200, "a")]], [[(199, 205, "a")]]
    assert counts(theirs(gold, found), "partial") == (0, 0, 0, 1, 1)
    assert counts(ours(gold, found), "partial") == (0, 0, 1, 0, 0)
    gold, found = [[(0, 4, "a")]], [[(3, 9, "a")]]
    assert same(ours(gold, found), theirs(gold, found))
    assert counts(theirs(gold, found, min_overlap_percentage=50), "partial") == (0, 0, 0, 1, 1)


def test_reason_exclusive_ends_neighbours_do_not_overlap():
    gold, found = [[(0, 5, "a")]], [[(5, 8, "a")]]
    assert counts(ours(gold, found), "partial") == (0, 0, 0, 1, 1)
    assert same(ours(gold, found), theirs(gold, found))
    as_they_are = [[[{"label": k, "start": s, "end": e} for s, e, k in it] for it in side] for side in (gold, found)]
    wrong = nervaluate.Evaluator(*as_they_are, tags=["a"], loader="dict").evaluate()["overall"]["partial"]
    assert (wrong.partial, wrong.missed, wrong.spurious) == (1, 0, 0)


def test_reason_undefined_is_null_not_0():
    gold, found = [[(0, 5, "a")]], [[]]
    assert theirs(gold, found)["strict"][7:] == (0, 0, 0)
    assert ours(gold, found)["strict"][7:] == (None, 0, 0)


def test_reason_every_label_counts_also_one_off_the_schema():
    """Nervaluate leaves out what is not among its `tags`; kgscale scores it, and lists the label as unmapped."""
    gold, found = [[(0, 5, "a")]], [[(0, 5, "a"), (7, 9, "gadget")]]
    assert counts(theirs(gold, found), "strict") == (1, 0, 0, 0, 0)
    assert counts(ours(gold, found), "strict") == (1, 0, 0, 0, 1)


def test_reason_keys_labels_are_compared_in_normal_form():
    gold, found = [[(0, 5, "ORG")]], [[(0, 5, "Organization")]]
    assert counts(theirs(gold, found, ["ORG", "Organization"]), "strict") == (0, 1, 0, 0, 0)
    assert counts(ours(gold, found), "strict") == (1, 0, 0, 0, 0)


def test_reason_joined_by_id_not_by_position():
    gold = [gold_chunk("one", [GoldEntity("x", "a", 0, 5)]), gold_chunk("two", [GoldEntity("x", "a", 7, 9)])]
    answers = [answer([Entity("x", "a", 7, 9)]), answer([Entity("x", "a", 0, 5)])]
    assert score_once(gold, answers, ids=["two", "one"]).spans[0].correct == 2
    assert counts(theirs([[(0, 5, "a")], [(7, 9, "a")]], [[(7, 9, "a")], [(0, 5, "a")]]), "strict") == (0, 0, 0, 2, 2)


def test_reason_per_type_a_mention_of_another_type_is_one_error_not_two(tmp_path):
    gold, found = [[(0, 5, "a")]], [[(0, 5, "b")]]
    by_tag = nervaluate.Evaluator(nervaluates(gold), nervaluates(found), tags=["a", "b"], loader="dict").evaluate()
    assert (by_tag["entities"]["a"]["strict"].missed, by_tag["entities"]["b"]["strict"].spurious) == (1, 1)
    truth, said = [gold_chunk("c", [GoldEntity("x", "a", 0, 5)])], [answer([Entity("x", "b", 0, 5)])]
    run = make_run(tmp_path, ["c"], {"m": said}, truth)
    score_run(run)
    (only,) = read_table(run, PER_TYPE_SPANS).to_dicts()
    assert (only["type"], only["same span, other type"], only["missed"], only["spurious"]) == ("a", 1, 0, 0)

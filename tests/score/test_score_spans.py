"""Mentions with offsets: SemEval's schemes, and the alignment against an oracle."""

from collections import Counter

import pytest
import score_oracle as oracle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from score_helpers import answer, compared, gold_chunk, make_run

from kgscale.records import Entity, GoldEntity
from kgscale.score.scorer import score_run
from kgscale.score.tables import PER_TYPE_SPANS, read_table


def truths(gold):
    return [gold_chunk(f"c{n}", [GoldEntity(f"x{s}", kind, s, e) for s, e, kind in it]) for n, it in enumerate(gold)]


def answers_of(found):
    return [answer([Entity(f"x{s}", kind, s, e) for s, e, kind in it]) for it in found]


def scores(path, gold, found):
    truth = truths(gold)
    run = make_run(path, [it.chunk_id for it in truth], {"m": answers_of(found)}, truth, shard_chunks=3)
    method = score_run(run).methods[0]
    return {it.scheme: it for it in method.spans}, run


def kinds(it):
    return it.correct, it.incorrect, it.partial, it.missed, it.spurious


@pytest.mark.parametrize(
    ("gold", "found", "strict", "exact", "partial", "type_"),
    [
        ([(0, 5, "a")], [(0, 5, "a")], "c", "c", "c", "c"),
        ([(0, 5, "a")], [(0, 5, "b")], "i", "c", "c", "i"),
        ([(0, 5, "a")], [(3, 8, "a")], "i", "i", "p", "c"),
        ([(0, 5, "a")], [(3, 8, "b")], "i", "i", "p", "i"),
        ([(0, 5, "a")], [], "m", "m", "m", "m"),
        ([], [(0, 5, "a")], "s", "s", "s", "s"),
        ([(0, 5, "a")], [(5, 8, "a")], "ms", "ms", "ms", "ms"),
    ],
)
def test_the_error_kinds(tmp_path, gold, found, strict, exact, partial, type_):
    by_scheme, _ = scores(tmp_path, [gold or [], [(0, 1, "z")]], [found, [(0, 1, "z")]])
    for scheme, expected in (("strict", strict), ("exact", exact), ("partial", partial), ("type", type_)):
        wanted = [expected.count(letter) for letter in "cipms"]
        wanted[0] += 1
        assert list(kinds(by_scheme[scheme])) == wanted, scheme


def test_a_partial_match_counts_half(tmp_path):
    by_scheme, _ = scores(tmp_path, [[(0, 4, "a"), (10, 14, "a")]], [[(0, 4, "a"), (12, 16, "a")]])
    assert by_scheme["partial"].f1 == 0.75
    assert by_scheme["strict"].f1 == 0.5


def test_a_mention_without_offsets_overlaps_nothing(tmp_path):
    by_scheme, _ = scores(tmp_path / "1", [[(0, 4, "a")]], [[(None, None, "a"), (0, 4, "a")]])
    assert kinds(by_scheme["strict"]) == (1, 0, 0, 0, 1)
    by_scheme, _ = scores(tmp_path / "2", [[(None, None, "a"), (9, 12, "a")]], [[(0, 4, "a")]])
    assert kinds(by_scheme["partial"]) == (0, 0, 0, 2, 1)


def test_without_offsets_there_are_no_span_scores(tmp_path):
    assert scores(tmp_path / "1", [[(None, None, "a")]], [[(0, 4, "a")]])[0] == {}
    assert scores(tmp_path / "2", [[(0, 4, "a")]], [[(None, None, "a")]])[0] == {}


def test_outcomes_by_type(tmp_path):
    _, run = scores(tmp_path, [[(0, 4, "a"), (6, 9, "b")]], [[(0, 4, "b"), (20, 22, "c")]])
    table = {it["type"]: it for it in read_table(run, PER_TYPE_SPANS).to_dicts()}
    assert table["a"]["same span, other type"] == 1
    assert table["b"]["missed"] == 1
    assert table["c"]["spurious"] == 1


MENTIONS = st.lists(
    st.builds(lambda s, n, k: (s, s + n, k), st.integers(0, 12), st.integers(1, 6), st.sampled_from("ab")), max_size=6
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(MENTIONS, MENTIONS), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_same_alignment_as_the_oracle_in_any_order(chunks, rng):
    gold, found = ([rng.sample(it[side], len(it[side])) for it in chunks] for side in (0, 1))
    spans = compared(truths(gold), answers_of(found), [f"c{n}" for n in range(len(gold))]).found.spans
    expected = Counter()
    for row, (truth, said) in enumerate(chunks):
        expected.update({(row, *it): count for it, count in oracle.outcomes(truth, said).items()})
    assert Counter(spans.rows()) == expected

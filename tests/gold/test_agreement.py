"""Agreement between two annotations, against figures worked out by hand and against another implementation."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.config import SchemaConfig
from kgscale.errors import UserError
from kgscale.gold.agreement import agreement, cohen
from kgscale.records import GoldChunk, GoldEntity, Relation
from kgscale.score.match import Mode

TEXT = "Ada of Acme met Bob in Oslo."
SCHEMA = SchemaConfig()
ADA, BOB = GoldEntity("Ada", "person", 0, 3), GoldEntity("Bob", "person", 16, 19)
ACME, OSLO = GoldEntity("Acme", "organization", 7, 11), GoldEntity("Oslo", "location", 23, 27)
WORKS = Relation("Ada", "Acme", "works_for")


def chunk(entities, relations=(), chunk_id="c0", text=TEXT):
    return GoldChunk(chunk_id, list(entities), list(relations), text=text)


def f1(found, mode):
    return next(it for it in found.modes if it.mode == mode)


def test_by_hand():
    first = chunk([ADA, ACME, BOB], [WORKS, Relation("Ada", "Bob", "partner_of")])
    second = chunk(
        [ADA, replace(ACME, type="product"), replace(OSLO, start=None, end=None)],
        [Relation("Ada", "Acme", "founded_by"), Relation("Bob", "Ada", "partner_of")],
    )
    found = agreement([first], [second], SCHEMA)
    assert (f1(found, Mode.NAME).both, f1(found, Mode.NAME).f1) == (2, pytest.approx(4 / 6))
    assert f1(found, Mode.NAME_TYPE).f1 == pytest.approx(2 / 6)
    assert (f1(found, Mode.PAIR).both, f1(found, Mode.PAIR_TYPE).both) == (2, 1)
    assert {(it.kind, it.what, it.first, it.second) for it in found.disagreements} == {
        ("type", "acme", "organization", "product"),
        ("entity", "bob", "person", ""),
        ("entity", "oslo", "", "location"),
        ("relation type", "ada → acme", "works_for", "founded_by"),
    }
    # Ada and Acme are aligned; person/person and organization/product: p_o = 1/2, p_e = 1/4.
    assert found.kappa.kappa == pytest.approx((1 / 2 - 1 / 4) / (1 - 1 / 4))
    assert (found.kappa.aligned, found.kappa.only_first, found.kappa.only_second) == (2, 1, 1)
    assert found.kappa.without_offsets == 0, "Oslo is in the text"


def test_overlapping_mentions_are_aligned():
    first, second = chunk([GoldEntity("Ada of Acme", "person", 0, 11), OSLO]), chunk([ADA, OSLO])
    found = agreement([first], [second], SCHEMA)
    assert (found.kappa.aligned, found.kappa.kappa) == (2, pytest.approx(1.0))
    assert f1(found, Mode.NAME).both == 1


def test_cohens_own_example():
    """The 2 by 2 table that textbooks use: 20 both yes, 15 both no, 5 and 10 apart."""
    pairs = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}
    assert cohen(pairs) == (pytest.approx(0.4), pytest.approx(0.7), pytest.approx(0.5))


def test_kappa_is_undefined_where_chance_alone_agrees():
    assert cohen({}) == (None, None, None)
    assert cohen({("a", "a"): 7}) == (None, 1.0, 1.0)
    assert cohen({("a", "b"): 7}) == (0.0, 0.0, 0.0)


def test_aliases_and_symmetric_types_are_those_of_scoring():
    first = chunk([replace(ADA, aliases=["Augusta"]), BOB], [Relation("Ada", "Bob", "partner_of")])
    second = chunk([GoldEntity("Augusta", "PER"), BOB], [Relation("Bob", "Augusta", "partner_of")])
    schema = SchemaConfig.model_validate({"aliases": {"entity_types": {"PER": "person"}}})
    found = agreement([first], [second], schema)
    assert found.disagreements == []
    assert {it.f1 for it in found.modes} == {1.0}


NAMES = st.sampled_from(["Ada", "ada", "Bob", "Oslo"])
CHUNKS = st.lists(
    st.tuples(
        st.lists(st.tuples(NAMES, st.sampled_from(["person", "location"])), max_size=4),
        st.lists(st.tuples(NAMES, NAMES, st.sampled_from(["uses", "partner_of"])), max_size=4),
    ),
    min_size=1,
    max_size=4,
)


def gold_of(chunks, text=TEXT):
    return [
        chunk([GoldEntity(*it) for it in entities], [Relation(*it) for it in relations], f"c{at}", text)
        for at, (entities, relations) in enumerate(chunks)
    ]


@settings(max_examples=10)
@given(CHUNKS, CHUNKS)
def test_laws(one, other):
    first, second = gold_of(one), gold_of(other)
    found, turned = agreement(first, second, SCHEMA), agreement(second, first, SCHEMA)
    assert [it.f1 for it in found.modes] == [it.f1 for it in turned.modes]
    assert found.kappa.kappa == pytest.approx(turned.kappa.kappa) if found.kappa.kappa is not None else True
    # What is listed is what the counts say.
    listed = sum(
        len(set(it.first.split(", ")) ^ set(it.second.split(", ")) - {""}) - (not it.first)
        for it in found.disagreements
        if it.kind in ("entity", "type")
    )
    names = f1(found, Mode.NAME_TYPE)
    assert listed == names.only_first + names.only_second
    same = agreement(first, random.Random(0).sample(first, len(first)), SCHEMA)
    assert same.disagreements == []
    assert {it.f1 for it in same.modes} <= {1.0, None}
    assert same.kappa.kappa in (None, 1.0)


def test_other_texts_are_told():
    texts = [("Ada met Bob.", "Ada met Bob."), ("Ada met Bob.", "Ada met Eve."), (None, "Ada met Bob.")]
    sides = [[chunk([ADA], chunk_id=f"c{at}", text=it[side]) for at, it in enumerate(texts)] for side in (0, 1)]
    assert agreement(*sides, SCHEMA).other_texts == ["c1"]


def test_only_shared_chunks_count():
    found = agreement([chunk([ADA]), chunk([BOB], chunk_id="c1")], [chunk([ADA]), chunk([], chunk_id="c2")], SCHEMA)
    assert (found.chunks, found.only_first, found.only_second) == (1, ["c1"], ["c2"])
    assert f1(found, Mode.NAME).f1 == 1
    with pytest.raises(UserError, match="no chunk in common"):
        agreement([chunk([ADA])], [chunk([ADA], chunk_id="c9")], SCHEMA)

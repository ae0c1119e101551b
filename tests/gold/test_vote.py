"""Votes of several annotators, and the places of the names they give."""

from hypothesis import given
from hypothesis import strategies as st

from kgscale.gold.mentions import mentions
from kgscale.gold.vote import Opinion, vote


def says(*entities, relations=()):
    return Opinion(list(entities), list(relations))


def test_the_majority_decides_on_names_and_then_on_types():
    found = vote(
        [
            says(("Acme", "product"), ("Ada", "person"), ("Oslo", "location")),
            says(("ACME ", "organization"), ("Ada", "person"), ("Ada", "role")),
            says(("Acme", "organization"), ("Ada", "role")),
        ],
        2,
    )
    assert found.entities == [("ACME ", "organization"), ("Ada", "person"), ("Ada", "role")]


def test_a_name_whose_type_is_open_gets_the_first_annotators():
    opinions = [says(("Acme", "product")), says(("Acme", "organization")), says(("Acme", "location"))]
    assert vote(opinions, 2).entities == [("Acme", "product")]


def test_relations_by_their_ends_and_symmetric_ones_in_either_order():
    opinions = [
        says(relations=[("Ada", "knows", "Bob"), ("Ada", "uses", "Acme")]),
        says(relations=[("bob", "knows", "ADA"), ("Acme", "uses", "Ada")]),
    ]
    assert vote(opinions, 2, ["knows"]).relations == [("Ada", "knows", "Bob")]


def test_all_or_one_may_be_enough():
    opinions = [says(("Ada", "person")), says(("Bob", "person"))]
    assert vote(opinions, 2).entities == []
    assert {name for name, _ in vote(opinions, 1).entities} == {"Ada", "Bob"}


ENTITY = st.tuples(st.sampled_from(["Ada", "ada", "Bob", "Eve"]), st.sampled_from(["a", "b", "c"]))


@given(st.lists(st.lists(ENTITY, max_size=5), min_size=2, max_size=4), st.data())
def test_what_is_elected_was_said_often_enough(entities, data):
    needed = data.draw(st.integers(1, len(entities)))
    elected = vote([says(*it) for it in entities], needed).entities
    for name, kind in elected:
        assert sum(name.lower() in {it.lower() for it, _ in said} for said in entities) >= needed
        assert any((name, kind) in said for said in entities)
    for name in {it.lower() for said in entities for it, _ in said}:
        voters = sum(name in {it.lower() for it, _ in said} for said in entities)
        assert (voters >= needed) == any(name == it.lower() for it, _ in elected)


def spans(text, *names):
    return [(it.text, it.start, it.end) for it in mentions(text, [(name, "t") for name in names])]


def test_every_whole_mention_and_longer_names_first():
    text = "New York Times of New York. Newark? New York-based."
    assert spans(text, "New York", "New York Times") == [
        ("New York Times", 0, 14),
        ("New York", 18, 26),
        ("New York", 36, 44),
    ]


def test_names_of_scripts_without_spaces_may_touch_others():
    assert spans("北京大学在北京。", "北京", "北京大学") == [("北京大学", 0, 4), ("北京", 5, 7)]


def test_a_name_in_another_form_goes_to_its_first_occurrence_and_an_absent_one_has_none():
    assert spans("The ACME\nCorp. and Acme Corp.", "acme corp", "Zoe") == [("acme corp", 4, 13), ("Zoe", None, None)]


@given(st.text("ab 北", max_size=30), st.lists(st.text("ab北", min_size=1, max_size=4), max_size=4, unique=True))
def test_mentions_lead_to_their_names_and_none_is_lost(text, names):
    found = spans(text, *names)
    assert {name for name, *_ in found} == set(names)
    assert all(start is None or text[start:end] == name for name, start, end in found)
    assert all(start is not None or name not in text for name, start, _ in found)

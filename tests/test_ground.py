"""Grounding: where a name that an LLM gave stands in the text."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.ground import Grounding

LETTERS = st.text(
    st.sampled_from("abAB Éé\u0301fiﬁﬀ①\uff21\uff22\u00a0\n\t中文😀İß각ᄀ\u1161\u11a8ｶ\uff9eガ"), max_size=60
)

WIDE = "".join(chr(ord(letter) + 0xFEE0) for letter in "Nvidia")


def key(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


@given(LETTERS, st.integers(0, 60), st.integers(1, 20))
def test_every_part_of_a_text_is_found_where_it_or_its_like_stands(text, start, length):
    name = text[start : start + length].strip()
    found = Grounding(text).find(name)
    if name:
        assert found is not None
        assert text[slice(*found)] == name
    else:
        assert found is None


@given(LETTERS, LETTERS)
def test_what_is_found_has_the_key_of_the_name(text, name):
    found = Grounding(text).find(name)
    if found is not None:
        assert 0 <= found[0] < found[1] <= len(text)
        assert key(text[slice(*found)]) == key(name)


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("acme and Acme", "Acme", "Acme"),
        ("ACME Corp.", "acme corp", "ACME Corp"),
        ("Acme\n  Corp", "Acme Corp", "Acme\n  Corp"),
        (f"the ﬁrm {WIDE}", "nvidia", WIDE),
        ("the ﬁrm", "firm", "ﬁrm"),
        ("JavaScript, then Java", "Java", "Java"),
        ("苹果公司由乔布斯创立", "苹果公司", "苹果公司"),
        ("in C++ and C", "C", "C"),
        ("Cafe\u0301 de Flore", "Café de Flore", "Cafe\u0301 de Flore"),
        ("CAFE\u0301", "café", "CAFE\u0301"),
        ("in 서울", unicodedata.normalize("NFD", "서울"), "서울"),
        (unicodedata.normalize("NFD", "in 서울"), "서울", unicodedata.normalize("NFD", "서울")),
        ("made by ﾊﾟﾅｿﾆｯｸ", "パナソニック", "ﾊﾟﾅｿﾆｯｸ"),
        ("İstanbul today", "i̇stanbul", "İstanbul"),
    ],
)
def test_exact_first_then_by_normalised_form(text, name, found):
    span = Grounding(text).find(name)
    assert span is not None
    assert text[slice(*span)] == found


def test_a_whole_word_goes_before_a_part_of_one():
    assert Grounding("JavaScript, then Java").find("Java") == (17, 21)


@pytest.mark.parametrize("name", ["Acme Inc", "", "   ", "acm e", "①"])
def test_what_is_not_there_is_not_found(name):
    assert Grounding("Acme Corp").find(name) is None

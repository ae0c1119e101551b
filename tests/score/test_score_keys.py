"""Keys: the one normal form."""

import sys
import unicodedata

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.config import SchemaConfig
from kgscale.score.keys import Keys, normals
from kgscale.text import normal_form


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("  Apple\t Inc.\n", "apple inc."),
        ("\uff21pple", "apple"),
        ("\ufb01ne", "fine"),
        ("Straße", "straße"),
        ("三体", "三体"),
        ("\u00a0\u3000 ", ""),
        ("e\u0301", "é"),
    ],
)
def test_normal_form(text, key):
    assert normals([text]) == [key]


# Python and Polars may know Unicode in different versions: letters that one of them has not heard of prove nothing.
KNOWN = st.text(st.characters(exclude_categories=["Cn", "Cs", "Co"]), max_size=12)


@given(st.lists(KNOWN | st.text("İßΣσς\u0130\u00a0\x1c\x85 aA\t", max_size=8), max_size=50))
def test_extraction_and_scores_compare_in_the_same_form(texts):
    assert normals(texts) == [normal_form(it) for it in texts]


def test_every_character_has_the_same_form_in_extraction_and_scores():
    letters = [chr(it) for it in range(sys.maxunicode + 1) if unicodedata.category(chr(it)) not in ("Cn", "Cs", "Co")]
    texts = [f"a{it}B" for it in letters] + letters
    assert normals(texts) == [normal_form(it) for it in texts]


def test_normal_form_is_stable():
    texts = ["  A  B ", "ﬁ", "İstanbul", "ΣΊΣΥΦΟΣ"]
    assert normals(normals(texts)) == normals(texts)


def test_keys_of_a_schema_are_normal_on_both_sides_of_an_alias():
    keys = Keys.of(
        SchemaConfig.model_validate(
            {
                "entity_types": ["Organization"],
                "relation_types": {"Partner Of": {"symmetric": True}, "uses": None},
                "aliases": {"entity_types": {" ORG": "organization "}},
            }
        )
    )
    assert keys.entity_types == {"org": "organization"}
    assert keys.known_entity_types == {"organization"}
    assert keys.symmetric == {"partner of"}


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=20))
def test_the_normal_form_of_plain_text_is_that_of_any_text(text):
    assert normals([text, text + "É"]) == [" ".join(text.lower().split()), " ".join((text.lower() + "é").split())]


def test_a_text_has_one_key_even_when_the_column_that_had_it_first_is_gone():
    keys = Keys.of(SchemaConfig())
    first = keys.name.of(pl.Series(["Acme"])).to_physical().to_list()
    for text in ("Other", "Acme  Inc", " ACME"):
        last = keys.name.of(pl.Series([text])).to_physical().to_list()
    assert last == first

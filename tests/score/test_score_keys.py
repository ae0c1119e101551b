"""Keys: the one normal form."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.config import SchemaConfig
from kgscale.score.keys import Keys, normals


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

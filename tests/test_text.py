import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.text import split_words, unspaced, words

GLINER = re.compile(r"\w+(?:[-_]\w+)*|\S")
SPACED = st.text(st.characters(max_codepoint=0x0DFF) | st.sampled_from("한국어-_ .😀αβ\n"))


@given(SPACED)
def test_text_of_scripts_with_spaces_is_split_as_gliner_does(text):
    assert list(split_words(text)) == [(m.group(), m.start(), m.end()) for m in GLINER.finditer(text)]


@given(st.text())
def test_words_are_slices_that_cover_every_visible_character(text):
    found = list(split_words(text))
    assert words(text) == len(found)
    assert all(text[start:end] == word for word, start, end in found)
    assert "".join(word for word, _, _ in found) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPU显卡-3090", ["GPU", "显", "卡", "-", "3090"]),
        ("PostgreSQL由加州大学开发。", ["PostgreSQL", *"由加州大学开发。"]),
        ("スーパーコンピュータ", list("スーパーコンピュータ")),
        ("ดีวันที่๑๒", ["ดี", "วั", "น", "ที่", "๑๒"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("か\u3099き", ["か\u3099", "き"]),
        ("葛\U000e0100城", ["葛\U000e0100", "城"]),
        ("한국어-말 state-of-the_art", ["한국어-말", "state-of-the_art"]),
        ("𠮷野家", list("𠮷野家")),
    ],
)
def test_scripts_without_spaces_are_split_into_characters(text, expected):
    assert [word for word, _, _ in split_words(text)] == expected


def test_nothing_has_no_words():
    assert words("") == words(" \n\t ") == 0


def test_unspaced_knows_letters_and_punctuation():
    assert all(map(unspaced, "中ひカ。、「（，ก"))
    assert not any(map(unspaced, "a1.한é0９"))  # noqa: RUF001

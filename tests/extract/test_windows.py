"""Windows: together they read all of a text, and own each part of it once."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.extract.windows import text_windows, windows
from kgscale.text import word_offsets

WEIGHTS = st.lists(st.integers(0, 9), max_size=80)


@given(WEIGHTS, st.integers(1, 20), st.integers(9, 30), st.integers(0, 20))
def test_cores_tile_the_items_and_windows_keep_their_limits(weights, max_items, max_weight, overlap):
    found = windows(weights, max_items, max_weight, overlap)
    owned = [item for it in found for item in range(it.core_start, it.core_stop)]
    assert owned == list(range(len(weights)))
    for it in found:
        assert it.start <= it.core_start < it.core_stop <= it.stop
        assert it.stop - it.start <= max_items
        assert sum(weights[it.start : it.stop]) <= max_weight
    for before, after in pairwise(found):
        assert after.start <= after.core_start == before.core_stop <= before.stop
        assert before.start < after.start
        assert before.stop < after.stop


@given(st.integers(1, 300), st.integers(2, 40), st.integers(0, 20))
def test_neighbours_share_the_overlap_where_nothing_is_heavy(items, size, overlap):
    for before, after in pairwise(windows([1] * items, size, size, overlap)):
        assert before.stop - after.start >= min(overlap, size // 2)


def test_a_border_has_context_on_both_sides():
    first, second = windows([1] * 15, 10, 10, 4)
    assert (first.core_stop - second.start, first.stop - first.core_stop) == (2, 3)


def test_what_fits_is_one_window():
    (only,) = windows([3, 3, 3], 3, 9, 2)
    assert (only.start, only.stop, only.core_start, only.core_stop) == (0, 3, 0, 3)
    assert windows([], 3, 9, 2) == []


def test_an_item_that_fits_no_window_is_refused():
    with pytest.raises(ValueError, match="weight 10 does not fit a window of 9"):
        windows([1, 10], 3, 9, 1)


@given(
    st.lists(st.sampled_from(["甲", "word", "\n\n", "End. ", "# Heading\n", "\n- "]), max_size=80), st.integers(1, 12)
)
def test_pieces_hold_every_word_and_keep_their_size(parts, longest):
    words = [f"{part}{at} " if part == "word" else part for at, part in enumerate(parts)]
    text = "".join(words)
    reach, visible = 0, len(text.rstrip())
    for piece in text_windows(text, word_offsets(text), longest):
        assert len(word_offsets(piece)) <= longest
        places = range(len(text) + 1)
        at = max(it for it in places if text.startswith(piece, it) and not text[reach:it].strip())
        reach = max(reach, at + len(piece))
    assert reach >= visible


def test_pieces_begin_and_end_with_sentences_and_share_one():
    sentences = [f"This is number {at}." for at in range(6)]
    text = " ".join(sentences)
    found = text_windows(text, word_offsets(text), 12)
    assert found == [" ".join(sentences[at : at + 2]) for at in range(5)]


def test_a_sentence_that_is_too_long_is_cut_with_overlap():
    text = " ".join(f"w{at}" for at in range(20))
    found = [it.split() for it in text_windows(text, word_offsets(text), 8)]
    assert max(map(len, found)) <= 8
    assert all(set(before) & set(after) for before, after in pairwise(found))


@pytest.mark.parametrize("text", ["", " \n ", "short enough", "😀"])
def test_a_short_text_comes_back_whole(text):
    assert text_windows(text, word_offsets(text), 2) == [text]

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.corpus.chunk import chunk_ids, cut, in_tokens, in_words
from kgscale.corpus.segment import pieces
from kgscale.errors import UserError
from kgscale.text import words

PARTS = [
    "The server stores rows. ",
    "Why? ",
    "It uses e.g. Dr. Smith's index",
    "\n\n",
    "\n",
    "# Title\n",
    "Name\n====\n",
    "- item one\n",
    "1. first\n",
    "| a | b |\n",
    "```\ncode here\n",
    "今天天气很好。",
    "我们去公司；",
    "สวัสดี",
    "word ",
    "long-hyphen_word ",
    "😀",
    " ",
    "...",
]
DOCUMENTS = st.lists(st.sampled_from(PARTS) | st.text(max_size=8), max_size=40).map("".join)
SIZES = st.integers(1, 30).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size // 2)))


def texts(text, size=20, overlap=0, **kwargs):
    return [text[start:end] for start, end in cut(text, size, overlap, **kwargs)]


@given(DOCUMENTS, SIZES)
@settings(max_examples=500)
def test_chunks_cover_the_document_within_the_size(text, sizes):
    size, overlap = sizes
    covered = set()
    last = (-1, -1)
    for start, end in cut(text, size, overlap):
        assert 1 <= words(text[start:end]) <= size
        assert text[start:end] == text[start:end].strip()
        assert start > last[0]
        assert end > last[1]
        assert words(text[start : max(start, last[1])]) <= overlap
        last = (start, end)
        covered.update(range(start, end))
    assert {i for i, character in enumerate(text) if not character.isspace()} <= covered


@given(DOCUMENTS)
def test_pieces_tile_the_document(text):
    at = 0
    for piece in pieces(text):
        assert not text[at : piece.start].strip()
        assert text[piece.start : piece.end].strip() == text[piece.start : piece.end] != ""
        at = piece.end
    assert not text[at:].strip()


def test_sentences_are_not_cut():
    text = "One two three four. Five six seven eight. Nine ten."
    assert texts(text, size=7) == ["One two three four.", "Five six seven eight.", "Nine ten."]


def test_overlap_repeats_whole_sentences():
    text = "A1 a2 a3 a4. B1 b2. C1 c2 c3. D1."
    assert texts(text, size=9, overlap=3) == ["A1 a2 a3 a4. B1 b2.", "B1 b2. C1 c2 c3. D1."]


def test_abbreviations_and_numbers_end_no_sentence():
    text = "Dr. Smith met J. R. Tolkien, e.g. Bilbo in Fig. 3 of No. 7 vs. Sauron. He left."
    assert [text[it.start : it.end] for it in pieces(text)] == [text[:-8].strip(), "He left."]


def test_a_sentence_may_end_in_a_number_but_an_item_number_is_none():
    text = "1. It is version 15. See below."
    assert [text[it.start : it.end] for it in pieces(text)] == ["1. It is version 15.", "See below."]


def test_chinese_is_counted_by_characters_and_cut_at_its_own_stops():
    text = "今天天气很好。我们去公司开会！你来吗？来；走。"
    assert texts(text, size=8) == ["今天天气很好。", "我们去公司开会！", "你来吗？来；走。"]


@pytest.mark.parametrize("heading", ["# Second", "Second\n------", "===\nSecond\n==="])
def test_a_heading_starts_a_chunk_that_is_half_full_and_stays_with_what_follows(heading):
    text = f"One two three four five.\n\n{heading}\n\nSix seven."
    assert texts(text, size=12, overlap=5) == ["One two three four five.", f"{heading}\n\nSix seven."]
    assert texts(text, size=60, overlap=5) == [text]


def test_a_heading_moves_to_the_next_chunk_with_its_text():
    assert texts("One two.\n# Title\nThree four five six.", size=8) == ["One two.", "# Title\nThree four five six."]


def test_a_hash_in_fenced_code_is_no_heading():
    assert not any(it.heading for it in pieces("```\n# comment\n```\n"))


@pytest.mark.parametrize("text", ["", " ", "\n\t\n \u3000"])
def test_nothing_gives_no_chunk(text):
    assert texts(text) == []


def test_a_long_document_and_an_endless_line():
    sentence = "The quick brown fox jumps over the lazy dog. "
    assert {words(it) for it in texts(sentence * 5000, size=300, overlap=40)[:-1]} == {300}
    endless = "word " * 50_000
    chunks = texts(endless, size=300, overlap=40)
    assert max(map(words, chunks)) <= 300
    assert all(words(it) >= 240 for it in chunks[:-1])
    emoji = texts("😀" * 10_000, size=300)
    assert "".join(emoji) == "😀" * 10_000


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", [". " * 200_000, "." * 1_000_000, '."' * 300_000, "-" * 1_000_000, "\n" * 1_000_000])
def test_degenerate_texts_take_no_quadratic_time(text):
    assert sum(words(it) for it in texts(text, size=300)) >= words(text)


@given(st.lists(st.text(), max_size=8))
def test_ids_are_unique_and_depend_on_nothing_but_the_document(chunks):
    ids = list(chunk_ids("docs/a b.md", chunks))
    assert len(set(ids)) == len(chunks)
    assert ids == list(chunk_ids("docs/a b.md", chunks))
    assert not set(ids) & set(chunk_ids("docs/a-b.md", chunks))


def test_an_edit_changes_only_the_ids_of_the_chunks_it_touches():
    sections = [f"# Part {i}\n\n" + f"Sentence {i} has some words. " * 8 for i in range(6)]
    before = set(chunk_ids("d", texts("\n\n".join(sections), size=60)))
    sections[3] = sections[3].replace("some words", "other words", 1)
    after = set(chunk_ids("d", texts("\n\n".join(sections), size=60)))
    assert len(before - after) == 1


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A byte-level tokenizer without merges: an ASCII letter is one token, a Chinese character three."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={it: i for i, it in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    path = tmp_path_factory.mktemp("tokenizer")
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(path)
    return str(path)


def test_chunks_by_tokens(tokenizer):
    measure = in_tokens(tokenizer)
    text = "Abc def. Ghi jkl. 今天。"
    assert texts(text, size=10, measure=measure) == ["Abc def.", "Ghi jkl.", "今天。"]
    assert texts("abcdefgh ij", size=4, measure=measure) == ["abcd", "efgh", "ij"]
    assert texts("今天", size=1, measure=measure) == ["今", "天"]


@settings(max_examples=30, deadline=None)
@given(text=DOCUMENTS, sizes=SIZES)
def test_chunks_by_tokens_cover_the_document(tokenizer, text, sizes):
    covered = set()
    for start, end in cut(text, *sizes, in_tokens(tokenizer)):
        covered.update(range(start, end))
    assert {i for i, character in enumerate(text) if not character.isspace()} <= covered


def test_a_missing_tokenizer_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot load the tokenizer"):
        in_tokens(str(tmp_path))


def test_in_words_counts_as_words_does():
    text = "One 二三 four."
    assert in_words(text).count(0, len(text)) == words(text)


def test_the_corpus_room_needs_no_heavy_library():
    heavy = {"torch", "transformers", "ray", "vllm"}
    code = f"import sys, kgscale.corpus, kgscale.formats; print({heavy} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"

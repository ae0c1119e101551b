"""Words: how kgscale cuts and counts them, the same for corpus sizes, GLiNER's windows and speeds; and sound texts."""

import re
import unicodedata
from collections.abc import Iterator

# Letters of the scripts that put no space between words, as regular expression ranges: iteration marks, ideographic
# zero, Hangzhou numerals, Hiragana, Katakana, Bopomofo, Han with its extensions A to J. Hangul has spaces: not here.
_EAST_ASIAN = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d\U0001aff0-\U0001b16f"
    "\u3105-\u312f\u31a0-\u31bf"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003347f"
)
# Voiced sound marks, joiners and variation selectors.
_EAST_ASIAN_MARKS = "\u3099\u309a\uff9e\uff9f\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
# Thai, Lao, Tibetan; Myanmar and its extensions; Khmer; Tai Le and New Tai Lue; Tai Tham.
_SOUTH_EAST_ASIAN = (
    (0x0E00, 0x0FFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x1950, 0x19DF),
    (0x1A20, 0x1AAF),
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAA7F),
)


def _of_category(initial: str) -> str:
    """The characters of the South East Asian scripts whose Unicode category starts with `initial`."""
    codes = (code for first, last in _SOUTH_EAST_ASIAN for code in range(first, last + 1))
    return "".join(chr(code) for code in codes if unicodedata.category(chr(code)).startswith(initial))


_LETTERS = _EAST_ASIAN + _of_category("L")
_MARKS = _EAST_ASIAN_MARKS + _of_category("M")
_SPACED = rf"[^\W{_LETTERS}]"

# White space as Unicode has it; Python alone counts the separators 1C to 1F.
_SPACE = re.compile(r"[^\S\x1c-\x1f]+")

_ASCII_WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")
# With the punctuation of Chinese and Japanese, and full-width forms.
_UNSPACED = re.compile(rf"[{_LETTERS}{_MARKS}\u3000-\u3020\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]")
_WORD = re.compile(rf"[{_LETTERS}][{_MARKS}]*|{_SPACED}+(?:[-_]{_SPACED}+)*|\S")


def words(text: str) -> int:
    """The number of words in a text; every size in words that kgscale takes or reports is counted by this.

    A word is what `split_words` yields: a run of letters and digits, inner hyphens and underscores included; any other
    visible character; and each character of a script without spaces.
    """
    return len((_ASCII_WORD if text.isascii() else _WORD).findall(text))


def split_words(text: str) -> Iterator[tuple[str, int, int]]:
    r"""Cut a text into words; yields each with its offsets in characters, end exclusive.

    On text without Chinese, Japanese, Thai, Lao, Tibetan, Khmer, Myanmar or Tai letters this is exactly the pattern of
    GLiNER's whitespace splitter, `\w+(?:[-_]\w+)*|\S`. Each letter of those scripts is a word of its own, together with
    the combining marks that follow it; where they meet another script, a word ends.
    """
    for match in (_ASCII_WORD if text.isascii() else _WORD).finditer(text):
        yield match.group(), match.start(), match.end()


def word_offsets(text: str) -> list[tuple[int, int]]:
    """Where each word of a text begins and ends."""
    return [(start, end) for _, start, end in split_words(text)]


def unspaced(character: str) -> bool:
    """Whether a character belongs to a script that puts no space between words, its punctuation included."""
    return _UNSPACED.match(character) is not None


def normal_form(text: str) -> str:
    """The form in which names and types are compared: NFKC, lower case, white space collapsed and stripped.

    The scores do the same with whole columns (`kgscale.score.keys.normal`).
    """
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).lower()).strip(" ")


def is_writable(*texts: str) -> bool:
    """Whether a file can hold these texts: JSON can spell half of a surrogate pair, which none can."""
    try:
        for text in texts:
            if not text.isascii():
                text.encode()
    except UnicodeEncodeError:
        return False
    return True

"""Every word of a report, in English and in Chinese; types, names and data stay as they are."""

from dataclasses import dataclass
from typing import Literal

from kgscale.report.words import figures, page, verdict

Lang = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Texts:
    """The words of one language: `t("key")`, with the values that a text has places for."""

    lang: Lang

    @property
    def code(self) -> str:
        """The language, as HTML names it."""
        return "en" if self.lang == "en" else "zh-Hans"

    def __call__(self, key: str, **values: object) -> str:
        """One text; raises `KeyError` for a key that is not in the table."""
        return _TABLE[key][self.lang == "zh"].format(**values)

    def of(self, prefix: str, word: str) -> str:
        """The text of a word of the data, or the word itself where the table does not know it."""
        both = _TABLE.get(prefix + word)
        return both[self.lang == "zh"] if both else word

    def starting(self, prefix: str) -> dict[str, str]:
        """The texts whose key starts with `prefix`, by the rest of the key, unfilled: what the page's script needs."""
        found = {key.removeprefix(prefix): both for key, both in _TABLE.items() if key.startswith(prefix)}
        return {key: both[self.lang == "zh"] for key, both in found.items()}


_TABLE = {**verdict.WORDS, **figures.WORDS, **page.WORDS}

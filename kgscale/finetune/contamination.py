"""Training must not see what will be scored: texts that share eight words in a row are found and named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgscale.errors import UserError
from kgscale.formats import load_gold
from kgscale.text import split_words, unspaced

RUN = 8
"""Words in a row that two texts hardly share by chance; a character of a script without spaces is half a word."""
SHOWN = 5


@dataclass(frozen=True)
class Named:
    """A text, and where it stands."""

    where: str
    text: str


def gold_texts(paths: Sequence[Path]) -> list[Named]:
    """The texts of gold files; gold that carries no text cannot be checked: `UserError`."""
    texts = [
        Named(f"{path.name}, {chunk.chunk_id}", chunk.text or "") for path in paths for chunk in load_gold(path).chunks
    ]
    blank = sum(not it.text for it in texts)
    if blank:
        raise UserError(
            f"{blank:,} of the {len(texts):,} gold chunks carry no text, so they cannot be compared",
            hint='give each chunk of the gold its "text"',
        )
    return texts


class Apart:
    """Texts that will be scored, by their runs of words (case and punctuation aside).

    A text shorter than a run counts as a run of its own.
    """

    def __init__(self, scored: Iterable[Named]) -> None:
        self._runs = {run: it for it in scored for run in runs(it.text)}

    def behind(self, text: str) -> Named | None:
        """The scored text that shares a run of words with this one, if any."""
        return next((self._runs[run] for run in runs(text) if run in self._runs), None)


def refuse_shared(training: Iterable[Named], scored: Iterable[Named]) -> None:
    """Raise `UserError` that names the training texts which a scored text gives away."""
    apart = Apart(scored)
    found = [(it, gold) for it in training if (gold := apart.behind(it.text)) is not None]
    if found:
        first = "".join(f"\n  {it.where} shares {RUN} words in a row with {gold.where}" for it, gold in found[:SHOWN])
        more = f"\n  … and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
        raise UserError(
            f"{len(found):,} training texts are in the gold that is to be scored:{first}{more}",
            hint="scores on texts that a model was trained on mean nothing: take these out of the training file",
        )


def runs(text: str) -> set[tuple[str, ...]]:
    """The runs of words by which texts are compared: all of a text, or the whole of a shorter one."""
    words = [word.lower() for word, _, _ in split_words(text) if word[0].isalnum()]
    size = 2 * RUN if sum(unspaced(word[0]) for word in words) > len(words) / 2 else RUN
    return {tuple(words[i : i + size]) for i in range(max(1, len(words) - size + 1))} if words else set()


def file_hashes(paths: Sequence[Path]) -> dict[str, str]:
    """The sha256 of each file by its name; of a directory, of all its files in order."""
    hashes = {}
    for path in paths:
        digest = hashlib.sha256()
        for file in sorted(it for it in path.rglob("*") if it.is_file()) if path.is_dir() else (path,):
            digest.update(file.read_bytes())
        hashes[path.name] = digest.hexdigest()
    return hashes

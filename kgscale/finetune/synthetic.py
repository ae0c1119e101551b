"""Sentences written for the purpose: a small grammar of templates and word lists, with invented names.

The grammar lies in `grammar/*.txt`. In a template, `{rule}` is an entity of type `rule` and `{rule:type}` one of
another type, `<rule>` is expanded without being an entity, `(a|b)` chooses, `#` is a digit and `♯` a number sign.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from kgscale.finetune.examples import Example, from_offsets

SOURCE = "synthetic"
FOLDER = Path(__file__).parent / "grammar"
# How many sentences of each file make one round: technical text and company news are what the default model is for.
SHARES = {"tech": 5, "news": 4, "domains": 4, "plain": 2}
PIECE = re.compile(r"<(\w+)>|\{(\w+)(?::(\w+))?\}|\(([^()]*\|[^()]*)\)|#")
# Twice or eight times in a list is twice or eight times as likely.
# ruff: noqa: SIM905 - a list of sixty quoted letters reads worse
ONSETS = tuple("b br c ch d dr f fl g gr h j k kr l m n p pl qu r s sk st t th tr v w z x y".split())
VOWELS = tuple("a e i o u ae ea ei io ou a e i o".split())
CODAS = (*"n r l s x m t k nd rn st ll sh ck th x d p".split(), *[""] * 8)
# Half of the words are of simple sounds, as most names of products are.
SIMPLE = (
    tuple("b c d f g h k l m n p r s t v z".split()),
    tuple("a e i o u".split()),
    (*"n r l s m".split(), *[""] * 5),
)
# Types whose names keep their article.
TITLES = frozenset({"creative", "group"})


def invent(rng: random.Random) -> str:
    """A lower-case word that means nothing, of one to three syllables."""
    syllables = rng.choices((1, 2, 3), weights=(1, 6, 2))[0]
    onsets, vowels, codas = (ONSETS, VOWELS, CODAS) if syllables == 1 or rng.random() < 0.5 else SIMPLE
    word = ""
    for i in range(syllables):
        word += rng.choice(onsets) + rng.choice(vowels) + (rng.choice(codas) if i % 2 == 0 else "")
    return word


def _abbreviation(rng: random.Random) -> str:
    return "".join(rng.choices("ABCDEFGHIKLMNOPRSTUVX", k=rng.choice((3, 3, 4))))


def _tool(rng: random.Random) -> str:
    """A lower-case command of two to five letters, such as a Unix tool has."""
    shape = rng.choice(("ccc", "cvc", "cvcc", "ccvc", "cc", "cvcvc", "vcc", "cccc"))
    return "".join(rng.choice("bcdfghjklmnpqrstvwxz" if it == "c" else "aeiouy") for it in shape)


INVENTED: dict[str, Callable[[random.Random], str]] = {
    "Word": lambda rng: invent(rng).capitalize(),
    "Word2": lambda rng: invent(rng).capitalize(),
    "word": invent,
    "ABBR": _abbreviation,
    "tool": _tool,
}


@cache
def lexicon() -> dict[str, tuple[str, ...]]:
    """The rules: name and alternatives."""
    lines = (FOLDER / "lexicon.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(" = ", 1) for line in lines if line and not line.startswith("#"))
    # Only a bar between spaces separates alternatives; one inside (a|b) does not.
    return {name: tuple(part.strip() for part in body.split(" | ")) for name, body in pairs}


@cache
def templates(name: str) -> tuple[str, ...]:
    """The templates of one file."""
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def expand(template: str, rng: random.Random) -> tuple[str, list[tuple[int, int, str]]]:
    """The text of a template, and its entities as (start, end, type) in characters, end exclusive."""
    text, entities, at = "", [], 0
    template = choose(template, rng)
    for match in PIECE.finditer(template):
        text += template[at : match.start()]
        at = match.end()
        plain, entity, kind, _ = match.groups()
        if match.group() == "#":
            text += rng.choice("123456789" if not text[-1:].isdigit() else "0123456789")
            continue
        rule = plain or entity
        filled = INVENTED[rule](rng) if rule in INVENTED else expand(rng.choice(lexicon()[rule]), rng)[0]
        if entity:
            entities.append((len(text), len(text) + len(filled), kind or entity))
        text += filled
    return (text + template[at:]).replace("♯", "#"), entities


def choose(template: str, rng: random.Random) -> str:
    """Resolve every (a|b), the innermost first."""
    while found := re.search(r"\(([^()]*\|[^()]*)\)", template):
        template = template[: found.start()] + rng.choice(found.group(1).split("|")) + template[found.end() :]
    return re.sub(r" +([ ,.;)])", r"\1", template)


def sentences(count: int, seed: int) -> Iterator[Example]:
    """`count` examples, the same for the same seed; one in ten is in lower case, and entities go without articles."""
    rng = random.Random(seed)  # noqa: S311
    names, weights = list(SHARES), list(SHARES.values())
    for _ in range(count):
        text, found = expand(rng.choice(templates(rng.choices(names, weights)[0])), rng)
        entities = [
            (start + 4 if text[start : start + 4].lower() == "the " and kind not in TITLES else start, end, kind)
            for start, end, kind in found
        ]
        text = text[:1].upper() + text[1:] if rng.random() < 0.9 else text.lower()
        yield from_offsets(text, entities, SOURCE)

"""Short documents written for the purpose, with their entities and relations, for teaching an LLM to extract.

The sentences lie in `grammar/facts.txt`, the words in `grammar/lexicon.txt`. A document follows one subject for some
sentences, by name, short name or pronoun, and moves on to others; names mean nothing and never come back.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache

from kgscale.finetune.synthetic import FOLDER, INVENTED, choose, lexicon, templates

WRITTEN = "written"
SLOT = re.compile(r"@|<(\w+)>|\{(\w):(\w+)\}|#")
ARTICLE = re.compile(r"(?:the|The) ")
LENGTHS = {1: 6, 2: 8, 3: 13, 4: 17, 5: 18, 6: 15, 7: 10, 9: 6, 13: 2}
SECTIONS = {
    "software": 30, "organization": 34, "hardware": 9, "person": 10, "pl": 2, "protocol": 2,
    "event": 3, "creative": 2, "disease": 3, "protein": 2, "city": 3, "product": 1,
}  # fmt: skip
WIDER: dict[str, tuple[str, ...]] = {
    "organization": ("company", "company", "company", "company", "university", "agency"),
    "anysoft": ("software", "software", "software", "library", "os"),
    "place": ("town", "town", "town", "town", "country", "region"),
}
KIND = {"fulldate": "date", "year": "date", "town": "city"}
SECTION_OF = {"company": "organization", "agency": "organization", "university": "organization", "library": "software"}
OWN_RULES = {
    "person": (*3 * ("<first> <last>",), *3 * ("<first> <Word>",), *2 * ("<Word> <last>",), "<first> <Cap>. <last>"),
    "town": (*3 * ("<city>",), "<city>, <country>", "<Word>burg", "<Word>ville", "Port <Word>", "<Word>holm", "<Word>"),
}
PRONOUNS = {
    "organization": ("It", "It", "The company", "The firm"),
    "software": ("It", "It", "The project", "The program", "The tool"),
    "hardware": ("It", "It", "The device"),
    "person": ("She", "He", "She", "He"),
}


@dataclass(frozen=True)
class Document:
    """A text with (name, kind) of its entities in order of appearance, and its (source, kind, target) relations.

    `source` names the set of kinds that are annotated completely.
    """

    text: str
    entities: tuple[tuple[str, str], ...]
    relations: tuple[tuple[str, str, str], ...]
    source: str


@dataclass(frozen=True)
class _Sentence:
    text: str
    relations: tuple[tuple[str, str, str], ...]


@cache
def _sections() -> dict[str, tuple[_Sentence, ...]]:
    sections: dict[str, tuple[_Sentence, ...]] = {}
    for part in (FOLDER / "facts.txt").read_text(encoding="utf-8").split("\n[")[1:]:
        name, *lines = (line for line in part.splitlines() if line and not line.startswith("#"))
        if name != "rules]":
            sections[name.rstrip("]")] = tuple(_sentence(line) for line in lines)
    return sections


def _sentence(line: str) -> _Sentence:
    text, _, said = line.partition(" =>")
    triples = (tuple(triple.split()) for triple in said.split(";") if triple.strip())
    return _Sentence(text, tuple((source, kind, target) for source, kind, target in triples))


@cache
def _rules() -> dict[str, tuple[str, ...]]:
    rules = (FOLDER / "facts.txt").read_text(encoding="utf-8").partition("[rules]\n")[2]
    own = (line.split(" = ", 1) for line in rules.splitlines() if line and not line.startswith("#"))
    return lexicon() | {name: tuple(part.strip() for part in body.split(" | ")) for name, body in own} | OWN_RULES


def _fill(rule: str, rng: random.Random) -> str:
    """Words made by a rule; entities inside it count as words only."""
    if rule in INVENTED:
        return INVENTED[rule](rng)
    text, at, template = "", 0, choose(rng.choice(_rules()[rule]), rng)
    for match in SLOT.finditer(template):
        text += template[at : match.start()]
        at = match.end()
        plain, _, named = match.groups()
        digits = "123456789" if not text[-1:].isdigit() else "0123456789"
        text += rng.choice(digits) if match.group() == "#" else _fill(plain or named, rng)
    return text + template[at:]


@dataclass
class _Entity:
    name: str
    kind: str
    mentioned: bool = False


class _Writer:
    """One document while it is written."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.cast: list[_Entity] = []
        self.entities: dict[tuple[str, str], None] = {}
        self.relations: dict[tuple[str, str, str], None] = {}
        self.used: set[str] = set()

    def new(self, rule: str) -> _Entity:
        """An entity that is not in the text yet; its name is no part of another's."""
        rule = self.rng.choice(WIDER[rule]) if rule in WIDER else rule
        for _ in range(20):
            name = _fill(rule, self.rng)
            name = ARTICLE.sub("", name, count=1) if ARTICLE.match(name) and rule != "creative" else name
            if not any(name in other.name or other.name in name for other in self.cast):
                break
        self.cast.append(_Entity(name, KIND.get(rule, rule)))
        return self.cast[-1]

    def some(self, rule: str, taken: list[_Entity]) -> _Entity:
        """An entity for a slot: sometimes one that the text has named before."""
        kinds = {KIND.get(it, it) for it in WIDER.get(rule, (rule,))}
        known = [it for it in self.cast if it.kind in kinds and it.mentioned and it not in taken]
        return self.rng.choice(known) if known and self.rng.random() < 0.3 else self.new(rule)

    def sentence(self, subject: _Entity, section: str) -> str:
        """One sentence about `subject`, its entities and relations noted."""
        unused = [it for it in _sections()[section] if it.text not in self.used]
        template = ""
        # A sentence without its subject makes sense only after one that names it.
        while not template or not (subject.mentioned or "@" in template):
            chosen = self.rng.choice(unused or _sections()[section])
            template = choose(chosen.text, self.rng)
        self.used.add(chosen.text)
        slots: dict[str, _Entity] = {"@": subject}
        text, at = "", 0
        for match in SLOT.finditer(template):
            text += template[at : match.start()]
            at = match.end()
            plain, letter, rule = match.groups()
            if match.group() == "#":
                text += self.rng.choice("123456789")
            elif plain:
                text += _fill(plain, self.rng)
            else:
                name = letter or "@"
                if name not in slots:
                    slots[name] = self.some(rule, list(slots.values()))
                starts = at == 1 and template.startswith("@ ")
                text += self.mention(slots[name], section if name == "@" else "", starts=starts)
        for source, kind, target in chosen.relations:
            if source in slots and target in slots:
                self.relations[slots[source].name, kind, slots[target].name] = None
        text += template[at:]
        # A name keeps its small letter even at the start: names are copied exactly.
        return text if template[0] in "@{" else text[:1].upper() + text[1:]

    def mention(self, entity: _Entity, section: str, *, starts: bool) -> str:
        """How an entity is named here: in full at first, later also by a short name, or by a pronoun as the subject."""
        rng = self.rng
        if entity.mentioned and starts and section in PRONOUNS and rng.random() < 0.4:
            return rng.choice(PRONOUNS[section])
        words = entity.name.split()
        if entity.mentioned and len(words) > 1 and rng.random() < 0.35:
            short = {"person": words[-1], "company": words[0]}.get(entity.kind)
            if short and short[0].isupper() and len(short) > 2 and words[1] != "&":
                self.entities[short, entity.kind] = None
                return short
        entity.mentioned = True
        self.entities[entity.name, entity.kind] = None
        return entity.name


def document(rng: random.Random) -> Document:
    """One document of one to fourteen sentences; one in twelve says nothing about anybody."""
    writer = _Writer(rng)
    count = rng.choices(list(LENGTHS), list(LENGTHS.values()))[0]
    plain = [choose(line, rng) for line in rng.sample(templates("plain"), 8)]
    if rng.random() < 1 / 12:
        return Document(" ".join(plain[: min(count, 6)]), (), (), WRITTEN)
    section = rng.choices(list(SECTIONS), list(SECTIONS.values()))[0]
    subject = writer.new(section if section != "organization" else "company")
    text = ""
    if rng.random() < 0.25 and section != "city":
        subject.mentioned = True
        writer.entities[subject.name, subject.kind] = None
        text = f"{'#' * rng.randint(1, 3)} {subject.name}\n\n"
    for number in range(count):
        if number and rng.random() < 0.12:
            text = _add(text, plain.pop(), rng)
        if number and rng.random() < 0.45:
            known = [it for it in writer.cast if SECTION_OF.get(it.kind, it.kind) in _sections() and it.mentioned]
            if known and rng.random() < 0.7:
                subject = rng.choice(known)
                section = SECTION_OF.get(subject.kind, subject.kind)
            else:
                section = rng.choices(list(SECTIONS), list(SECTIONS.values()))[0]
                subject = writer.new(section if section != "organization" else "company")
        text = _add(text, writer.sentence(subject, section), rng)
    return Document(text, tuple(writer.entities), tuple(writer.relations), WRITTEN)


def _add(text: str, sentence: str, rng: random.Random) -> str:
    if not text or text.endswith("\n"):
        return text + sentence
    if sentence[0] in "-|":
        return f"{text}\n{sentence}" if text.rsplit("\n", 1)[-1][:1] in "-|" else f"{text}\n\n{sentence}"
    return text + (" " if rng.random() < 0.88 and text.rsplit("\n", 1)[-1][:1] not in "-|" else "\n\n") + sentence

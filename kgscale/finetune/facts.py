"""Short documents written for the purpose, with their entities and relations, for teaching an LLM to extract.

The sentences lie in `grammar/facts.txt`, the words in `grammar/lexicon.txt`. A document follows one subject for some
sentences, by name, short name or pronoun, and moves on to others; names mean nothing and never come back.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from kgscale.finetune.synthetic import FOLDER, INVENTED, choose, lexicon, templates

WRITTEN = "written"
SLOT = re.compile(r"@|<(\w+)>|\{(\w):(\w+)\}|#")
LENGTHS = {1: 14, 2: 19, 3: 20, 4: 17, 5: 12, 6: 8, 7: 5, 9: 3, 12: 2}
"""How many sentences or blocks a document has, and how often."""
LONGER = {1: 6, 2: 9, 3: 13, 4: 16, 5: 17, 6: 15, 7: 11, 9: 8, 12: 5}
SECTIONS = {
    "software": 33, "organization": 33, "hardware": 9, "person": 11, "pl": 4, "protocol": 5, "format": 2, "os": 2,
    "agency": 3, "university": 2, "event": 3, "creative": 2, "disease": 2, "protein": 1, "city": 2, "product": 2,
    "aside": 0,
}  # fmt: skip
RULE_OF = {"organization": "company"}
SECTION_OF = {"company": "organization", "library": "software"}
WIDER: dict[str, tuple[str, ...]] = {
    "organization": ("company", "company", "company", "company", "university", "agency"),
    "anysoft": ("software", "software", "software", "library", "os"),
    "place": ("town", "town", "town", "town", "country", "region"),
}
# What a rule that makes names of a narrower sort counts as.
KIND = {
    "fulldate": "date", "year": "date", "quarter": "date", "weekday": "date", "town": "city", "command": "software",
    "fund": "company", "paper": "company", "foundation": "agency", "body": "agency", "institute": "agency",
    "chip": "hardware",
}  # fmt: skip
ARTICLE = re.compile(r"[Tt]he ")
NOUNS = "chief|co-founder|compiler|files|founder|messages|plugin|programs|protocol|release|specification|users|version"
AGAIN = re.compile(
    rf"(?:The )?@('s)?(?= (?!(?:and|or|by|from|at|in|for|of|on|to|with|spin-off|working|{NOUNS})\b)[a-z])"
)
MIDDLE = re.compile(r" (of|at|by|for|with|that|from|joined|to) @(?='s |[,.;:]| [a-z])")
CLOSED = re.compile(r"(?i:\b(?:the|an?|its|our|own|new|next|former|foundation|fair|city|agency)|[^\w,;\"]) $")
AN = re.compile(r"(?!U[A-Z0-9]|(?i:eu|one\b|uni|us[ae]|uti))(?i:[aeiou]|hour)|[FHLMNRSX][A-Z0-9]|8|1[18]\b")
DAY = re.compile(r"day\b|^\d\d?[ -][A-Z]|[a-z.] \d\d?(?:,|th|$)|\d[-./]\d+[-./]\d|th of")
GENDERED = re.compile(r"\(([Ss]he|her|daughter)\|([Hh]e|his|son)\)")
BEFORE_DATE = re.compile(r"\b[io]n $")
ENDED = re.compile(r"[.!?\"”]\)?$")


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
    return _Sentence(text.replace(r"\n", "\n"), tuple((source, kind, target) for source, kind, target in triples))


@cache
def _rules() -> dict[str, tuple[str, ...]]:
    rules = (FOLDER / "facts.txt").read_text(encoding="utf-8").partition("[rules]\n")[2]
    own = (line.split(" = ", 1) for line in rules.splitlines() if line and not line.startswith("#"))
    return lexicon() | {name: tuple(part.strip() for part in body.split(" | ")) for name, body in own}


def _fill(rule: str, rng: random.Random) -> str:
    """Words made by a rule; entities inside it count as words only."""
    return INVENTED[rule](rng) if rule in INVENTED else _written(rng.choice(_rules()[rule]), rng)


def _written(template: str, rng: random.Random) -> str:
    text, at, template = "", 0, _chosen(template, rng)
    for match in SLOT.finditer(template):
        text += template[at : match.start()]
        at = match.end()
        plain, _, named = match.groups()
        digits = "123456789" if not text[-1:].isdigit() else "0123456789"
        text = _joined(text, rng.choice(digits) if match.group() == "#" else _fill(plain or named, rng))
    return (text + template[at:]).replace("♯", "#")


def _chosen(template: str, rng: random.Random) -> str:
    """The template after its choices, with the right one of a and an where a plain word follows."""
    article = re.compile(r"\b([Aa])n? (?=[A-Za-z])")
    template = choose(template, rng)
    return article.sub(lambda it: it[1] + ("n " if AN.match(template, it.end()) else " "), template)


def _joined(text: str, words: str) -> str:
    """Text and the words after it, with the right one of a and an between."""
    if found := re.search(r"\b([Aa])n? $", text):
        text = text[: found.start()] + found[1] + ("n " if AN.match(words) else " ")
    return text + words


@dataclass
class _Entity:
    name: str
    kind: str
    article: str = ""
    short: str = ""
    mentioned: bool = False


class _Writer:
    """One document while it is written."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.cast: list[_Entity] = []
        self.entities: dict[tuple[str, str], None] = {}
        self.relations: dict[tuple[str, str, str], None] = {}
        self.used: set[str] = set()
        self.topic: _Entity | None = None

    def new(self, rule: str) -> _Entity:
        """An entity that is not in the text yet; its name is no part of another's."""
        rule = self.rng.choice(WIDER[rule]) if rule in WIDER else rule
        for _ in range(20):
            name = _fill(rule, self.rng)
            article = "the " if ARTICLE.match(name) and rule != "creative" else ""
            name = name[len(article) :]
            alone = not any(name in other.name or other.name in name for other in self.cast)
            if alone and (len(name) > 2 or rule != "company"):
                break
        self.cast.append(_Entity(name, KIND.get(rule, rule), article, _short(name, rule)))
        return self.cast[-1]

    def some(self, rule: str, taken: list[_Entity]) -> _Entity:
        """An entity for a slot: sometimes one that the text has named before."""
        kinds = {KIND.get(it, it) for it in WIDER.get(rule, (rule,))}
        known = [it for it in self.cast if it.kind in kinds and it.mentioned and it not in taken]
        again = 0.1 if "date" in kinds else 0.35
        return self.rng.choice(known) if known and self.rng.random() < again else self.new(rule)

    def sentence(self, subject: _Entity, section: str) -> str:
        """One sentence about `subject`, its entities and relations noted."""
        unused = [it for it in _sections()[section] if it.text not in self.used]
        template = ""
        # A sentence without its subject makes sense only after one that is about it.
        while not template or not (subject is self.topic or "@" in template):
            chosen = self.rng.choice(unused or _sections()[section])
            template = _chosen(GENDERED.sub(r"♀\1♂\2♀", chosen.text), self.rng)
        self.used.add(chosen.text)
        template = self.varied(template, subject)
        self.topic = subject
        slots: dict[str, _Entity] = {"@": subject}
        text, at = "", 0
        for match in SLOT.finditer(template):
            text += template[at : match.start()]
            at = match.end()
            plain, letter, rule = match.groups()
            if match.group() == "#":
                text = _joined(text, self.rng.choice("123456789"))
            elif plain:
                text = _joined(text, _fill(plain, self.rng))
            else:
                name = letter or "@"
                if name not in slots:
                    slots[name] = self.some(rule, list(slots.values()))
                if slots[name].kind == "date":
                    text = BEFORE_DATE.sub(_preposition(slots[name].name), text)
                text = _joined(text, self.mention(slots[name], text, template[at : at + 1]))
        for source, kind, target in chosen.relations:
            if source in slots and target in slots:
                self.relations[slots[source].name, kind, slots[target].name] = None
        text = (text + template[at:]).replace("♯", "#").replace("..", ".")
        people = [_pronoun(it.name) for it in slots.values() if it.kind == "person"]
        text = re.sub("♀(.*?)♂(.*?)♀", r"\1" if people and people[0] == "She" else r"\2", text)
        # A name keeps its small letter even at the start: names are copied exactly.
        named = template[0] in "@{" and not ARTICLE.match(text)
        return text if named else text[:1].upper() + text[1:]

    def varied(self, template: str, subject: _Entity) -> str:
        """The template with a pronoun or a noun for a subject just named, and at times more words around it."""
        rng, found, noun = self.rng, AGAIN.match(template), f"the{subject.kind}"
        ends = bool(found) and template.endswith(".") and "\n" not in template
        if subject is self.topic and subject.mentioned and (noun in _rules() or subject.kind == "person"):
            pronoun = _pronoun(subject.name) if subject.kind == "person" else "It"
            if found and rng.random() < 0.5:
                if noun in _rules() and rng.random() < 0.5:
                    head = "T" + _fill(noun, rng)[1:] + (found[1] or "")
                else:
                    head = {"It": "Its", "He": "His", "She": "Her"}[pronoun] if found[1] else pronoun
                template = head + template[found.end() :]
            elif noun in _rules() and rng.random() < 0.25:
                template = MIDDLE.sub(rf" \1 {_fill(noun, rng)}", template, count=1)
        if ends and self.topic and rng.random() < 0.1:
            template = f"{_fill('lead', rng)} {template[0].lower()}{template[1:]}"
        if ends and rng.random() < 0.06:
            template = _chosen(f"{template[:-1]} {_fill('tail', rng)}.", rng)
        return template

    def mention(self, entity: _Entity, before: str, after: str) -> str:
        """How an entity is named here: in full at first, later also by a short name."""
        if entity.mentioned and entity.short and self.rng.random() < 0.35:
            self.entities[entity.short, entity.kind] = None
            titled = entity.kind == "person" and not before and self.rng.random() < 0.2
            return ("Ms " if _pronoun(entity.name) == "She" else "Mr ") * titled + entity.short
        entity.mentioned = True
        self.entities[entity.name, entity.kind] = None
        return (entity.article if after != "-" and not CLOSED.search(before) else "") + entity.name


def _preposition(date: str) -> str:
    return "at " if date.startswith(("end ", "beginning ")) else "on " if DAY.search(date) else "in "


def _short(name: str, rule: str) -> str:
    """A family name, or the first word of a company's name; nothing where that would be misleading."""
    words = name.split()
    common = {*_rules()["she"], *_rules()["he"], *_rules()["namehead"]}
    if rule == "company" and len(words) > 1 and words[1] != "&" and words[0].isalnum() and words[0] not in common:
        return words[0] if words[0][0].isupper() and len(words[0]) > 2 else ""
    if rule == "person" and (len(words) == 2 or "." in name) and len(words[-1]) > 2:
        return words[0] if words[0] in _rules()["eastlast"] else words[-1]
    return ""


def _pronoun(name: str) -> str:
    first = name.split(maxsplit=1)[0]
    return "She" if first in _rules()["she"] or (first not in _rules()["he"] and len(name) % 2) else "He"


def document(rng: random.Random, lengths: Mapping[int, int] = LENGTHS) -> Document:
    """One document of so many sentences or blocks; one in twelve says nothing about anybody."""
    writer = _Writer(rng)
    count = rng.choices(list(lengths), list(lengths.values()))[0]
    plain = [_written(line, rng) for line in rng.sample(templates("plain"), 8)]
    if rng.random() < 1 / 12:
        for line in plain[1 : min(count, 6)]:
            plain[0] = _add(plain[0], line, rng)
        return Document(plain[0], (), (), WRITTEN)
    section = rng.choices(list(SECTIONS), list(SECTIONS.values()))[0]
    subject = writer.new(RULE_OF.get(section, section))
    text = ""
    if rng.random() < 0.25 and section != "city":
        subject.mentioned = True
        writer.topic = subject
        writer.entities[subject.name, subject.kind] = None
        text = f"{'#' * rng.randint(1, 3)} {subject.name}\n\n"
    for number in range(count):
        if number and rng.random() < 0.12:
            text = _add(text, plain.pop(), rng)
        if number and rng.random() < 0.12:
            # Names that have nothing to do with each other; what "it" would mean after them is not clear.
            text = _add(text, writer.sentence(subject, "aside"), rng)
            writer.topic = None
        if number and rng.random() < 0.4:
            known = [it for it in writer.cast if SECTION_OF.get(it.kind, it.kind) in _sections() and it.mentioned]
            if known and rng.random() < 0.75:
                subject = rng.choice(known)
                section = SECTION_OF.get(subject.kind, subject.kind)
            else:
                section = rng.choices(list(SECTIONS), list(SECTIONS.values()))[0]
                subject = writer.new(RULE_OF.get(section, section))
        text = _add(text, writer.sentence(subject, section), rng)
    return Document(text, tuple(writer.entities), tuple(writer.relations), WRITTEN)


def _add(text: str, sentence: str, rng: random.Random) -> str:
    """Sentences go on in a line or begin a paragraph; what is no sentence stands alone, list items below each other."""
    if not text or text.endswith("\n"):
        return text + sentence
    last = text.rsplit("\n", 1)[-1]
    if sentence[0] in "-|*" and "\n" not in sentence and last[0] == sentence[0]:
        return f"{text}\n{sentence}"
    running = ENDED.search(last) and last[0] not in "-|*#>" and sentence[0] not in "-|*#>" and "\n" not in sentence
    return text + (" " if running and rng.random() < 0.88 else "\n\n") + sentence

"""Silver labels from a tagger: spaCy's entities, and finer types read off definitions and appositions.

Runs where spaCy 3.8 and an English pipeline are installed (for a Wikipedia dump, gensim too); kgscale itself needs
neither. `python -m kgscale.finetune.silver --pipeline NAME --out silver.jsonl.gz --paragraphs FILE... --wiki DUMP`
"""

from __future__ import annotations

import argparse
import ast
import bz2
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgscale.finetune.examples import Example, from_offsets, write_examples

SOURCE = "silver"
FINE = "fine:"  # marks a type that the text itself gives ("the programming language ..."), not one of the tagger's
# Head nouns that say nothing about the thing ("one of the first ...", "the name of ...").
EMPTY_HEADS = frozenset(
    """
    one name part member example form type kind term series set number group use result list variety way time
    year day place work thing piece source cause reason subject center centre home site winner version title it
    he she they his her brother sister son daughter father mother wife husband friend half person people man
    woman someone native resident date birth death period century age surname cousin child uncle family
    successor word west east north south downtown vocal guitar body point star co
    """.split()  # noqa: SIM905 - a hundred quoted words read worse
)
NAMED = frozenset({"PERSON", "ORG", "GPE", "LOC", "FAC", "WORK_OF_ART", "PRODUCT", "EVENT", "LANGUAGE", "LAW"})
WORDS_MIN, WORDS_MAX = 5, 70


@dataclass(frozen=True)
class Paragraph:
    """A paragraph and the title of the article that it opens (empty if it does not open one)."""

    title: str
    text: str


def paragraphs_of_questions(path: Path) -> Iterator[Paragraph]:
    """Paragraphs of HotpotQA, 2WikiMultihopQA (`context`) and MuSiQue (`paragraphs`) files."""
    for question in json.loads(path.read_text(encoding="utf-8")):
        for field in ("context", "paragraphs"):
            found: Any = question.get(field, [])
            for item in ast.literal_eval(found) if isinstance(found, str) else found:
                title, text = (item["title"], item["paragraph_text"]) if isinstance(item, dict) else (item[0], item[1])
                body = text if isinstance(text, str) else " ".join(sentence.strip() for sentence in text)
                yield Paragraph(title, re.sub(r"\s+", " ", body).strip())


def paragraphs_of_dump(path: Path) -> Iterator[Paragraph]:
    """Paragraphs of a MediaWiki dump, without its markup; the first of each article keeps the title."""
    from gensim.corpora.wikicorpus import extract_pages, filter_wiki  # type: ignore[import-not-found]

    with bz2.open(path, "rb") as file:
        for title, text, _ in extract_pages(file, filter_namespaces=("0",)):
            opening = title
            for line in filter_wiki(text).splitlines():
                body = re.sub(r"\s+", " ", re.sub(r"'{2,}|\(\s*[;,]?\s*\)", "", line)).strip()
                if len(body) > 120 and body[0].isalpha() and not body.startswith(("|", "!", "*", "=", "{")):
                    yield Paragraph(opening, body)
                    opening = ""


def offsets(entity: Any, begin: int) -> tuple[int, int]:
    """Where an entity stands in its sentence, without the article and the possessive that OntoNotes counts in."""
    start, end = entity.start_char - begin, entity.end_char - begin
    if entity.label_ != "WORK_OF_ART" and entity.text[:4].lower() == "the " and len(entity.text) > 4:
        start += 4
    return start, end - 2 if entity.text.endswith(("'s", "\u2019s")) else end


def noun_type(token: Any) -> str | None:
    """The type that a noun names: its lower-case compound, e.g. `programming language`; None if it says too little."""
    if token.pos_ != "NOUN" or token.lemma_.lower() in EMPTY_HEADS or not token.text.isalpha():
        return None
    before = [child for child in token.lefts if child.dep_ == "compound" and child.pos_ == "NOUN" and child.is_alpha]
    return " ".join([noun.text.lower() for noun in before[-2:]] + [token.lemma_.lower()])


def with_conjuncts(token: Any) -> list[Any]:
    """The token and what is joined to it after it: `singer, songwriter and actor`."""
    return [token, *(other for other in token.conjuncts if other.i > token.i)]


def defined_types(sentence: Any, title: str) -> list[str]:
    """What the opening sentence says that the title is: `X was a singer and film director` gives both."""
    for token in sentence:
        if token.dep_ == "attr" and token.head.lemma_ == "be" and token.i - sentence.start < 40:
            head = token
            # "one of the largest cities": the noun behind the partitive is the type.
            if head.lemma_.lower() in EMPTY_HEADS:
                behind = (noun for child in head.children if child.lower_ == "of" for noun in child.children)
                inner = [noun for noun in behind if noun.dep_ == "pobj"]
                head = inner[0] if inner else head
            kinds = [noun_type(other) for other in with_conjuncts(head)]
            return [kind for kind in kinds if kind and kind not in title.lower()][:3]
    return []


def apposed_types(entity: Any) -> list[str]:
    """Types beside an entity: `Oslo, a city`, `the programming language Haskell`."""
    root = entity.root
    found = []
    for child in root.children:
        if child.dep_ == "appos" and (kind := noun_type(child)):
            found.append(kind)
        if child.dep_ == "compound" and child.pos_ == "NOUN" and child.i < entity.start and (kind := noun_type(child)):
            found.append(kind)
    if root.dep_ == "appos" and root.head.pos_ == "NOUN" and (kind := noun_type(root.head)):
        found.append(kind)
    return found


def title_names(title: str, is_person: bool) -> list[str]:
    """How a text calls the subject of an article: its title without the bracket, and a person's last name."""
    name = re.sub(r"\s*\(.*\)$", "", title).strip()
    last = name.split()[-1] if name else ""
    return [name, last] if is_person and len(last) > 3 and last[0].isupper() else [name]


def examples_of(paragraph: Paragraph, doc: Any, known: dict[str, list[str]]) -> Iterator[Example]:
    """One example for each sentence of a tagged paragraph; `known` maps the titles of other articles to their types."""
    sentences = list(doc.sents)
    kinds = defined_types(sentences[0], paragraph.title) if paragraph.title and sentences else []
    people = {ent.text for ent in doc.ents if ent.label_ == "PERSON"}
    names = title_names(paragraph.title, paragraph.title in people) if kinds else []
    if kinds and len(names[0]) > 2:
        known[names[0]] = kinds
    for sentence in sentences:
        begin = sentence.start_char
        entities = [(*offsets(ent, begin), ent.label_) for ent in sentence.ents]
        fine: dict[tuple[int, int], set[str]] = defaultdict(set)
        for ent in (ent for ent in sentence.ents if ent.label_ in NAMED):
            for kind in [*apposed_types(ent), *(known.get(ent.text, []) if " " in ent.text else [])]:
                fine[offsets(ent, begin)].add(kind)
        for name in names:
            for match in re.finditer(rf"\b{re.escape(name)}\b", sentence.text):
                if not any(a < match.end() and match.start() < b and (a, b) != match.span() for a, b, _ in entities):
                    fine[match.span()].update(kinds)
        entities += [(a, b, FINE + kind) for (a, b), found in fine.items() for kind in sorted(found)]
        example = from_offsets(sentence.text.rstrip(), entities, SOURCE)
        if WORDS_MIN <= len(example.words) <= WORDS_MAX:
            yield example


def tag(paragraphs: Iterable[Paragraph], pipeline: str) -> Iterator[Example]:
    """Run the tagger over distinct paragraphs."""
    import spacy  # type: ignore[import-not-found]

    nlp = spacy.load(pipeline)
    seen: set[str] = set()
    known: dict[str, list[str]] = {}
    fresh = (p for p in paragraphs if p.text and not (p.text in seen or seen.add(p.text)))  # type: ignore[func-returns-value]
    for doc, paragraph in nlp.pipe(((p.text[:4000], p) for p in fresh), as_tuples=True, batch_size=64):
        yield from examples_of(paragraph, doc, known)


def main() -> None:
    """Tag the named files and write the examples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipeline", default="en_core_web_sm")
    parser.add_argument("--paragraphs", type=Path, nargs="*", default=[])
    parser.add_argument("--wiki", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    def paragraphs() -> Iterator[Paragraph]:
        for path in options.paragraphs:
            yield from paragraphs_of_questions(path)
        if options.wiki:
            yield from paragraphs_of_dump(options.wiki)

    print(write_examples(options.out, tag(paragraphs(), options.pipeline)), "examples")


if __name__ == "__main__":
    main()

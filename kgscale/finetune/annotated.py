"""Annotated sets with relations as documents to train an LLM on: passages of Re-DocRED, lines of SoMeSci."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from kgscale.finetune.facts import Document
from kgscale.finetune.sources import INTENT, is_held_out

PASSAGE = 3
"""Sentences in a passage of Re-DocRED: about seventy words."""
NO_SPACE_BEFORE = re.compile(r" ([,.;:!?)\]'\u2019]|n't\b)")


def re_docred(path: Path) -> Iterator[Document]:
    """Passages of three sentences, with the relations whose ends are both named in them.

    Relations keep their Wikidata property as kind. A relation that only the rest of the document supports is kept too:
    the set does not say for all of them where they are supported.
    """
    for document in json.loads(path.read_text(encoding="utf-8")):
        sentences = document["sents"]
        for first in range(0, len(sentences), PASSAGE):
            numbers = range(first, min(first + PASSAGE, len(sentences)))
            text = _untokenised(" ".join(" ".join(sentences[i]) for i in numbers))
            names: dict[int, str] = {}
            places: list[tuple[int, str, str]] = []
            for number, vertex in enumerate(document["vertexSet"]):
                inside = [it for it in vertex if it["sent_id"] in numbers]
                spoken = {_untokenised(it["name"]): it["type"] for it in inside}
                known = {name: kind for name, kind in spoken.items() if name in text}
                if known:
                    names[number] = max(known, key=len)
                    places += [(text.find(name), name, kind) for name, kind in known.items()]
            triples = sorted(
                (text.find(names[it["h"]]), names[it["h"]], it["r"], names[it["t"]])
                for it in document["labels"]
                if it["h"] in names and it["t"] in names and set(it["evidence"]) <= set(numbers)
            )
            entities = dict.fromkeys((name, kind) for _, name, kind in sorted(places))
            relations = dict.fromkeys((head, kind, tail) for _, head, kind, tail in triples if head != tail)
            yield Document(text, tuple(entities), tuple(relations), "re_docred")


def somesci(folder: Path) -> Iterator[Document]:
    """Lines of the articles that are not held out, with entities and relations."""
    for path in sorted(folder.glob("*/*.txt")):
        if is_held_out(path.stem):
            continue
        spans: dict[str, tuple[int, int, str]] = {}
        triples: list[tuple[str, str, str]] = []
        for line in path.with_suffix(".ann").read_text(encoding="utf-8").splitlines():
            key, body = line.split("\t")[:2]
            if key[0] == "T":
                kind, place = body.split(" ", 1)
                offsets = [int(number) for number in re.findall(r"\d+", place)]
                spans[key] = (min(offsets), max(offsets), INTENT.sub("", kind))
            elif key[0] == "R":
                kind, source, target = body.split()
                triples.append((source.split(":")[1], kind, target.split(":")[1]))
        yield from _lines(path.read_text(encoding="utf-8"), spans, triples)


def _lines(
    whole: str, spans: dict[str, tuple[int, int, str]], triples: list[tuple[str, str, str]]
) -> Iterator[Document]:
    at = 0
    by_source = defaultdict(list)
    for source, kind, target in triples:
        by_source[source].append((kind, target))
    for line in whole.splitlines(keepends=True):
        inside = {key: it for key, it in spans.items() if at <= it[0] and it[1] <= at + len(line)}
        ordered = sorted(inside, key=lambda key: inside[key])
        name = {key: whole[inside[key][0] : inside[key][1]] for key in ordered}
        relations = [
            (name[source], kind, name[target])
            for source in ordered
            for kind, target in by_source[source]
            if target in name and name[source] != name[target]
        ]
        entities = dict.fromkeys((name[key], inside[key][2]) for key in ordered)
        yield Document(line.strip(), tuple(entities), tuple(dict.fromkeys(relations)), "somesci")
        at += len(line)


def _untokenised(text: str) -> str:
    return NO_SPACE_BEFORE.sub(r"\1", text.replace(" ( ", " (").replace(' " ', ' "').replace(" - ", "-"))

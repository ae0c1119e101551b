"""Annotated sets as training examples: Re-DocRED, RE3D, SoMeSci, and the Wikidata half of Text2KGBench."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from kgscale.finetune.examples import Example, from_offsets
from kgscale.finetune.silver import FINE

WORDS_MIN = 4
# SoMeSci splits `Application` by intent and spells the rest with it too; the intent is not an entity type.
INTENT = re.compile(r"_(Usage|Creation|Deposition|Mention)$")
HELD_OUT_PERCENT = 30


def re_docred(path: Path) -> Iterator[Example]:
    """Sentences of a Re-DocRED file; all mentions of its six types."""
    for document in json.loads(path.read_text(encoding="utf-8")):
        mentions = defaultdict(list)
        for vertex in document["vertexSet"]:
            for mention in vertex:
                mentions[mention["sent_id"]].append((*mention["pos"], mention["type"]))
        for number, tokens in enumerate(document["sents"]):
            starts = [sum(len(token) + 1 for token in tokens[:i]) for i in range(len(tokens) + 1)]
            entities = [(starts[a], starts[b] - 1, kind) for a, b, kind in mentions[number]]
            yield from _kept(from_offsets(" ".join(tokens), entities, "re_docred"))


def re3d(folder: Path) -> Iterator[Example]:
    """Lines of a RE3D source's documents."""
    entities = defaultdict(list)
    for line in (folder / "entities.json").read_text(encoding="utf-8").splitlines():
        entity = json.loads(line)
        entities[entity["documentId"]].append((entity["begin"], entity["end"], entity["type"]))
    for line in (folder / "documents.json").read_text(encoding="utf-8").splitlines():
        document = json.loads(line)
        yield from _lines(document["text"], entities[document["_id"]], "re3d")


def somesci(folder: Path, *, held_out: bool) -> Iterator[Example]:
    """Sentences of SoMeSci's BRAT files: those to train on, or those kept for scoring (`is_held_out`)."""
    for path in sorted(folder.glob("*/*.txt")):
        if is_held_out(path.stem) != held_out:
            continue
        entities = []
        for line in path.with_suffix(".ann").read_text(encoding="utf-8").splitlines():
            if line.startswith("T"):
                kind, *places = line.split("\t")[1].split(" ", 1)
                offsets = [int(number) for number in re.findall(r"\d+", places[0])]
                entities.append((min(offsets), max(offsets), INTENT.sub("", kind)))
        yield from _lines(path.read_text(encoding="utf-8"), entities, "somesci")


def is_held_out(article: str) -> bool:
    """Whether an article (`PMC2100169`) is never trained on: three in ten, by the hash of its id."""
    return int(hashlib.sha256(article.split("_", 1)[0].encode()).hexdigest(), 16) % 100 < HELD_OUT_PERCENT


def tekgen(folder: Path) -> Iterator[Example]:
    """Sentences whose relation ends the Wikidata ontology types; ends that are not in the sentence are left out."""
    for path in sorted((folder / "ground_truth").glob("*.jsonl")):
        number, name = path.name.split("_")[1:3]
        ontology = json.loads((folder / "ontologies" / f"{number}_{name}_ontology.json").read_text(encoding="utf-8"))
        labels = {kind["qid"]: FINE + kind["label"].lower() for kind in ontology["concepts"]}
        ends = {kind["label"]: (kind["domain"], kind["range"]) for kind in ontology["relations"]}
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            entities = set()
            for triple in row["triples"]:
                kinds = ends.get(triple["rel"], ())
                for text, kind in zip((triple["sub"], triple["obj"]), kinds, strict=False):
                    at = row["sent"].find(text)
                    if kind in labels and at >= 0:
                        entities.add((at, at + len(text), labels[kind]))
            yield from _kept(from_offsets(row["sent"], sorted(entities), "tekgen"))


def _lines(text: str, entities: list[tuple[int, int, str]], source: str) -> Iterator[Example]:
    """An example for each line of a text whose entities have offsets in the whole text."""
    at = 0
    for line in text.splitlines(keepends=True):
        inside = [(a - at, b - at, kind) for a, b, kind in entities if at <= a and b <= at + len(line)]
        yield from _kept(from_offsets(line.rstrip(), inside, source))
        at += len(line)


def _kept(example: Example) -> Iterator[Example]:
    if len(example.words) >= WORDS_MIN:
        yield example

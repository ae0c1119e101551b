"""The public sets, read whole: what the readers count against a plain count of the same files."""

import json
import re
from collections import Counter
from itertools import chain

import pytest

from kgscale.formats import guess_format
from kgscale.formats.convert import READERS


def read(path, fmt):
    """Records and report; every offset must lead to its own text, every relation to names."""
    assert guess_format(path) == fmt
    result = READERS[fmt](path)
    records = list(result.records)
    for record in records:
        for entity in record.gold.entities:
            if entity.start is not None:
                assert record.text[entity.start : entity.end].lower().split() == entity.text.lower().split()
    return records, result.report


def test_re_docred(data):
    file = data("re_docred/dev_200docs.json")
    documents = json.loads(file.read_text(encoding="utf-8"))
    records, report = read(file.parent, "docred")
    assert report.chunks == len(documents) == 200
    assert report.mentions == sum(len(it) for document in documents for it in document["vertexSet"]) == 5382
    assert report.relations == sum(len(document["labels"]) for document in documents) == 7329
    assert report.skipped == 0
    names = json.loads((file.parent / "pid2name_wiki.json").read_text())
    properties = {it["r"] for document in documents for it in document["labels"]}
    assert report.relation_types == {names.get(it, [it])[0] for it in properties}
    assert [it.doc_id for it in records] == [document["title"] for document in documents]


def test_biored(data):
    lines = data("biored/Dev.PubTator").read_text(encoding="utf-8").splitlines()
    _, report = read(data("biored/Dev.PubTator"), "pubtator")
    assert report.chunks == sum("|t|" in line[:12] for line in lines) == 100
    assert report.mentions == sum(bool(re.match(r"\d+\t\d+\t\d+\t", line)) for line in lines) == 3533
    assert report.relations == sum(bool(re.match(r"\d+\t[A-Z]\w+\t", line)) for line in lines) == 1162
    assert report.skipped == 0
    assert not report.problems.first


def test_re3d(data):
    root = data("re3d")

    def lines(name):
        found = (file.read_text(encoding="utf-8").splitlines() for file in root.rglob(name))
        return [json.loads(line) for line in chain.from_iterable(found) if line.strip()]

    documents = {it["_id"] for it in lines("documents.json")}
    entities, relations = lines("entities.json"), lines("relations.json")
    _, report = read(root, "re3d")
    assert report.chunks == len(documents) == 39
    # One entity of the set covers nothing, and is told.
    empty = [it for it in entities if not it["value"].strip()]
    assert report.skipped == len(empty) == 1
    assert report.mentions == len(entities) - len(empty) == 1585
    assert report.relations == len(relations) == 404


def test_tekgen(data):
    root = data("tekgen")
    values = [
        json.loads(line)
        for file in (root / "ground_truth").glob("*.jsonl")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    records, report = read(root, "tekgen")
    assert report.chunks == len(values)
    assert report.relations == sum(len(it["triples"]) for it in values)
    assert report.skipped == 0
    found = Counter(entity.start is not None for record in records for entity in record.gold.entities)
    assert found[True] / found.total() > 0.75
    typed = Counter(bool(entity.type) for record in records for entity in record.gold.entities)
    assert typed[True] / typed.total() > 0.5


@pytest.mark.parametrize(
    "name", ["gliner_sample/sample_data.json", "gliner_format_crossner/crossner_ai_politics_science.gliner.json"]
)
def test_gliner(data, name):
    values = json.loads(data(name).read_text(encoding="utf-8"))
    records, report = read(data(name), "gliner")
    assert report.chunks == len(values)
    assert report.mentions == sum(len(it["ner"]) for it in values)
    assert report.entity_types == {entity[2] for it in values for entity in it["ner"]}
    assert report.skipped == 0
    # The words are those of the set, wherever they stand in the text now.
    for record, value in zip(records, values, strict=True):
        assert "".join(record.text.split()) == "".join("".join(value["tokenized_text"]).split())


@pytest.mark.parametrize("name", ["graphrag_bench_novel/corpus", "openmmlab_kb_zh"])
def test_corpora(data, name):
    root = data(name)
    suffixes = {".txt", ".md", ".rst", ".html"}
    texts = [it for it in root.rglob("*") if it.suffix in suffixes and it.read_text(encoding="utf-8").strip()]
    records, report = read(root, "text")
    assert {it.doc_id for it in records} == {it.relative_to(root).as_posix() for it in texts}
    assert report.skipped == 0
    assert not any(it.annotated for it in records)

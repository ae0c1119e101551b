"""Public sets of tokens and spans: DocRED, SpERT, SciERC, GLiNER, GLiNER2, TekGen, re3d."""

import json

import pytest

from kgscale.errors import UserError
from kgscale.formats.convert import READERS
from kgscale.records import GoldEntity, Relation


def read(path, fmt, *values, lines=True):
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = "\n".join(json.dumps(it) for it in values) if lines else json.dumps(values)
    path.write_text(whole, encoding="utf-8")
    result = READERS[fmt](path)
    return list(result.records), result.report


def told(report):
    return dict(report.problems.counts)


SPERT = {
    "tokens": ["John", "Smith", "lives", "in", "Rome", "."],
    "entities": [{"type": "Peop", "start": 0, "end": 2}, {"type": "Loc", "start": 4, "end": 5}],
    "relations": [{"type": "Live_In", "head": 0, "tail": 1}],
    "orig_id": 12,
}


@pytest.mark.parametrize("lines", [True, False])
def test_spert(tmp_path, lines):
    (record,), report = read(tmp_path / "conll04.json", "spert", SPERT, lines=lines)
    assert (record.doc_id, record.gold.chunk_id, record.text) == ("12", "conll04-1", "John Smith lives in Rome .")
    assert record.gold.entities == [GoldEntity("John Smith", "Peop", 0, 10), GoldEntity("Rome", "Loc", 20, 24)]
    assert record.gold.relations == [Relation("John Smith", "Rome", "Live_In")]
    assert not told(report)


def test_spert_tells_what_does_not_fit(tmp_path):
    bad = {
        **SPERT,
        "entities": [*SPERT["entities"], {"type": "Loc", "start": 5, "end": 7}, {"type": "Loc"}, 3],
        "relations": [
            *SPERT["relations"],
            {"type": "r", "head": 0, "tail": 2},
            {"type": "r", "head": -1, "tail": 1},
            {"type": "r", "head": 0, "tail": 9},
        ],
    }
    (record,), report = read(tmp_path / "a.json", "spert", bad, {"tokens": []}, "no object")
    assert len(record.gold.entities) == 2
    assert len(record.gold.relations) == 1
    assert told(report) == {"skipped an entity": 3, "skipped a relation": 3, "skipped a record": 2}
    assert report.skipped == 8
    assert str(report.problems.first[0]).startswith(f"{tmp_path}/a.json:1: skipped an entity")


def test_scierc_counts_tokens_in_the_document(tmp_path):
    value = {
        "doc_key": "X",
        "sentences": [["We", "like", "BERT", "."], ["It", "uses", "attention", "."]],
        "ner": [[[2, 2, "Method"]], [[6, 6, "Task"], [8, 9, "Task"]]],
        "relations": [[], [[2, 2, 6, 6, "USES"], [2, 2, 5, 5, "USES"]]],
        "clusters": [[[2, 2], [4, 4]]],
    }
    (record,), report = read(tmp_path / "a.jsonl", "scierc", value)
    assert record.text == "We like BERT . It uses attention ."
    assert record.gold.entities == [GoldEntity("BERT", "Method", 8, 12), GoldEntity("attention", "Task", 23, 32)]
    assert record.gold.relations == [Relation("BERT", "attention", "USES")]
    assert told(report) == {"skipped an entity": 1, "skipped a relation": 1, "left out a coreference cluster": 1}
    predicted = {
        key.replace("ner", "predicted_ner").replace("relations", "predicted_relations"): it for key, it in value.items()
    }
    predicted["predicted_relations"] = [[], [[2, 2, 6, 6, "USES", 9.1, 0.8]]]
    (again,), _ = read(tmp_path / "b.jsonl", "scierc", predicted)
    assert again.gold == record.gold


DOCRED = {
    "title": "Ada",
    "sents": [["Ada", "Lovelace", "wrote", "."], ["Lovelace", "met", "Babbage", "in", "London", "."]],
    "vertexSet": [
        [
            {"name": "Ada Lovelace", "sent_id": 0, "pos": [0, 2], "type": "PER"},
            {"name": "Lovelace", "sent_id": 1, "pos": [0, 1], "type": "PER", "global_pos": [4, 4], "index": "0_1"},
        ],
        [{"name": "London", "sent_id": 1, "pos": [4, 5], "type": "LOC"}],
        [{"name": "nowhere", "sent_id": 2, "pos": [0, 1], "type": "LOC"}],
    ],
    "labels": [
        {"h": 0, "t": 1, "r": "P20", "evidence": [1]},
        {"h": 0, "t": 2, "r": "P20"},
        {"h": 0, "t": 3, "r": "P20"},
    ],
}


def test_docred_clusters_are_aliases(tmp_path):
    records, report = read(tmp_path / "dev.json", "docred", DOCRED, {**DOCRED, "labels": None}, lines=False)
    assert [it.gold.chunk_id for it in records] == ["Ada", "dev-2"]
    assert records[0].gold.entities == [
        GoldEntity("Ada Lovelace", "PER", 0, 12, ["Lovelace"]),
        GoldEntity("Lovelace", "PER", 21, 29, ["Ada Lovelace"]),
        GoldEntity("London", "LOC", 45, 51),
    ]
    assert records[0].gold.relations == [Relation("Ada Lovelace", "London", "P20")]
    assert told(report) == {"skipped an entity": 2, "skipped a relation": 2}


def test_docred_names_the_properties_where_it_can(tmp_path):
    (tmp_path / "rel_info.json").write_text('{"P20": "place of death"}')
    (tmp_path / "pid2name_x.json").write_text('{"P21": ["sex", "…"], "P22": []}')
    (record,), report = read(tmp_path / "dev.json", "docred", DOCRED, lines=False)
    assert record.gold.relations[0].type == "place of death"
    assert "cannot be read as names of relations" in told(report)
    assert list(READERS["docred"](tmp_path).records) == [record]


GLINER = {
    "tokenized_text": ["John", "works", "at", "Microsoft", "Research"],
    "ner": [[0, 0, "person"], [3, 4, "organization"]],
    "relations": [[0, 1, "works_at"]],
    "ner_negatives": ["brand"],
}


def test_gliner(tmp_path):
    bad = {"tokenized_text": ["a"], "ner": [[0, 1, "x"], [0, 0, "y"]], "relations": [[0, 1, "r"], [1, 1, "s"]]}
    records, report = read(tmp_path / "train.json", "gliner", GLINER, bad, lines=False)
    assert records[0].gold.entities == [
        GoldEntity("John", "person", 0, 4),
        GoldEntity("Microsoft Research", "organization", 14, 32),
    ]
    assert records[0].gold.relations == [Relation("John", "Microsoft Research", "works_at")]
    assert records[1].gold.relations == [Relation("a", "a", "s")]
    assert told(report) == {"skipped an entity": 1, "skipped a relation": 1}


def test_gliner2(tmp_path):
    value = {
        "input": "John works for Apple Inc.",
        "output": {
            "entities": {"person": ["John", "Ann"], "company": ["Apple Inc."], "place": [], "x": [3]},
            "relations": [{"works_for": {"head": "John", "tail": "Apple Inc."}}, {"works_for": {"head": "John"}}],
            "classifications": [{"task": "t"}],
        },
    }
    (record,), report = read(tmp_path / "a.jsonl", "gliner2", value, {"input": "x"})
    assert record.gold.entities == [
        GoldEntity("John", "person", 0, 4),
        GoldEntity("Ann", "person"),
        GoldEntity("Apple Inc.", "company", 15, 25),
    ]
    assert record.gold.relations == [Relation("John", "Apple Inc.", "works_for")]
    assert told(report) == {
        "left out a part of the output": 1,
        "skipped an entity": 1,
        "skipped a relation": 1,
        "skipped a record": 1,
    }


def test_tekgen_takes_types_from_the_ontology(tmp_path):
    folder = tmp_path / "ontologies"
    folder.mkdir()
    ontology = {
        "id": "ont_1_movie",
        "concepts": [{"qid": "Q1", "label": "film"}, {"qid": "Q5", "label": "human"}],
        "relations": [
            {"pid": "P57", "label": "director", "domain": "Q1", "range": "Q5"},
            {"pid": "P577", "label": "publication date", "domain": "Q1", "range": ""},
        ],
    }
    (folder / "1_movie.json").write_text(json.dumps(ontology))
    value = {
        "id": "ont_1_movie_test_1",
        "sent": "Bleach is a 2010 film by Noriyuki Abe.",
        "triples": [
            {"sub": "Bleach", "rel": "director", "obj": "Noriyuki Abe"},
            {"sub": "Bleach", "rel": "publication date", "obj": "01 January 2010"},
            {"sub": "Bleach", "rel": "director"},
        ],
    }
    (tmp_path / "gt").mkdir()
    (record,), report = read(tmp_path / "gt/a.jsonl", "tekgen", value)
    assert record.gold.entities == [
        GoldEntity("Bleach", "film", 0, 6),
        GoldEntity("Noriyuki Abe", "human", 25, 37),
        GoldEntity("01 January 2010", ""),
    ]
    assert [it.type for it in record.gold.relations] == ["director", "publication date"]
    assert told(report) == {"skipped a relation": 1}
    (tmp_path / "a_test.jsonl").write_text('{"id": "ont_1_movie_test_1", "sent": "…"}')
    assert list(READERS["tekgen"](tmp_path).records) == [record]


def test_tekgen_says_where_there_is_no_ontology(tmp_path):
    value = {"id": "x", "sent": "A b", "triples": [{"sub": "A", "rel": "r", "obj": "b"}]}
    (record,), report = read(tmp_path / "sub/sub/a.jsonl", "tekgen", value)
    assert {it.type for it in record.gold.entities} == {""}
    assert told(report) == {"no ontology is there: the entities have no types": 1}


def test_re3d(tmp_path):
    def lines(name, *values):
        (tmp_path / name).write_text("\n".join(map(json.dumps, values)))

    lines("documents.json", {"_id": "D", "text": "Ada met Bob"}, {"text": "no id"})
    entity = {"documentId": "D", "begin": 0, "end": 3, "type": "Person", "value": "Ada"}
    lines("entities.json", entity, {**entity, "begin": 8, "end": 11}, {**entity, "documentId": "E"})
    lines("relations.json", {"documentId": "D", "source": "Ada", "target": "Bob", "type": "met"}, {"documentId": "D"})
    result = READERS["re3d"](tmp_path)
    (record,) = result.records
    assert record.gold.entities == [GoldEntity("Ada", "Person", 0, 3), GoldEntity("Ada", "Person")]
    assert record.gold.relations == [Relation("Ada", "Bob", "met")]
    assert result.report.skipped == 3
    with pytest.raises(UserError, match=r"no documents\.json"):
        READERS["re3d"](tmp_path / "nowhere")

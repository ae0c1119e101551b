"""Written and read again, everything that a format can hold is there; what it cannot is told."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.errors import UserError
from kgscale.formats import WRITERS, Record, Report, convert
from kgscale.formats.brat import read_brat
from kgscale.formats.conll import read_conll
from kgscale.formats.convert import READERS
from kgscale.formats.gliner import read_gliner
from kgscale.formats.gliner2 import read_gliner2
from kgscale.formats.graphrag import read_graphrag
from kgscale.formats.guide import read_guide
from kgscale.formats.labelstudio import read_label_studio
from kgscale.formats.lightrag import read_lightrag
from kgscale.formats.rundir import import_run, read_run
from kgscale.formats.spans import Words
from kgscale.records import GoldChunk, GoldEntity, Relation, Status

from .record_making import names, pairs, record_lists, spans, texts, triples

quick = settings(max_examples=60, deadline=None)


def trip(folder, target, records, read):
    """Write and read; also what the writer told."""
    report = Report()
    files = WRITERS[target].files
    path = folder / files[0] if files else folder / "out"
    WRITERS[target].write(iter(records), path, report)
    result = read(path)
    return list(result.records), report, result.report


@quick
@given(record_lists())
def test_label_studio(tmp_path_factory, written):
    back, wrote, read = trip(tmp_path_factory.mktemp("x"), "label-studio", written, read_label_studio)
    assert [(it.doc_id, it.text, it.gold.chunk_id, it.gold.origin) for it in back] == [
        (it.doc_id, it.text, it.gold.chunk_id, it.gold.origin) for it in written
    ]
    assert [spans(it) for it in back] == [spans(it) for it in written]
    assert [triples(it) for it in back] == [triples(it) for it in written]
    assert wrote.skipped == read.skipped == 0


@quick
@given(record_lists())
def test_brat(tmp_path_factory, written):
    back, wrote, read = trip(tmp_path_factory.mktemp("x"), "brat", written, read_brat)
    assert sorted(it.text for it in back) == sorted(it.text for it in written)
    by_text = {it.text: it for it in back}
    for record in written:
        if [it.text for it in written].count(record.text) == 1:
            found = by_text[record.text]
            assert [it[:2] + it[3:] for it in spans(found)] == [it[:2] + it[3:] for it in spans(record)]
            assert {it[1] for it in triples(found)} == {it[1] for it in triples(record)}
    assert wrote.skipped == read.skipped == 0


@quick
@given(record_lists())
def test_lightrag(tmp_path_factory, written):
    back, wrote, _ = trip(tmp_path_factory.mktemp("x"), "lightrag", written, read_lightrag)
    assert [(it.doc_id, it.text, it.gold.chunk_id) for it in back] == [
        (it.doc_id, it.text, it.gold.chunk_id) for it in written
    ]
    assert [names(it) for it in back] == [names(it) for it in written]
    loops = [[it for it in record.gold.relations if it.source.split() == it.target.split()] for record in written]
    assert [triples(it) for it in back] == [
        triples(it) - {(one.source, one.type, one.target) for one in loop}
        for it, loop in zip(written, loops, strict=True)
    ]
    assert wrote.skipped == sum(map(len, loops))


@quick
@given(record_lists())
def test_graphrag(tmp_path_factory, written):
    back, wrote, read = trip(tmp_path_factory.mktemp("x"), "graphrag", written, read_graphrag)
    assert [(it.doc_id, it.text, it.gold.chunk_id) for it in back] == [
        (it.doc_id, it.text, it.gold.chunk_id) for it in written
    ]
    assert [names(it) for it in back] == [names(it) for it in written]
    assert [pairs(it) for it in back] == [pairs(it) for it in written]
    assert wrote.skipped == read.skipped == 0


@quick
@given(record_lists())
def test_gliner2(tmp_path_factory, written):
    back, wrote, read = trip(tmp_path_factory.mktemp("x"), "gliner2", written, read_gliner2)
    assert [it.text for it in back] == [it.text for it in written]
    assert [names(it) for it in back] == [names(it) for it in written]
    assert [triples(it) for it in back] == [triples(it) for it in written]
    assert wrote.skipped == read.skipped == 0


@st.composite
def word_records(draw, overlaps=True):
    """Texts with entities from word to word, as formats of words can hold them."""
    text = draw(texts().filter(str.strip))
    words = Words.of(text)
    spans_, taken = [], set()
    for _ in range(draw(st.integers(0, 4))):
        first = draw(st.integers(0, len(words.words) - 1))
        last = draw(st.integers(first, len(words.words) - 1))
        if overlaps or not taken & set(range(first, last + 1)):
            spans_.append((first, last, draw(st.sampled_from(["person", "ORG", "机构"]))))
            taken |= set(range(first, last + 1))
    entities = [
        GoldEntity(text[words.starts[a] : words.ends[b]], kind, words.starts[a], words.ends[b]) for a, b, kind in spans_
    ]
    gold = GoldChunk(draw(st.text("abc", min_size=1)), entities, [], text=text)
    return Record("d", text, gold), words.words, sorted(spans_)


def words_of(record):
    """The entities by the words they cover, white space aside."""
    return sorted(("".join(it.text.split()), it.type) for it in record.gold.entities)


@quick
@given(st.lists(word_records(), min_size=1, max_size=3))
def test_gliner(tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("x")
    written = [it for it, _, _ in drawn]
    back, wrote, read = trip(folder, "gliner", written, read_gliner)
    values = json.loads((folder / "train.json").read_text(encoding="utf-8"))
    assert [value["tokenized_text"] for value in values] == [words for _, words, _ in drawn]
    assert [sorted(map(tuple, value["ner"])) for value in values] == [found for *_, found in drawn]
    assert [words_of(it) for it in back] == [words_of(it) for it in written]
    assert wrote.skipped == read.skipped == 0


@quick
@given(st.lists(word_records(overlaps=False), min_size=1, max_size=3))
def test_conll(tmp_path_factory, drawn):
    written = [it for it, _, _ in drawn]
    back, wrote, read = trip(tmp_path_factory.mktemp("x"), "conll", written, read_conll)
    assert ["".join(it.text.split()) for it in back] == ["".join(it.text.split()) for it in written]
    assert [words_of(it) for it in back] == [words_of(it) for it in written]
    assert wrote.skipped == read.skipped == 0


@settings(max_examples=25, deadline=None)
@given(record_lists(), st.sampled_from(Status))
def test_a_run(tmp_path_factory, written, status):
    written = [Record(it.doc_id, it.text, it.gold, status, "why: so" if status == "failed" else None) for it in written]
    path = tmp_path_factory.mktemp("x") / "run"
    import_run(lambda: (Report(), iter(written)), path, "theirs", {"format": "test"})
    back = list(read_run(path).records)
    assert [(it.doc_id, it.text, it.gold.chunk_id, it.status, it.error) for it in back] == [
        (it.doc_id, it.text, it.gold.chunk_id, it.status, it.error) for it in written
    ]
    assert [spans(it) for it in back] == [spans(it) for it in written]
    assert [it.gold.relations for it in back] == [it.gold.relations for it in written]


@quick
@given(record_lists(aliases=True))
def test_predictions(tmp_path_factory, written):
    back, wrote, read = trip(tmp_path_factory.mktemp("x"), "predictions", written, without_texts)
    assert [names(it) for it in back] == [names(it) for it in written]
    assert [triples(it) for it in back] == [triples(it) for it in written]
    assert wrote.skipped == read.skipped == 0


def without_texts(path):
    """Predictions carry no text, so the guide's reader needs one put in."""
    value = json.loads(path.read_text(encoding="utf-8"))
    for chunk in value["chunks"]:
        chunk["text"] = ""
        for entity in chunk["entities"]:
            entity.pop("start", None), entity.pop("end", None)
    path.write_text(json.dumps(value))
    return read_guide(path)


LOST = Record(
    "d",
    "Ada Lovelace met Charles Babbage.",
    GoldChunk(
        "../c 1",
        [
            GoldEntity("Ada Lovelace", "person", 0, 12),
            GoldEntity("Love", "feeling", 4, 8),
            GoldEntity("Menabrea", "person"),
            GoldEntity("Charles Babbage", "", 17, 32),
        ],
        [
            Relation("Ada Lovelace", "Charles Babbage", "met"),
            Relation("Ada Lovelace", "Menabrea", "read"),
            Relation("Ada Lovelace", "Ada Lovelace", "is"),
        ],
    ),
)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (
            "brat",
            {"an entity that is not in the text": 1, "without a type": 1, "relation whose ends": 1, "the id is": 1},
        ),
        ("conll", {"an entity that is not in the text": 1, "inside a word": 1, "without a type": 1, "a relation": 3}),
        ("gliner", {"an entity that is not in the text": 1, "inside a word": 1, "relation whose ends": 1}),
        ("label-studio", {"an entity that is not in the text": 1, "relation whose ends": 1}),
        ("lightrag", {"with itself": 1}),
        ("gliner2", {}),
        ("graphrag", {}),
        ("guide", {}),
    ],
)
def test_what_a_format_cannot_hold_is_told(tmp_path, target, told):
    _, report, _ = trip(tmp_path, target, [LOST], READERS[target])
    counts = report.problems.counts
    assert {key: sum(count for kind, count in counts.items() if key in kind) for key in told} == told
    assert sum(counts.values()) == sum(told.values())


def test_ids_stay_below_the_directory(tmp_path):
    ids = [
        "../up",
        "/etc/passwd",
        "a/../../b",
        "A",
        "a",
        "con\0",
        "x" * 300,
        "苹" * 150,
        "a/" * 3000 + "b",
        "..",
        "a/b",
        "a.txt/b",
    ]
    records = [Record(it, "text", GoldChunk(it, [], [])) for it in ids]
    report = Report()
    WRITERS["brat"].write(records, tmp_path / "sub" / "out", report)
    files = [it for it in tmp_path.rglob("*") if it.is_file()]
    assert len(files) == 2 * len(ids)
    assert all(it.resolve().is_relative_to(tmp_path / "sub" / "out") for it in files)
    assert len(list(read_brat(tmp_path / "sub" / "out").records)) == len(ids)


def test_negatives_are_the_other_types_of_the_set(tmp_path):
    records = [
        Record("d", "Ada", GoldChunk("1", [GoldEntity("Ada", "person", 0, 3)], [])),
        Record("d", "Rome", GoldChunk("2", [GoldEntity("Rome", "city", 0, 4)], [Relation("Rome", "Rome", "is")])),
        Record("d", "so", GoldChunk("3", [], [])),
    ]
    WRITERS["gliner"].write(records, tmp_path / "train.json", Report())
    values = json.loads((tmp_path / "train.json").read_text())
    assert [it["ner_negatives"] for it in values] == [["city"], ["person"], ["city", "person"]]
    assert [it["rel_negatives"] for it in values] == [["is"], [], ["is"]]
    WRITERS["gliner2"].write(records, tmp_path / "train.jsonl", Report())
    lines = [json.loads(it) for it in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert [it["output"]["entities"] for it in lines] == [
        {"person": ["Ada"], "city": []},
        {"city": ["Rome"], "person": []},
        {"city": [], "person": []},
    ]


def test_negatives_leave_room_for_the_types_that_are_there(tmp_path):
    kinds = [f"t{it}" for it in range(60)]
    entities = [GoldEntity("Ada", it, 0, 3) for it in kinds[:20]]
    others = [GoldEntity("Ada", it, 0, 3) for it in kinds]
    records = [Record("d", "Ada", GoldChunk("1", entities, [])), Record("d", "Ada", GoldChunk("2", others, []))]
    WRITERS["gliner"].write(records, tmp_path / "train.json", Report())
    few, many = json.loads((tmp_path / "train.json").read_text())
    assert (len(few["ner_negatives"]), len(many["ner_negatives"])) == (5, 0)
    WRITERS["gliner2"].write(records, tmp_path / "train.jsonl", Report())
    few, many = (json.loads(it) for it in (tmp_path / "train.jsonl").read_text().splitlines())
    assert (len(few["output"]["entities"]), len(many["output"]["entities"])) == (25, 60)


def test_strict_writes_nothing_where_something_does_not_fit(tmp_path):
    source = tmp_path / "gold.json"
    source.write_text(
        json.dumps({"chunks": [{"chunk_id": "c", "text": "Ada", "entities": [{"text": "Bob", "type": "p"}]}]})
    )
    for target in ("conll", "label-studio", "brat"):
        with pytest.raises(UserError, match="not everything fits"):
            convert(source, tmp_path / "out", "guide", to=target, strict=True)
    assert [it.name for it in tmp_path.rglob("*") if it.is_file()] == ["gold.json"]
    assert convert(source, tmp_path / "out", "guide", to="conll").skipped == 1

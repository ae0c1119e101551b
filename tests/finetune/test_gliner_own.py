"""Own annotated texts as windows of words with spans, and the labels they are asked for."""

import random

import pytest

from kgscale.config import GlinerEngine, SchemaConfig
from kgscale.extract.gliner import GlinerModel
from kgscale.finetune.examples import Span
from kgscale.finetune.gliner_own import OwnLabels, scheme_of, windows_of
from kgscale.formats.common import Record
from kgscale.pretrained.assemble import new_gliner
from kgscale.records import GoldChunk, GoldEntity

SCHEMA = SchemaConfig(
    entity_types={"person": None, "organization": "a company or an agency", "prog_lang": "what code is written in"},
    aliases={"entity_types": {"ORG": "organization", "people": "prog_lang"}},
)


@pytest.fixture(scope="module")
def reader(encoder):
    return GlinerModel(
        GlinerEngine(window_overlap=6, dtype="float32"), list(SCHEMA.entity_types), loaded=new_gliner(encoder)
    )


def record(text, *entities):
    made = [GoldEntity(it[0], it[1], *((it[2], it[2] + len(it[0])) if len(it) > 2 else ())) for it in entities]
    return Record("d", text, GoldChunk("c", made, [], text=text))


def test_names_without_offsets_are_meant_everywhere(reader):
    text = "Apple Inc. sued Apple; apple Apple Inc. won."
    own = windows_of([record(text, ("Apple", "ORG"), ("Apple Inc", "org"))], SCHEMA, reader, None)
    (example,) = own.examples
    assert example.words[:5] == ("Apple", "Inc", ".", "sued", "Apple")
    places = [(0, 1), (4, 4), (7, 8)]
    assert example.spans == tuple(Span(a, b, "organization") for a, b in places)


def test_offsets_are_taken_as_they_are(reader):
    text = "Ada met Ada in Ada-land."
    own = windows_of([record(text, ("Ada", "person", 8), ("Ada", "person", 15))], SCHEMA, reader, None)
    assert own.examples[0].spans == (Span(2, 2, "person"),)
    assert own.left_out == {"that begin or end inside a word": 1}


def test_what_cannot_be_learnt_is_counted(reader):
    text = "A long name of five words it is."
    names = [("Bob", "person"), ("A long name of five words", "person"), ("it", "")]
    own = windows_of([record(text, *names)], SCHEMA, reader, 4)
    assert own.left_out == {
        "whose name is not in the text as whole words": 1,
        "longer than the 4 words that the model's spans may have": 1,
        "without a type": 1,
    }
    assert own.entities == 0


def test_types_outside_the_schema_are_further_labels(reader):
    own = windows_of([record("Ada in Oslo", ("Ada", "person"), ("Oslo", "City"))], SCHEMA, reader, None)
    assert own.further == {"City": 1}
    labels = OwnLabels(own, scheme_of(SCHEMA, {}), reader, 25)
    drawn = [labels(0, random.Random(seed)) for seed in range(30)]
    assert [2, 2, "City"] in [entity for item in drawn for entity in item["ner"]]


def test_long_texts_are_cut_as_extraction_cuts_them(reader):
    rng = random.Random(0)
    words = ["".join(rng.choice("abc") for _ in range(rng.randint(1, 9))) for _ in range(700)]
    for at in range(5, 700, 10):
        words[at] = "Zed"
    text = " ".join(words)
    own = windows_of([record(text, ("Zed", "person"))], SCHEMA, reader, None)
    pieces = list(reader.pieces(0, text))
    assert len(own.examples) == len(pieces) > 2
    for example, piece in zip(own.examples, pieces, strict=True):
        assert " ".join(example.words) == text[piece.start : piece.stop]
        assert [it.start for it in example.spans] == [i for i, word in enumerate(example.words) if word == "Zed"]
    assert not own.left_out


def test_labels_leave_room_for_the_text(reader):
    text = "abcdefghij " * 47 + "Zed"
    own = windows_of([record(text, ("Zed", "person"))], SCHEMA, reader, None)
    labels = OwnLabels(own, scheme_of(SCHEMA, {}), reader, 2)
    for number in range(len(own.examples)):
        for seed in range(40):
            item = labels(number, random.Random(seed))
            cost = sum(map(reader.label_cost, item["ner_labels"]))
            assert cost + own.tokens[number] + 3 <= reader.limit
            assert len(item["ner_labels"]) <= 2
            assert {it[2] for it in item["ner"]} <= set(item["ner_labels"])


def test_wordings_of_a_type():
    person, organization, language = scheme_of(SCHEMA, {"organization": "firm"}).views
    assert organization.wordings.count("firm") * 2 == len(organization.wordings)
    assert {"ORG", "organization", "a company or an agency", "institution"} <= set(organization.wordings)
    assert {"prog_lang", "prog lang", "what code is written in"} <= set(language.wordings)
    # `people` is a synonym of person, but this schema says that it means something else.
    assert "people" not in person.wordings
    assert "individual" in person.wordings

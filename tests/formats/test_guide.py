import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.errors import UserError
from kgscale.formats import load_gold, write_guide_predictions
from kgscale.formats.common import BAD_OFFSETS, Record
from kgscale.formats.guide import read_guide, write_guide_gold
from kgscale.records import Entity, Extraction, GoldChunk, GoldEntity, Origin, Relation, Status

APPLE = "Apple Inc. was founded by Steve Jobs in Cupertino, California."


@pytest.fixture
def gold_file(tmp_path):
    def write(*chunks):
        path = tmp_path / "gold.json"
        path.write_text(json.dumps({"chunks": list(chunks)}), encoding="utf-8")
        return path

    return write


def problems(report):
    return [str(it) for it in report.problems.first]


def test_the_guides_own_example(gold_file):
    entities = [{"text": "Apple Inc.", "type": "ORGANIZATION"}, {"text": "Steve Jobs", "type": "PERSON"}]
    relations = [{"source": "Steve Jobs", "target": "Apple Inc.", "type": "FOUNDED"}]
    gold = load_gold(
        gold_file(
            {
                "chunk_id": "chunk_001",
                "text": APPLE,
                "ground_truth_entities": entities,
                "ground_truth_relations": relations,
            }
        )
    )
    assert gold.chunks == [
        GoldChunk(
            "chunk_001",
            [GoldEntity("Apple Inc.", "ORGANIZATION"), GoldEntity("Steve Jobs", "PERSON")],
            [Relation("Steve Jobs", "Apple Inc.", "FOUNDED")],
            text=APPLE,
        )
    ]
    report = gold.report
    assert (report.chunks, report.entities, report.mentions, report.relations, report.skipped) == (1, 2, 2, 1, 0)
    assert report.entity_types == {"ORGANIZATION", "PERSON"}
    assert report.relation_types == {"FOUNDED"}
    assert not problems(report)


def test_the_predictions_form_and_a_bare_list_are_read(tmp_path):
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"id": 7, "entities": [{"text": "a", "type": "T"}], "origin": "pseudo"}]))
    assert load_gold(path).chunks == [GoldChunk("7", [GoldEntity("a", "T")], [], Origin.PSEUDO)]


@pytest.mark.parametrize(
    "answer",
    [
        '[{"text": "Apple Inc.", "type": "ORG"}]',
        '{"entities": [{"text": "Apple Inc.", "type": "ORG"}], "other": []}',
        '{"result": [{"text": "Apple Inc.", "type": "ORG"}]}',
        '```json\n[{"text": "Apple Inc.", "type": "ORG"}]\n```',
    ],
)
def test_a_json_string_in_place_of_a_list_is_repaired_and_reported(gold_file, answer):
    gold = load_gold(gold_file({"chunk_id": "c1", "text": APPLE, "ground_truth_entities": answer}))
    assert gold.chunks[0].entities == [GoldEntity("Apple Inc.", "ORG")]
    assert problems(gold.report) == [
        "gold.json, chunk 1 (c1): repaired: `ground_truth_entities` is a JSON string where a list should be"
    ]


def test_offsets_are_checked_against_the_text(gold_file):
    text = "Café — Apple 😀 Inc."
    chunk = {
        "chunk_id": "c1",
        "text": text,
        "ground_truth_entities": [
            {"text": "Apple", "type": "T", "start": 7, "end": 12},
            {"text": "Apple", "type": "T", "start": 10, "end": 15},
            {"text": "Inc", "type": "T", "start": 16, "end": 19},
            {"text": "Apple", "type": "T", "start": 0, "end": 5},
            {"text": "Apple", "type": "T", "start": 7},
            {"text": "Apple", "type": "T", "start": -7, "end": "x"},
            {"text": "Inc.", "type": "T", "start": 15.0, "end": 19.0},
        ],
    }
    gold = load_gold(gold_file(chunk))
    assert [(it.start, it.end) for it in gold.chunks[0].entities] == [
        (7, 12),
        (None, None),
        (None, None),
        (None, None),
        (None, None),
        (None, None),
        (15, 19),
    ]
    found = problems(gold.report)
    assert gold.report.problems.counts[BAD_OFFSETS] == 3
    assert any("they count bytes, not characters" in it for it in found)
    assert any("they count UTF-16 units, not characters" in it for it in found)
    assert any("7 to None" in it for it in found)


def test_what_cannot_be_read_is_skipped_counted_and_named(gold_file):
    gold = load_gold(
        gold_file(
            "chunk",
            {"text": "no id"},
            {"chunk_id": "", "text": "empty id"},
            {"chunk_id": "c4", "text": 4},
            {"chunk_id": "c5", "origin": "guess"},
            {
                "chunk_id": "c6",
                "entities": [
                    "Apple",
                    {"text": "Apple"},
                    {"type": "T"},
                    {"text": " ", "type": "T"},
                    {"text": "A", "type": 1},
                ],
                "relations": [{"source": "A", "target": "B"}, {"source": "A", "type": "r"}, 7],
            },
            {"chunk_id": "c7", "entities": {"text": "Apple"}, "relations": "not JSON"},
            {"chunk_id": "c8", "entities": [{"text": "A", "type": "T", "aliases": "B"}], "relations": None},
        )
    )
    assert [it.chunk_id for it in gold.chunks] == ["c6", "c7", "c8"]
    assert gold.chunks[0].relations == [Relation("A", "B", "RELATED")]
    assert gold.report.skipped == 5 + 5 + 2 + 2 + 1
    assert len(problems(gold.report)) == gold.report.skipped + 1
    assert "gold.json, chunk 6 (c6): skipped an entity: `type` is missing" in "\n".join(problems(gold.report))


def test_an_id_that_stands_twice_is_refused(gold_file):
    with pytest.raises(UserError, match="the chunk id 'c1' stands twice"):
        load_gold(gold_file({"chunk_id": "c1"}, {"chunk_id": "c1"}))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "gold.json:1: broken JSON"),
        ('{"chunks":\n [{]}', "gold.json:2: broken JSON"),
        ('{"chunk": []}', "has no list of chunks"),
        ('{"chunks": []}', "has no chunk with gold"),
        ("[" * 100_000, "nested too deeply"),
        (b'{"chunks": [\n"\xff"]}', "gold.json:2: is not UTF-8"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path, content, problem):
    path = tmp_path / "gold.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError, match=problem):
        load_gold(path)


NAMES = st.text(min_size=1).filter(str.strip)


@st.composite
def records(draw):
    text = draw(st.text())
    entities = []
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, len(text)))
        aliases = draw(st.lists(st.text(), max_size=2))
        if text[start:end].strip():
            entities.append(GoldEntity(text[start:end], draw(NAMES), start, end, aliases))
        else:
            entities.append(GoldEntity(draw(NAMES), draw(NAMES), aliases=aliases))
    relations = draw(st.lists(st.builds(Relation, NAMES, NAMES, NAMES), max_size=3))
    gold = GoldChunk(draw(NAMES), entities, relations, draw(st.sampled_from(Origin)), text)
    return Record(draw(NAMES), text, gold)


@settings(deadline=None)
@given(st.lists(records(), min_size=1, max_size=4, unique_by=lambda it: it.gold.chunk_id))
def test_what_is_written_is_read_back(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("guide") / "gold.json"
    assert write_guide_gold(path, written) == len(written)
    result = read_guide(path)
    assert list(result.records) == written
    assert not result.report.problems.first
    assert load_gold(path).chunks == [it.gold for it in written]


def test_predictions_are_written_in_the_guides_form(tmp_path):
    rows = [
        Extraction(
            "c1", 0, "d", "llm", Status.OK, entities=[Entity("A", "T", 0, 1, 0.5)], relations=[Relation("A", "A", "r")]
        ),
        Extraction("c2", 1, "d", "llm", Status.FAILED, error="timeout: 120 s"),
    ]
    path = tmp_path / "predictions.json"
    assert write_guide_predictions(path, rows) == 2
    chunks = json.loads(path.read_text())["chunks"]
    assert chunks[0]["entities"] == [{"text": "A", "type": "T", "start": 0, "end": 1, "score": 0.5}]
    assert chunks[0]["relations"] == [{"source": "A", "target": "A", "type": "r"}]
    assert (chunks[1]["status"], chunks[1]["entities"]) == ("failed", [])


def test_a_write_that_fails_leaves_nothing(tmp_path):
    def broken():
        yield Record("d", "x", GoldChunk("c", [], [], text="x"))
        raise UserError("stop")

    with pytest.raises(UserError, match="stop"):
        write_guide_gold(tmp_path / "gold.json", broken())
    assert not list(tmp_path.iterdir())

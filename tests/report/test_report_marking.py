"""The explorer's marks: each case, and the same counts as the scorer's."""

import pytest
from report_runs import answer, synthetic_run

from kgscale.config import SchemaConfig
from kgscale.records import Entity, GoldChunk, GoldEntity, Relation, Status
from kgscale.report.explorer import explore
from kgscale.report.marking import KeyTable, Marker, State
from kgscale.report.view import Focus
from kgscale.score.keys import Keys
from kgscale.score.scorer import score_run
from kgscale.score.tables import PER_CHUNK, read_table

SCHEMA = SchemaConfig.model_validate(
    {
        "entity_types": ["person", "organization"],
        "relation_types": {"works_for": None, "founded_by": None, "partner_of": {"symmetric": True}},
        "aliases": {"entity_types": {"ORG": "organization"}},
    }
)
GOLD = GoldChunk(
    "c",
    [GoldEntity("Ada", "person", 0, 3, ["Lady Ada"]), GoldEntity("Acme", "organization", 10, 14)],
    [Relation("Ada", "Acme", "works_for")],
)


def marked(said, gold=GOLD):
    keys = KeyTable.of(Keys.of(SCHEMA), [gold] if gold else [], [said])
    return Marker(keys, entity_types=True, relation_types=True).mark(gold, [said])


def entity_states(it):
    return {(row.name, row.type): row.methods[0].state for row in it.entities}


def relation_states(it):
    return [(row.source, row.type, row.target, row.methods[0].state.value) for row in it.relations]


def test_entities():
    said = [Entity("ADA", "person", 0, 3), Entity("Acme", "person", 10, 14), Entity("Bob", "person")]
    it = marked(answer(said))
    assert entity_states(it) == {
        ("Ada", "person"): State.MATCHED,
        ("Acme", "organization"): State.WRONG_TYPE,
        ("Bob", "person"): State.SPURIOUS,
    }
    assert [row.grounded for row in it.entities] == [True, True, False]
    assert it.entities[1].methods[0].said == "person"
    assert [(span.start, span.found.state.value, span.found.said) for span in it.spans[0]] == [
        (0, "matched", ""),
        (10, "type", "organization"),
    ]


def test_aliases_of_names_and_types():
    it = marked(answer([Entity("lady  ada", "person", 20, 28), Entity("Acme", "ORG", 10, 14)]))
    assert set(entity_states(it).values()) == {State.MATCHED}
    assert [(span.start, span.found.state.value) for span in it.spans[0]] == [
        (20, "matched"),
        (10, "matched"),
        (0, "matched"),
    ]


@pytest.mark.parametrize(
    ("said", "states"),
    [
        ([("Ada", "Acme", "works_for")], ["matched"]),
        ([("Acme", "Ada", "works_for")], ["direction"]),
        ([("Ada", "Acme", "founded_by")], ["type"]),
        ([("Acme", "Ada", "founded_by")], ["type"]),
        ([("Ada", "Bob", "works_for")], ["missed", "spurious"]),
        ([("Ada", "Acme", "works_for"), ("Ada", "Acme", "founded_by")], ["matched", "spurious"]),
        ([("Ada", " ", "works_for")], ["missed"]),
    ],
)
def test_relations(said, states):
    it = marked(answer([], [Relation(*one) for one in said]))
    assert [state for *_, state in relation_states(it)] == states


def test_a_symmetric_relation_matches_both_ways():
    gold = GoldChunk("c", [], [Relation("A", "B", "partner_of")])
    assert relation_states(marked(answer([], [Relation("b", "a", "partner_of")]), gold))[0][3] == "matched"


def test_an_unusable_answer_says_nothing():
    it = marked(answer([Entity("Ada", "person", 0, 3)], status=Status.FAILED))
    assert set(entity_states(it).values()) == {State.MISSED}


def test_without_gold_everything_is_found():
    it = marked(answer([Entity("Ada", "person", 0, 3)], [Relation("Ada", "Bob", "works_for")]), None)
    assert entity_states(it) == {("Ada", "person"): State.FOUND}
    assert relation_states(it)[0][3] == "found"


def test_the_marks_count_as_the_scorer_does(tmp_path):
    run = synthetic_run(tmp_path, 240)
    scores = score_run(run)
    shown = explore(run, scores, Focus.of(scores, None), [], seed=1)
    counted = read_table(run, PER_CHUNK).rows_by_key(["method", "mode", "row"], named=True, unique=True)
    assert len(shown.chunks) == 240
    for chunk in shown.chunks:
        for index, method in enumerate(shown.methods):
            for mode, rows in (("name+type", chunk.marked.entities), ("pair+type", chunk.marked.relations)):
                states = [(row.in_gold, row.methods[index].state) for row in rows]
                score = counted[method, mode, chunk.chunk.row]
                assert sum(state is State.MATCHED for _, state in states) == score["tp"]
                assert sum(gold and state is not State.MATCHED for gold, state in states) == score["fn"]

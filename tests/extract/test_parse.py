"""Reading answers: every complete item is kept, and none is made up, however an answer is cut or wrapped."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.extract.parse import parse_answer
from kgscale.extract.prompt import Task

NASTY = st.sampled_from(
    [
        '"entities": [',
        '{"relations": [["a", "b", "c"]]}',
        "<think>",
        "</think>",
        "```",
        "\\",
        '"',
        "]}",
        "NaN",
        "née 😀",
    ]
)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip) | NASTY
ENTITIES = st.lists(st.tuples(NAME, st.sampled_from(["person", "org"])), max_size=6)
RELATIONS = st.lists(st.tuples(NAME, st.sampled_from(["uses", "owns"]), NAME), max_size=6)


def clean(items):
    """As the parser gives them: white space collapsed, each once."""
    return list(dict.fromkeys(tuple(" ".join(part.split()) for part in it) for it in items))


def write(entities, relations, form, *, ascii_only=False, indent=None):
    if form == "objects":
        entities = [dict(zip(("name", "type"), it, strict=True)) for it in entities]
        relations = [dict(zip(("source", "type", "target"), it, strict=True)) for it in relations]
    return json.dumps({"entities": entities, "relations": relations}, ensure_ascii=ascii_only, indent=indent)


@given(ENTITIES, RELATIONS, st.sampled_from(["arrays", "objects"]), st.booleans(), st.sampled_from([None, 1]))
def test_a_whole_answer_is_read_in_either_form(entities, relations, form, ascii_only, indent):
    answer = parse_answer(write(entities, relations, form, ascii_only=ascii_only, indent=indent), Task.BOTH)
    assert answer is not None
    assert (answer.entities, answer.relations) == (clean(entities), clean(relations))
    assert (answer.whole, answer.malformed) == (True, 0)


@given(ENTITIES, RELATIONS, st.sampled_from(["arrays", "objects"]), st.booleans(), st.data())
def test_any_beginning_of_an_answer_yields_a_beginning_of_its_items(entities, relations, form, ascii_only, data):
    text = write(entities, relations, form, ascii_only=ascii_only)
    cut = data.draw(st.integers(0, len(text) - 1))
    answer = parse_answer(text[:cut], Task.BOTH)
    if answer is None:
        return
    assert not answer.whole
    assert answer.malformed == 0
    whole_entities, whole_relations = clean(entities), clean(relations)
    assert answer.entities == whole_entities[: len(answer.entities)]
    assert answer.relations == whole_relations[: len(answer.relations)]
    if answer.relations:
        assert answer.entities == whole_entities


@given(st.integers(0, 4))
def test_a_cut_loses_at_most_the_item_it_cuts(items):
    text = write([(f"n{i}", "org") for i in range(5)], [], "arrays")
    answer = parse_answer(text[: text.index(f'["n{items}"') + 4], Task.BOTH)
    assert answer is not None
    assert len(answer.entities) == items


@given(st.text())
def test_no_text_at_all_makes_the_parser_fail(text):
    for task in Task:
        parse_answer(text, task)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=3),
        lambda it: st.lists(it, max_size=3) | st.dictionaries(st.sampled_from(["entities", "name", "type"]), it),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_counted_as_malformed(value):
    answer = parse_answer(json.dumps({"entities": [value]}), Task.ENTITIES)
    assert answer is not None
    assert len(answer.entities) + answer.malformed == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("```json\n", "\n```"),
        ("```\n", "\n```"),
        ("<think>Ada? Perhaps.</think>", ""),
        ('<think>{"entities": [["Wrong", "person"]]}</think>\n', ""),
        ('Ada, I think: {"entities": [["Wrong", "person"]]}\n</think>\n\n', ""),
        ("<think></think>```json\n", "\n```"),
        ("Here it is:\n", "\nAnything else?"),
        ("", "   \n\n   "),
    ],
)
def test_wrappings_are_taken_off(before, after):
    answer = parse_answer(before + '{"entities": [["Ada", "person"]]}' + after, Task.ENTITIES)
    assert answer is not None
    assert (answer.entities, answer.whole) == ([("Ada", "person")], True)


def test_thinking_that_fills_the_answer_is_no_answer():
    assert parse_answer('<think>It could be {"entities": [["Wrong", "person"]]}, but', Task.ENTITIES) is None


def test_a_name_that_looks_like_thinking_is_a_name():
    text = '{"entities": [["a<think>", "tag"], ["</think>b", "tag"]]}'
    answer = parse_answer(text, Task.ENTITIES)
    assert answer is not None
    assert answer.entities == [("a<think>", "tag"), ("</think>b", "tag")]


@pytest.mark.parametrize(
    ("item", "task"),
    [
        ('["Ada"]', Task.ENTITIES),
        ('["Ada", "person", "x"]', Task.ENTITIES),
        ('["Ada", NaN]', Task.ENTITIES),
        ('["", "person"]', Task.ENTITIES),
        ('["  ", "person"]', Task.ENTITIES),
        ('{"name": "Ada"}', Task.ENTITIES),
        ('"Ada"', Task.ENTITIES),
        ('["\\ud83d", "person"]', Task.ENTITIES),
        ('["Ada", "uses"]', Task.RELATIONS),
    ],
)
def test_items_that_are_none_are_left_out_and_counted(item, task):
    good = ["Ada", "person"] if task is Task.ENTITIES else ["Ada", "uses", "Engine"]
    key = "entities" if task is Task.ENTITIES else "relations"
    answer = parse_answer(f'{{"{key}": [{item}, {json.dumps(good)}]}}', task)
    assert answer is not None
    assert answer.entities + answer.relations == [tuple(good)]
    assert (answer.malformed, answer.whole) == (1, True)


@pytest.mark.parametrize("text", ["", "no", "{", "[]", '["Ada", "person"]', '{"answer": []}', '{"entities": {}}', "{}"])
def test_what_holds_no_list_is_no_answer(text):
    assert parse_answer(text, Task.BOTH) is None


def test_an_empty_answer_is_an_answer():
    answer = parse_answer('{"entities": [], "relations": []}', Task.BOTH)
    assert answer is not None
    assert (answer.empty, answer.whole) == (True, True)


def test_a_missing_list_is_not_a_whole_answer():
    answer = parse_answer('{"entities": [["Ada", "person"]]}', Task.BOTH)
    assert answer is not None
    assert (answer.entities, answer.whole) == ([("Ada", "person")], False)


def test_nesting_beyond_any_stack_is_malformed_not_fatal():
    deep = "[" * 200_000
    assert parse_answer(deep, Task.BOTH) is None
    answer = parse_answer('{"entities": [["Ada", "person"], ' + deep, Task.ENTITIES)
    assert answer is not None
    assert answer.entities == [("Ada", "person")]


def test_a_long_answer_is_read_in_linear_time():
    text = '{"entities": [' + '["Ada", "person"], ' * 50_000
    answer = parse_answer(text, Task.ENTITIES)
    assert answer is not None
    assert answer.entities == [("Ada", "person")]
    assert parse_answer('{"entities": [' + " \n" * 500_000, Task.ENTITIES) is not None

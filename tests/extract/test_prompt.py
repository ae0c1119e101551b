"""The prompt: the schema allows only answers that the parser reads, and the corpus reaches the question alone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kgscale.config import OpenAIEngine, SchemaConfig, VllmEngine
from kgscale.extract.parse import parse_answer
from kgscale.extract.prompt import Task, prompt_book

SCHEMA = SchemaConfig.model_validate(
    {
        "entity_types": {"org": "companies", "person": None},
        "relation_types": {"owns": "holds shares of", "partner_of": {"symmetric": True}},
    }
)
ARRAYS, OBJECTS = VllmEngine(answer="arrays", max_entities=3), VllmEngine(answer="objects", max_entities=3)
GOOD = {
    ("arrays", Task.BOTH): {"entities": [["Acme", "org"]], "relations": [["Acme", "owns", "Ada"]]},
    ("arrays", Task.ENTITIES): {"entities": [["Acme", "org"]]},
    ("arrays", Task.RELATIONS): {"relations": [["Acme", "owns", "Ada"]]},
    ("objects", Task.BOTH): {
        "entities": [{"name": "Acme", "type": "org"}],
        "relations": [{"source": "Acme", "type": "owns", "target": "Ada"}],
    },
    ("objects", Task.ENTITIES): {"entities": [{"name": "Acme", "type": "org"}]},
    ("objects", Task.RELATIONS): {"relations": [{"source": "Acme", "type": "owns", "target": "Ada"}]},
}


@pytest.mark.parametrize(("form", "task"), GOOD)
def test_what_the_schema_allows_the_parser_reads(form, task):
    answer = GOOD[form, task]
    schema = prompt_book(SCHEMA, VllmEngine(answer=form), task).answer_schema
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert validator.is_valid(answer)
    assert validator.is_valid({key: [] for key in answer})
    read = parse_answer(json.dumps(answer), task)
    assert read is not None
    assert (read.whole, read.malformed) == (True, 0)
    assert read.entities == ([("Acme", "org")] if "entities" in answer else [])
    assert read.relations == ([("Acme", "owns", "Ada")] if "relations" in answer else [])


@pytest.mark.parametrize(
    "answer",
    [
        {"entities": [["Acme", "company"]]},
        {"entities": [["", "org"]]},
        {"entities": [["A" * 101, "org"]]},
        {"entities": [["Acme", "org", "more"]]},
        {"entities": [["Acme"]]},
        {"entities": [["Acme", "org"]] * 4},
        {"entities": [], "more": 1},
        {},
    ],
)
def test_the_schema_bounds_names_types_and_numbers(answer):
    assert not Draft202012Validator(prompt_book(SCHEMA, ARRAYS, Task.ENTITIES).answer_schema).is_valid(answer)


@given(st.text(), st.text(), st.sampled_from(Task))
def test_the_instruction_is_the_same_for_every_text(first, second, task):
    book = prompt_book(SCHEMA, ARRAYS, task)
    assert book.ask(first).system == book.ask(second, [(first, "org")]).system == book.system
    assert first in book.ask(first).user


def test_the_instruction_names_every_type_with_its_meaning():
    system = prompt_book(SCHEMA, ARRAYS, Task.BOTH).system
    for line in ("- org: companies", "- person", "- owns: holds shares of", "- partner_of: in either direction"):
        assert line in system.splitlines()
    assert "owns" not in prompt_book(SCHEMA, ARRAYS, Task.ENTITIES).system
    assert "person" not in prompt_book(SCHEMA, ARRAYS, Task.RELATIONS).system


@given(st.lists(st.tuples(st.text(min_size=1), st.just("org"))))
def test_given_entities_are_in_the_question_as_json(entities):
    user = prompt_book(SCHEMA, ARRAYS, Task.RELATIONS).ask("the text", entities).user
    before, _, given = user.partition("\n\nEntities:\n")
    assert before == "Text:\nthe text"
    assert json.loads(given) == [list(it) for it in entities]


def test_the_hash_changes_with_whatever_the_answer_depends_on():
    other_types = SchemaConfig.model_validate({"entity_types": ["org", "person"]})
    books = [
        prompt_book(SCHEMA, ARRAYS, Task.BOTH),
        prompt_book(SCHEMA, OBJECTS, Task.BOTH),
        prompt_book(SCHEMA, ARRAYS, Task.ENTITIES),
        prompt_book(other_types, ARRAYS, Task.ENTITIES),
        prompt_book(SCHEMA, VllmEngine(max_entities=4), Task.ENTITIES),
    ]
    assert len({book.sha256 for book in books}) == len(books)
    assert (
        prompt_book(SCHEMA, OpenAIEngine(model="m"), Task.BOTH).sha256
        == prompt_book(SCHEMA, VllmEngine(answer="objects"), Task.BOTH).sha256
    )

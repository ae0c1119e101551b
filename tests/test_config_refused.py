"""Configs that would leak a secret or contradict themselves."""

import re

import pytest

from kgscale.configfile import check_config
from kgscale.errors import UserError

SECRET = "sk-proj-0123-never-to-be-seen"
WEB = {"kind": "openai", "model": "m"}


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ({**WEB, "base_url": f"https://me:{SECRET}@host/v1"}, "base_url"),
        ({**WEB, "base_url": f"https://{SECRET}@host/v1"}, "base_url"),
        ({**WEB, "base_url": f"https://host/v1?key={SECRET}"}, "base_url"),
        ({**WEB, "base_url": SECRET}, "base_url"),
        ({**WEB, "api_key_env": SECRET}, "api_key_env"),
        ({**WEB, "api_key": SECRET}, "unknown key `engines.web.api_key`"),
        ({**WEB, "request": {"api_key": SECRET}}, "`api_key` looks like a secret"),
        ({**WEB, "request": {"extra": {"Authorization": f"Bearer {SECRET}"}}}, "`Authorization` looks like a secret"),
        ({"kind": "vllm", "engine_args": {"hf_token": SECRET}}, "`hf_token` looks like a secret"),
    ],
)
def test_a_secret_in_a_config_is_refused_and_not_repeated(engine, told):
    with pytest.raises(UserError) as caught:
        check_config({"corpus": {"path": "x"}, "engines": {"web": engine}, "methods": {}}, "c.yaml")
    assert told in str(caught.value)
    assert SECRET not in str(caught.value)


def test_what_only_sounds_like_a_secret_is_taken():
    engines = {
        "web": {
            **WEB,
            "request": {"max_completion_tokens": 5, "top_k": 3, "logit_bias": {"5": -1}, "stop_token": None},
        },
        "llm": {"kind": "vllm", "engine_args": {"tokenizer": "x/y", "hf_token": True, "max_num_batched_tokens": 9}},
    }
    check_config({"corpus": {"path": "x"}, "engines": engines, "methods": {}}, "c.yaml")


@pytest.mark.parametrize("end", [3, {"person": "place"}, True])
def test_ends_of_relations_are_names(end):
    schema = {"relation_types": {"works_for": {"source": end}}}
    with pytest.raises(UserError, match=r"the name of an entity type, or a list of names \(it is "):
        check_config({"corpus": {"path": "x"}, "schema": schema}, "c.yaml")


def test_ends_of_relations_must_be_entity_types():
    schema = {
        "entity_types": ["person", "place"],
        "relation_types": {"lives_in": {"source": "person", "target": "spot"}},
    }
    with pytest.raises(
        UserError, match=re.escape("`schema.relation_types.lives_in.target`: no entity type is named 'spot'")
    ):
        check_config({"corpus": {"path": "x"}, "schema": schema}, "c.yaml")


@pytest.mark.parametrize(
    ("compare", "told"),
    [
        ({"entity_floor": 1.2}, "entity_floor"),
        ({"relation_floor": -0.1}, "relation_floor"),
        ({"min_coverage": 95}, "min_coverage"),
        ({"entity_drop": {"minimum": 3, "recommended": 5}}, "must not be above `minimum`"),
        ({"relation_drop": {"minimum": 800, "recommended": 3}}, "relation_drop.minimum"),
        ({"rag": {"faithfulness": {"floor": 80}}}, "faithfulness.floor"),
        ({"rag": {"ragas": {"drop": {"minimum": 1, "recommended": 2}}}}, "must not be above `minimum`"),
        ({"drop_steps": [5, 2, 10]}, "must rise"),
        ({"baseline": "hybrid"}, "both 'hybrid': name two methods"),
    ],
)
def test_thresholds_that_contradict_themselves_are_refused(compare, told):
    with pytest.raises(UserError, match=re.escape(told)):
        check_config({"corpus": {"path": "x"}, "compare": compare}, "c.yaml")

"""From the methods of a config to steps, and what the rows of each method depend on."""

import json

import pytest

from kgscale.config import Config
from kgscale.extract.llm_extract import is_uncertain
from kgscale.extract.methods import changed_parts, chosen_steps, method_fingerprints, plan_steps
from kgscale.extract.prompt import Task
from kgscale.records import Entity, Extraction, Status


def config(**values):
    return Config.model_validate({"corpus": {"path": "x"}, **values})


def test_the_default_methods_share_the_entities_of_gliner():
    steps = plan_steps(config())
    assert {name: (it.engine, it.task, it.upstream) for name, it in steps.items()} == {
        "gliner": ("gliner", Task.ENTITIES, None),
        "llm": ("llm", Task.BOTH, None),
        "hybrid": ("llm", Task.RELATIONS, "gliner"),
    }


def test_entities_that_no_method_names_are_a_step_of_their_own():
    steps = plan_steps(config(methods={"hybrid": {"entities": "gliner", "relations": "llm"}}))
    assert list(steps) == ["gliner", "hybrid"]
    assert steps["hybrid"].upstream == "gliner"
    taken = plan_steps(config(methods={"gliner": {"entities": "gliner", "relations": "llm"}}))
    assert list(taken) == ["gliner-entities", "gliner"]
    assert taken["gliner"].upstream == "gliner-entities"


def test_a_step_stands_after_what_it_builds_on():
    steps = plan_steps(
        config(
            engines={"gliner": {}, "llm": {}, "big": {}},
            methods={
                "first": {"entities": "gliner", "relations": "llm"},
                "second": {"entities": "big", "relations": "llm"},
                "zero": {"entities": "gliner"},
            },
        )
    )
    order = list(steps)
    assert all(it.upstream is None or order.index(it.upstream) < order.index(name) for name, it in steps.items())
    assert (steps["first"].upstream, steps["second"].upstream) == ("zero", "big")


def test_choosing_a_method_takes_what_it_builds_on_along():
    steps = plan_steps(config())
    assert list(chosen_steps(steps, ["hybrid"])) == ["gliner", "hybrid"]
    assert list(chosen_steps(steps, ["llm"])) == ["llm"]
    assert chosen_steps(steps, None) == steps


def test_one_gliner_may_find_both_and_still_find_entities_alone():
    methods = {
        "relex": {"entities": "gliner", "relations": "gliner"},
        "hybrid": {"entities": "gliner", "relations": "llm"},
    }
    steps = plan_steps(config(methods=methods))
    assert {name: (it.engine, it.task, it.upstream) for name, it in steps.items()} == {
        "relex": ("gliner", Task.BOTH, None),
        "gliner": ("gliner", Task.ENTITIES, None),
        "hybrid": ("llm", Task.RELATIONS, "gliner"),
    }


def test_a_fallback_makes_the_engine_ready_for_both_tasks():
    methods = {"hybrid": {"entities": "gliner", "relations": "llm", "fallback": {}}}
    assert plan_steps(config(methods=methods))["hybrid"].tasks == [Task.RELATIONS, Task.BOTH]
    assert plan_steps(config())["hybrid"].tasks == [Task.RELATIONS]


@pytest.mark.parametrize(
    ("when", "entities", "status", "doubted"),
    [
        (["empty"], [], "ok", True),
        (["empty"], [0.1], "ok", False),
        (["low_score"], [0.5, 0.69], "ok", True),
        (["low_score"], [0.5, 0.71], "ok", False),
        (["low_score"], [], "ok", False),
        (["low_score"], [None], "ok", False),
        (["truncated"], [0.9], "truncated", True),
        (["truncated"], [], "ok", False),
        ([], [], "truncated", False),
    ],
)
def test_when_the_fallback_takes_over(when, entities, status, doubted):
    fallback = {"when": when, "min_score": 0.6}
    methods = {"hybrid": {"entities": "gliner", "relations": "llm", "fallback": fallback}}
    found = [Entity(f"n{at}", "person", score=score) for at, score in enumerate(entities)]
    given = Extraction("c", 0, "d", "gliner", Status(status), entities=found)
    assert is_uncertain(plan_steps(config(methods=methods))["hybrid"], given) == doubted


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def settings(model):
    return {
        "engines": {
            "gliner": {"model": str(model)},
            "llm": {"model": str(model)},
            "web": {"kind": "openai", "model": "m"},
        },
        "methods": {
            "gliner": {"entities": "gliner"},
            "llm": {"entities": "llm", "relations": "llm"},
            "hybrid": {"entities": "gliner", "relations": "llm"},
            "relex": {"entities": "gliner", "relations": "gliner"},
            "web": {"entities": "web", "relations": "web"},
        },
        "schema": {"entity_types": {"org": None, "person": None}, "relation_types": {"owns": None, "uses": None}},
    }


def put(values, path, value):
    *parents, last = path.split(".")
    for part in parents:
        values = values.setdefault(part, {})
    values[last] = value


ALL = {"gliner", "llm", "hybrid", "relex", "web"}


@pytest.mark.parametrize(
    ("path", "value", "changed"),
    [
        ("schema.entity_types", {"org": None, "place": None}, ALL),
        ("schema.entity_types", {"person": None, "org": None}, ALL),
        ("schema.entity_types", {"org": "companies", "person": None}, ALL - {"gliner", "relex"}),
        ("schema.relation_types", {"owns": "holds shares", "uses": None}, ALL - {"gliner", "relex"}),
        ("schema.relation_types", {"uses": None, "owns": None}, ALL - {"gliner"}),
        ("schema.relation_types", {"owns": {"symmetric": True}, "uses": None}, ALL - {"gliner"}),
        ("schema.relation_types", {"owns": {"source": "org"}, "uses": None}, ALL - {"gliner"}),
        ("seed", 1, ALL),
        ("keep_raw", True, ALL),
        ("engines.gliner.threshold", 0.3, {"gliner", "hybrid", "relex"}),
        ("engines.gliner.relation_threshold", 0.3, {"relex"}),
        ("engines.gliner.labels", {"org": "company"}, {"gliner", "hybrid", "relex"}),
        ("engines.gliner.labels", {"owns": "holds"}, {"relex"}),
        ("engines.gliner.window_overlap", 10, {"gliner", "hybrid", "relex"}),
        ("engines.llm.temperature", 0.5, {"llm", "hybrid"}),
        ("engines.llm.max_tokens", 100, {"llm", "hybrid"}),
        ("engines.llm.answer", "objects", {"llm", "hybrid"}),
        ("engines.llm.engine_args", {"quantization": "fp8"}, {"llm", "hybrid"}),
        ("engines.web.model", "other", {"web"}),
        ("engines.web.base_url", "http://localhost/v1", {"web"}),
        ("methods.hybrid.fallback", {}, {"hybrid"}),
        ("engines.gliner.batch_tokens", 128, set()),
        ("engines.llm.max_num_seqs", 3, set()),
        ("engines.llm.kv_cache_gib", 2, set()),
        ("engines.web.concurrency", 2, set()),
        ("engines.web.retries", 2, set()),
        ("engines.web.timeout_s", 2, set()),
        ("engines.web.api_key_env", "OTHER", set()),
        ("schema.aliases", {"names": {"a": "b"}}, set()),
        ("compare.baseline", "web", set()),
        ("limits.attempts", 3, set()),
        ("cluster.num_cpus", 3, set()),
        ("gold", "gold.json", set()),
        ("run", "elsewhere", set()),
    ],
)
def test_fingerprints_change_when_and_only_when_the_rows_may(model, path, value, changed):
    before = method_fingerprints(config(**settings(model)))
    values = settings(model)
    put(values, path, value)
    after = method_fingerprints(config(**values))
    assert {name for name in before if before[name]["stamp"] != after[name]["stamp"]} == changed
    told = changed_parts({"methods": before}, {"methods": after})
    assert {line.split(".")[1] for line in told} == changed
    json.dumps(after)


def test_the_contents_of_a_model_count_and_its_place_does_not(model, tmp_path):
    before = method_fingerprints(config(**settings(model)))
    moved = model.rename(tmp_path / "moved")
    assert method_fingerprints(config(**settings(moved))) == before
    (moved / "config.json").write_text('{"layers": 2}')
    after = method_fingerprints(config(**settings(moved)))
    assert {name for name in before if before[name]["stamp"] != after[name]["stamp"]} == ALL - {"web"}
    told = changed_parts({"methods": before}, {"methods": after})
    assert any(line.startswith("methods.gliner.engine.model: sha256:") for line in told)


def test_what_was_written_to_a_file_is_no_change(model):
    values = settings(model)
    put(values, "schema.relation_types", {"owns": {"source": "org", "target": ["person", "org"]}})
    prints = method_fingerprints(config(**values))
    assert changed_parts(json.loads(json.dumps(prints)), prints) == []


def test_what_changed_is_named_by_its_path(model):
    values = settings(model)
    before = {"corpus": {"sha256": "a"}, "methods": method_fingerprints(config(**values))}
    put(values, "engines.gliner.threshold", 0.3)
    del values["methods"]["web"]
    after = {"corpus": {"sha256": "b"}, "methods": method_fingerprints(config(**values))}
    told = changed_parts(before, after)
    assert told[0] == "corpus.sha256: a → b"
    assert "methods.gliner.engine.settings.threshold: None → 0.3" in told
    assert not any("web" in line for line in told), "a method that only one side has is no difference"
    assert changed_parts(before, before) == []

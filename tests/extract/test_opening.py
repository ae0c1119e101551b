"""What a run takes over from its config when it goes on, and what it refuses."""

import json
import os

import pytest

from kgscale.cli.common import open_run as run_of
from kgscale.config import Config
from kgscale.errors import UserError
from kgscale.extract.methods import chosen_steps, plan_steps
from kgscale.extract.opening import open_run, prepare_models, resolve
from kgscale.extract.seating import Seating
from kgscale.runs import Run


def silent(_text):
    pass


@pytest.fixture
def values(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"chunk_id": "a", "text": "Ada wrote."}')
    web = {"kind": "openai", "model": "m", "api_key_env": None, "timeout_s": 120.0}
    return {
        "run": str(tmp_path / "run"),
        "corpus": {"path": str(tmp_path / "corpus.jsonl")},
        "engines": {"web": web},
        "methods": {"web": {"entities": "web", "relations": "web"}, "short": {"entities": "web"}},
    }


def made(values, say=silent):
    return open_run(resolve(Config.model_validate(values)), say)


def test_what_rows_do_not_depend_on_is_taken_over_at_every_resume(values, tmp_path):
    """Workers and scores read the config in the run: what was changed for a resume must stand there."""
    first = made(values)
    web = {**values["engines"]["web"], "timeout_s": 7.0, "concurrency": 3}
    judged = {"compare": {"baseline": "web", "candidate": "short"}, "schema": {"aliases": {"names": {"A": "B"}}}}
    again = made({**values, "engines": {"web": web}, "limits": {"attempts": 5}, **judged})
    found = Run(tmp_path / "run")
    assert (found.config.engines["web"].timeout_s, found.config.engines["web"].concurrency) == (7.0, 3)
    assert (found.config.limits.attempts, found.config.compare.candidate) == (5, "short")
    assert found.config.schema_.aliases.names == {"A": "B"}
    assert again.config == found.config
    assert found.fingerprint == first.fingerprint
    assert found.info["created_at"] == first.info["created_at"]
    assert not found.changed_by_others
    with pytest.raises(UserError, match=r"temperature: 0\.0 → 1\.0"):
        made({**values, "engines": {"web": {**web, "temperature": 1.0}}})


def test_a_method_that_a_config_leaves_out_stays(values):
    made(values)
    run = made({**values, "methods": {"web": values["methods"]["web"]}})
    assert list(run.config.methods) == run.methods == ["web", "short"]


def test_a_corpus_that_was_only_touched_is_read_again_once(values, tmp_path):
    made(values)
    os.utime(tmp_path / "corpus.jsonl", (1, 1))
    said = []
    for _ in range(2):
        made(values, said.append)
    assert len(said) == 1


def test_a_damaged_run_json_is_written_anew_where_the_config_is_the_same(values, tmp_path):
    whole = made(values)
    path = tmp_path / "run" / "run.json"
    info = json.loads(path.read_text())
    info["fingerprint"]["methods"]["short"]["stamp"] = "rotten"
    path.write_text(json.dumps(info))
    with pytest.raises(UserError, match="not as kgscale wrote it"):
        made({**values, "methods": {"web": values["methods"]["web"]}})
    made(values)
    found = Run(tmp_path / "run")
    assert found.fingerprint == whole.fingerprint
    assert not found.changed_by_others


@pytest.mark.parametrize("fingerprint", [None, 5, {}, {"methods": []}, {"methods": {"web": {}}}])
def test_a_run_json_without_its_fingerprint_is_said_to_be_damaged(values, tmp_path, fingerprint):
    run = made(values)
    run.store.write("run.json", json.dumps({**run.info, "fingerprint": fingerprint}).encode())
    with pytest.raises(UserError, match=r"run\.json is damaged"):
        Run(tmp_path / "run")


def test_the_config_that_is_named_says_how_rows_are_judged(values, tmp_path):
    made(values)
    path = tmp_path / "my.yaml"
    compare = {"baseline": "web", "candidate": "short", "entity_floor": 0.1}
    path.write_text(json.dumps({**values, "compare": compare, "schema": {"aliases": {"names": {"A": "B"}}}}))
    found = run_of(str(path)).config
    assert (found.compare.entity_floor, found.schema_.aliases.names) == (0.1, {"A": "B"})
    assert run_of(str(tmp_path / "run")).config.compare.entity_floor == 0.8


class Waiting(Seating):
    """Seats on a cluster that gives none."""

    def __init__(self):
        self._config = Config(corpus={"path": "-"})
        self._groups = [object()]
        self._booked = set()

    def _look(self):
        pass


def test_who_waits_for_gpus_can_be_stopped():
    asked = []
    Waiting().wait_for_gpus(lambda: bool(asked.append(1) or len(asked) > 2))
    assert len(asked) == 3


def test_a_gliner_without_relations_is_refused_before_any_worker_starts(tmp_path):
    (tmp_path / "gliner_config.json").write_text('{"relations_layer": null}')
    engines = {"gliner": {"model": str(tmp_path)}}
    values = {"corpus": {"path": "x"}, "engines": engines}
    alone = Config.model_validate({**values, "methods": {"g": {"entities": "gliner"}}})
    prepare_models(alone, plan_steps(alone), silent)
    both = Config.model_validate({**values, "methods": {"g": {"entities": "gliner", "relations": "gliner"}}})
    with pytest.raises(UserError, match="finds entities only, and a method wants its relations"):
        prepare_models(both, plan_steps(both), silent)
    # A method that is not chosen needs no model.
    two = {"g": {"entities": "gliner"}, "r": {"entities": "gliner", "relations": "gliner"}}
    chosen = chosen_steps(plan_steps(Config.model_validate({**values, "methods": two})), ["g"])
    prepare_models(both, chosen, silent)

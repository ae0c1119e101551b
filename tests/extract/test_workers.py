"""What a worker tells of a shard is what its rows say, and no engine is charged for another's work."""

import asyncio
from dataclasses import replace

import pytest

from kgscale.extract import gliner
from kgscale.extract.gliner import Found
from kgscale.extract.llm_extract import LlmExtractor
from kgscale.extract.workers import GlinerWorker, LlmWorker, WorkerSpec
from kgscale.lock import driver_lock
from kgscale.records import Entity, Relation, Status
from kgscale.shards import Shard
from tests.extract.test_llm_extract import BOOKS, WHOLE, FakeLlm
from tests.making import make_run, rows_of


def work_off(run, shard, answers, *, retry=False):
    with driver_lock(run.store, "test") as token:
        worker = LlmWorker(WorkerSpec(run.store.uri, "llm", token, retry=retry))
        worker._extractor = LlmExtractor(FakeLlm(answers), BOOKS, keep_raw=False)
        return asyncio.run(worker.run(shard, 1))


def test_a_shard_of_its_own(tmp_path):
    run = make_run(tmp_path, 4)
    found = work_off(run, Shard("llm", 0, 4), [WHOLE, WHOLE, ValueError("no"), "rubbish"])
    assert found.statuses == {"ok": 2, "failed": 2}
    # Three answers: 100 prompt tokens each, 60 of them cached, 10 out; 8 ms shared by two; 5 ms of service.
    assert (found.prompt_tokens, found.cached_tokens, found.output_tokens) == (300, 180, 30)
    assert found.engine_ms == 3 * 8 / 2
    assert found.service_ms == (5.0, 5.0, 5.0)


def test_entities_that_another_engine_found_cost_this_one_nothing(tmp_path):
    run = make_run(tmp_path, ["Ada Lovelace wrote about the Analytical Engine."] * 4)
    with driver_lock(run.store, "test") as token:
        rows = [
            replace(row, batch_ms=120.0, batch_size=4.0, service_ms=120.0)
            for row in rows_of(run, Shard("gliner", 0, 4))
        ]
        rows[0] = replace(rows[0], entities=[rows[0].entities[0], replace(rows[0].entities[0], text="Engine")])
        rows[1] = replace(rows[1], status=Status.FAILED, error="x: y", entities=[])
        run.commit(Shard("gliner", 0, 4), rows, token)
    found = work_off(run, Shard("hybrid", 0, 4), [WHOLE])
    # The first is asked about; one has no entities to build on, two have too few.
    assert found.statuses == {"ok": 3, "failed": 1}
    assert found.prompt_tokens == 100
    assert found.engine_ms == pytest.approx(8 / 2)
    # But a chunk of this method takes what both take.
    assert sorted(found.service_ms) == [120.0, 120.0, 125.0]


def test_relations_that_the_schema_does_not_allow_are_counted_in_the_row(tmp_path):
    schema = {"relation_types": {"uses": {"source": "organization"}, "part_of": {"source": "person"}}}
    run = make_run(tmp_path, ["Ada Lovelace wrote about the Analytical Engine."], schema=schema)
    both = [["Ada Lovelace", kind, "Analytical Engine"] for kind in ("uses", "part_of")]
    work_off(run, Shard("llm", 0, 1), [{**WHOLE, "relations": both}])
    (row,) = run.read_rows(Shard("llm", 0, 1))
    assert ([it.type for it in row.relations], row.relations_left_out) == (["part_of"], 1)


def test_only_rows_that_are_tried_again_are_told(tmp_path):
    run = make_run(tmp_path, 4)
    work_off(run, Shard("llm", 0, 4), [WHOLE, WHOLE, ValueError("no"), WHOLE])
    found = work_off(run, Shard("llm", 0, 4), [WHOLE], retry=True)
    assert (found.statuses, found.prompt_tokens, found.service_ms) == ({"ok": 1}, 100, (5.0,))


class FakeGliner:
    """A GLiNER that finds Ada, and where it is asked for relations that she knows Bob; `poison` fails."""

    device = "cpu"

    def __init__(self, _engine, types, relations=None, *, threads=None):
        self.relations = relations

    def asking(self, types, relations=None):
        return FakeGliner(None, types, relations)

    def extract(self, texts):
        entities = [Entity("Ada", "person", 0, 3, 0.9), Entity("Bob", "person", 4, 7, 0.9)]
        related = [Relation("Ada", "Bob", next(iter(self.relations)), 0.8)] if self.relations else []
        return [Found(entities, related, error="no" if it == "poison" else None) for it in texts]


def test_relations_stand_in_the_rows_of_the_method_that_asks_for_them_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(gliner, "GlinerModel", FakeGliner)
    methods = {"gliner": {"entities": "gliner"}, "relex": {"entities": "gliner", "relations": "gliner"}}
    run = make_run(
        tmp_path, ["Ada Bob", "poison"], methods=methods, compare={"baseline": "relex", "candidate": "gliner"}
    )
    with driver_lock(run.store, "test") as token:
        worker = GlinerWorker(WorkerSpec(run.store.uri, "gliner", token))
        worker.start()
        for method in methods:
            worker.run(Shard(method, 0, 2), 1)
    rows = {method: run.read_rows(Shard(method, 0, 2)) for method in methods}
    kind = next(iter(run.config.schema_.relation_types))
    assert [(it.source, it.type, it.target) for it in rows["relex"][0].relations] == [("Ada", kind, "Bob")]
    assert rows["gliner"][0].relations == []
    assert [it.text for it in rows["gliner"][0].entities] == ["Ada", "Bob"]
    for method in methods:
        assert (rows[method][1].status, rows[method][1].entities, rows[method][1].relations) == (Status.FAILED, [], [])

"""What scoring reads and leaves beside the metrics: files, tables, rates, latency, agreement."""

import pytest
from score_helpers import answer, entity, gold_chunk, gold_entity, make_run, same_as, score_once

from kgscale.errors import UserError
from kgscale.records import GOLD_SCHEMA, Relation, Status, to_table
from kgscale.runs import GOLD_FILE
from kgscale.score.scorer import score_run
from kgscale.score.tables import CONFUSION, PER_CHUNK, PER_DOCUMENT, PER_TYPE, UNMAPPED, read_scores, read_table


def test_rates_and_labels_off_the_schema(tmp_path):
    answers = [
        answer(
            [entity("A", "ORG"), entity("B", "Gadget", start=None), entity("C", "gadget"), entity("D", start=None)],
            [Relation("A", "B", "uses"), Relation("A", "Elsewhere", "likes")],
            entities_by="other",
        ),
        answer(status=Status.FAILED),
    ]
    run = make_run(tmp_path, ["a", "b"], {"m": answers}, [gold_chunk("a")])
    checks = score_run(run).methods[0].checks
    assert (checks.ungrounded_rate, checks.off_schema_entity_rate, checks.off_schema_relation_rate) == (0.5, 0.5, 0.5)
    assert (checks.dangling_rate, checks.fallback_rate) == (0.25, 1)
    labels = {(it["kind"], it["label"]): it["count"] for it in read_table(run, UNMAPPED).to_dicts()}
    assert labels == {("entity", "Gadget"): 1, ("entity", "gadget"): 1, ("relation", "likes"): 1}


def test_what_has_no_type_is_not_told_as_off_the_schema(tmp_path):
    untyped = answer([entity("A", ""), entity("B", "ORG")], [Relation("A", "B", "")])
    run = make_run(tmp_path, ["a"], {"m": [untyped]}, [gold_chunk("a")])
    checks = score_run(run).methods[0].checks
    assert (checks.off_schema_entity_rate, checks.off_schema_relation_rate) == (0, None)
    assert not checks.carries.relation_types
    assert read_table(run, UNMAPPED).is_empty()


def test_latency_by_three_names():
    answers = [answer(service_ms=float(n), queue_ms=2.0 * n, batch_ms=100.0, batch_size=4.0) for n in range(1, 101)]
    answers[7] = answer(status=Status.FAILED)
    it = score_once([], answers, [f"c{n}" for n in range(100)], shard_chunks=10).latency
    assert it.service.rows == 99
    assert it.service.p50 == pytest.approx(51)
    assert it.queue.p95 > it.queue.p50 > it.service.p50
    assert (it.amortised.mean, it.chunks_per_s) == (25, 40)
    assert it.prompt_tokens is None


def test_tokens_are_summed():
    answers = [answer(prompt_tokens=100, cached_tokens=80, output_tokens=20), answer(prompt_tokens=50)]
    it = score_once([], answers, ["a", "b"]).latency
    assert (it.prompt_tokens, it.cached_tokens, it.output_tokens) == (150, 80, 20)


def test_without_gold_there_is_agreement_and_no_quality(tmp_path):
    first = [answer([entity("A"), entity("B")]), answer([entity("C")]), answer(status=Status.FAILED)]
    second = [answer([entity("A")]), answer([entity("C")]), answer([entity("D")])]
    scores = score_run(make_run(tmp_path, ["a", "b", "c"], {"one": first, "two": second}))
    assert scores.gold is None
    assert all(it.metrics == () for it in scores.methods)
    assert scores.methods[0].coverage == pytest.approx(2 / 3)
    name = next(it for it in scores.agreement if it.mode == "name")
    assert (name.f1, name.chunks) == (0.8, 2)


def test_rows_in_overlapping_files_count_once(tmp_path):
    gold = [gold_chunk(it, [gold_entity(it)]) for it in "abcd"]
    run = make_run(tmp_path, list("abcd"), {"m": [same_as(it) for it in gold]}, gold, shard_chunks=4)
    table = run.store.parquet("extractions/m/000000000-000000004.parquet").read()
    run.store.write_table("extractions/m/000000001-000000003.parquet", table.slice(1, 2))
    it = score_run(run).methods[0]
    assert (it.statuses.rows, it.metric("name").tp) == (4, 4)


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path):
    run = make_run(tmp_path, ["a", "b"], {"m": [answer(), answer()]})
    table = run.store.parquet("extractions/m/000000000-000000002.parquet").read()
    run.store.write_table("extractions/m/000000000-000000002.parquet", table.slice(1))
    with pytest.raises(UserError, match="holds other rows than 0-2"):
        score_run(run)


def test_nothing_committed_is_the_users_mistake(tmp_path):
    with pytest.raises(UserError, match="no extraction is committed"):
        score_run(make_run(tmp_path, ["a"], {"m": [None]}))


def test_scores_and_tables_are_written_and_read_back(tmp_path):
    gold = [gold_chunk("a", [gold_entity("A")]), gold_chunk("b", [gold_entity("B", "person")])]
    answers = [same_as(gold[0]), answer([entity("B", "product")])]
    run = make_run(tmp_path, ["a", "b"], {"m": answers}, gold, docs=["d", "d"])
    scores = score_run(run)
    assert read_scores(run) == scores
    chunk = read_table(run, PER_CHUNK).row(0, named=True)
    assert (chunk["method"], chunk["chunk_id"], chunk["doc_id"], chunk["status"]) == ("m", "a", "d", "ok")
    types = {it["type"]: (it["tp"], it["fp"], it["fn"]) for it in read_table(run, PER_TYPE).to_dicts()}
    assert types == {"organization": (1, 0, 0), "person": (0, 0, 1), "product": (0, 1, 0)}
    names = read_table(run, PER_DOCUMENT).row(0, named=True)
    assert (names["doc_id"], names["chunks"], names["f1"]) == ("d", 2, 1)


def test_equal_gold_has_an_equal_digest_whatever_the_order(tmp_path):
    gold = [gold_chunk(it, [gold_entity(it)]) for it in "abc"]
    digests = [
        score_run(make_run(tmp_path / str(n), list("abc"), {"m": [answer()] * 3}, it, shard_chunks=n)).gold.digest
        for n, it in ((1, gold), (3, gold[::-1]), (2, gold[:2]))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_gold_in_many_row_groups(tmp_path):
    gold = [gold_chunk(f"c{n}", [gold_entity(f"name {n}")]) for n in range(7)]
    run = make_run(tmp_path, [it.chunk_id for it in gold], {"m": [same_as(it) for it in gold]})
    with run.store.table_writer(GOLD_FILE, GOLD_SCHEMA) as writer:
        for it in gold[::-1]:
            writer.write_table(to_table([it], GOLD_SCHEMA))
    assert score_run(run).methods[0].metric("name").tp == 7


def test_types_taken_for_each_other(tmp_path):
    gold = gold_chunk("a", [gold_entity("A", "person"), gold_entity("B", "product"), gold_entity("C", "person")])
    found = [entity("A", "product"), entity("B", "product"), entity("B", "person"), entity("D", "person")]
    run = make_run(tmp_path, ["a"], {"m": [answer(found)]}, [gold])
    score_run(run)
    assert read_table(run, CONFUSION).to_dicts() == [
        {"method": "m", "gold_type": "person", "predicted_type": "product", "count": 1}
    ]

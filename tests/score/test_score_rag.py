"""Scores of answers by retrieval, as a run's rag.json gives them."""

import json

import pytest
from score_helpers import answer, gold_chunk, gold_entity, make_run

from kgscale.config import CompareConfig
from kgscale.errors import UserError
from kgscale.score.compare import compare_run
from kgscale.score.scorer import score_run
from kgscale.score.verdict import Standing

RULES = CompareConfig()


def test_rag_scores_are_read_from_the_run(tmp_path):
    run = make_run(tmp_path, ["a"], {"llm": [answer()], "hybrid": [answer()]}, [gold_chunk("a", [gold_entity("A")])])
    score_run(run)
    unmeasured = compare_run(run, RULES).rag
    assert {it.standing for it in unmeasured} == {Standing.NOT_MEASURED}
    assert {(it.what, it.floor, it.minimum, it.recommended) for it in unmeasured} == {
        ("faithfulness", 0.80, None, None),
        ("answer_relevance", 0.85, None, None),
        ("context_recall", 0.75, 10, 5),
        ("context_precision", 0.70, None, None),
        ("ragas", 0.75, 5, 2),
    }
    full = {"faithfulness": 0.9, "answer_relevance": 0.8, "context_recall": 0.7, "context_precision": 0.6}
    scores = {"llm": full, "hybrid": {"faithfulness": 0.8, "context_recall": None}}
    run.store.write("rag.json", json.dumps({"methods": scores, "questions": 20}).encode())
    found = {it.what: it for it in compare_run(run, RULES).rag}
    assert found["faithfulness"].drop == pytest.approx(10)
    assert (found["ragas"].baseline, found["ragas"].candidate) == (pytest.approx(0.75), None)
    assert found["context_recall"].standing is Standing.NOT_MEASURED
    scores = ["75", "NaN", "true", '"0.1"', "[0.1]"]
    for broken in (b"{", b"[]", *(f'{{"methods": {{"llm": {{"ragas": {it}}}}}}}'.encode() for it in scores)):
        run.store.write("rag.json", broken)
        with pytest.raises(UserError, match=r"rag\.json"):
            compare_run(run, RULES)


@pytest.mark.parametrize(
    ("scores", "meant"),
    [
        ({"llm": {"faithfullness": 0.9}}, "faithfulness"),
        ({"llm": {"Answer Relevance": 0.9}}, "answer_relevance"),
        ({"LLM": {"ragas": 0.9}}, "llm"),
        ({"hybrd": {"ragas": 0.9}}, "hybrid"),
    ],
)
def test_a_misspelt_rag_score_or_method_is_not_passed_over(tmp_path, scores, meant):
    run = make_run(tmp_path, ["a"], {"llm": [answer()], "hybrid": [answer()]}, [gold_chunk("a", [gold_entity("A")])])
    score_run(run)
    run.store.write("rag.json", json.dumps({"methods": scores}).encode())
    with pytest.raises(UserError, match=f"did you mean {meant}"):
        compare_run(run, RULES)
    others = {"llm": {"faithfulness": 0.9, "latency": 0.5}, "gpt": {"ragas": 0.9}}
    run.store.write("rag.json", json.dumps({"methods": others}).encode())
    assert compare_run(run, RULES).rag[0].baseline == 0.9

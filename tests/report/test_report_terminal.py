# ruff: noqa: RUF001 (minus signs are meant)
"""Scores and verdicts on a terminal: complete, and readable in 100 columns without colour."""

import io
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "score"))

from rich.console import Console
from score_helpers import answer, entity, gold_chunk, gold_entity, make_run, same_as

from kgscale.config import CompareConfig
from kgscale.records import Relation, Status
from kgscale.report.terminal import scores_view
from kgscale.report.terminal_verdict import gate_view, history_view, samples_view, spreads_view, verdict_view
from kgscale.score.compare import Evidence, compare
from kgscale.score.gate import GateCheck, GateResult
from kgscale.score.history import HistoryEntry, Spread
from kgscale.score.results import Interval
from kgscale.score.scorer import score_run
from kgscale.score.verdict import SampleSize


def printed(view):
    console = Console(file=io.StringIO(), width=100, no_color=True)
    console.print(view)
    return console.file.getvalue()


def scores(tmp_path, gold=True):
    truth = [
        gold_chunk("a", [gold_entity("A"), gold_entity("B")], [Relation("A", "B", "uses")]),
        gold_chunk("b", [gold_entity("C")]),
    ]
    methods = {
        "llm": [same_as(truth[0]), answer(status=Status.FAILED, error="not JSON: {")],
        "hybrid": [
            answer([entity("A", "Gadget", start=None)], [Relation("A", "Z", "likes")], batch_ms=1234.5, batch_size=1.0),
            answer(relations_left_out=3),
        ],
    }
    return score_run(make_run(tmp_path, ["a", "b"], methods, truth if gold else None))


def test_scores_fit_and_tell_everything(tmp_path):
    text = printed(scores_view(scores(tmp_path)))
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "Against gold: 2 chunks (2 manual)",
        "0.800",
        "1,234.5",
        "50.0%",
        "not JSON 1",
        "'Gadget' 1",
        "'likes' 1",
    ):
        assert part in text
    assert "100.0% of its entities are not in the text" in text
    assert "hybrid: 3 of 4 relations joined types that the schema keeps apart: left out." in text


def test_scores_without_gold_show_agreement(tmp_path):
    text = printed(scores_view(scores(tmp_path, gold=False)))
    assert "llm / hybrid" in text
    assert "There is no gold" in text


def test_a_verdict_shows_its_numbers(tmp_path):
    it = compare(scores(tmp_path), CompareConfig(min_coverage=0))
    text = printed(verdict_view(it))
    assert max(map(len, text.splitlines())) <= 100
    for part in ("Verdict: not recommended", "Keep llm.", "Entity F1", "name+type", "−80.0", "≥ 0.80 ✕"):
        assert part in text
    assert "not measured (no rag.json holds" in text


def test_measured_answers_by_retrieval_have_their_rows(tmp_path):
    evidence = Evidence(rag={"llm": {"ragas": 0.81}, "hybrid": {"ragas": 0.79}})
    text = printed(verdict_view(compare(scores(tmp_path), CompareConfig(min_coverage=0), evidence)))
    assert "RAGAS score" in text
    assert "< 2 ✕" in text
    assert "Faithfulness" in text
    assert "no rag.json" not in text


def test_the_maker_of_the_gold_is_named(tmp_path):
    found = scores(tmp_path)
    told = printed(scores_view(replace(found, gold=replace(found.gold, annotator="gpt-4o"))))
    assert "(2 manual, by gpt-4o)" in told


def test_samples_are_told_in_words():
    text = printed(samples_view((SampleSize(50, Interval(-3.2, 4.1), 1.9, 0.28),)))
    assert "−4.1 to +3.2 points" in text
    assert "28%" in text
    assert "no smaller sample" in printed(samples_view(()))


def test_a_gate_shows_what_fell():
    check = GateCheck("llm", "entity_f1", "name+type", 0.9, 0.85, 0.05, Interval(0.03, 0.07), 0.001, 0.02, False)
    text = printed(gate_view(GateResult(False, (check,), ("llm: entity_f1 fell",), ("hybrid",))))
    assert max(map(len, text.splitlines())) <= 100
    for part in ("Gate: not passed", "0.900", "0.850", "0.030 to 0.070", "llm: entity_f1 fell", "only one"):
        assert part in text


def test_history_is_a_table_and_a_chart(tmp_path):
    metrics = scores(tmp_path).methods[0].metrics
    entries = [
        HistoryEntry(f"run{n}", "2026-01-02T03:04:05+00:00", "llm", 80, metrics[1], None, 1.0, 12.5, "abc/def", "s")
        for n in range(3)
    ]
    text = printed(history_view(entries))
    assert max(map(len, text.splitlines())) <= 100
    for part in ("run0", "run2", "2026-01-02", "12.5", "█"):
        assert part in text
    assert "abc/def" not in text
    other = printed(history_view([*entries, replace(entries[0], run="run3", basis="abc/other")]))
    assert "From run3 on, corpus/gold is abc/other" in other


def test_spreads(tmp_path):
    assert "0.012" in printed(spreads_view((Spread("llm", "s", "name", 3, 0.8, 0.012, 0.79, 0.81),)))

"""A verdict in words: every fact has its text, in both languages, and nothing is said that was not compared."""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from report_runs import synthetic_run

import kgscale.report
from kgscale.config import CompareConfig
from kgscale.report.markdown import report_markdown
from kgscale.report.telling import headline, lead, reasons, told, verdict_json
from kgscale.report.texts import _TABLE, Texts
from kgscale.report.words import figures, page, verdict
from kgscale.score.compare import compare_run
from kgscale.score.scorer import score_run
from kgscale.score.verdict import Fact, Kind, Outcome

EN, ZH = Texts("en"), Texts("zh")
SAMPLES = {
    "what": "relation",
    "action": "look",
    "cause": "source missing",
    "mode": "pair+type",
    "coverage": 0.93,
    "needed": 0.95,
    "entity_missing": 0.71,
}
CHINESE = re.compile("[\u4e00-\u9fff]")
PLACES = re.compile(r"\{(\w+)\}")


def example(kind):
    """A fact of a kind, with a value for each name that its text has a place for."""
    names = {it for text in _TABLE[f"fact_{kind.value}"] for it in PLACES.findall(text)} - {"What"}
    if "{What}" in _TABLE[f"fact_{kind.value}"][0]:
        names.add("what")
    words = ("candidate", "baseline", "method", "methods", "annotator", "model", "name")
    return Fact(kind, {it: SAMPLES.get(it, "llm" if it in words else 12.5) for it in names})


def test_every_kind_of_fact_is_told_in_both_languages():
    for kind in Kind:
        english, chinese = told(example(kind), EN), told(example(kind), ZH)
        assert not CHINESE.search(english)
        assert CHINESE.search(chinese)
        assert "{" not in english + chinese
        # What is not a name or a mode is Chinese there.
        assert not re.search("[a-z]{3,}", re.sub(r"llm|pair\+type|RAGAS", "", chinese)), chinese


def test_facts_say_the_same_in_both_languages():
    for kind in Kind:
        numbers = [sorted(re.findall(r"[0-9]+\.?[0-9]*", told(example(kind), it))) for it in (EN, ZH)]
        assert numbers[0] == numbers[1], kind


def test_no_text_is_named_twice_and_every_named_text_exists():
    tables = (verdict.WORDS, figures.WORDS, page.WORDS)
    assert len(_TABLE) == sum(map(len, tables))
    folder = Path(kgscale.report.__file__).parent
    used = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "t" and node.args:
                used |= {node.args[0].value} if isinstance(node.args[0], ast.Constant) else set()
    for file in folder.glob("*.jinja"):
        used |= set(re.findall(r"""\bt\(["'](\w+)["'][,)]""", file.read_text()))
    assert len(used) > 100
    assert used - set(_TABLE) == set()


def test_the_chinese_report_tells_all_that_the_english_one_does(tmp_path):
    run = synthetic_run(tmp_path, 240)
    scores = score_run(run)
    it = compare_run(run, CompareConfig(relation_mode="strict"))
    assert {Kind.INTERVAL, Kind.CELL, Kind.LOST, Kind.MODE_NAME} <= {fact.kind for fact in it.reasons}
    english, chinese = (report_markdown(scores, it, lang) for lang in ("en", "zh"))
    assert english.count("\n- ") == chinese.count("\n- ") == len(it.reasons)
    for line in (line for line in chinese.splitlines() if line.startswith(("- ", "### "))):
        assert CHINESE.search(line)


def test_a_headline_claims_nothing_about_relations_that_were_not_compared(tmp_path):
    run = synthetic_run(tmp_path, 240)
    score_run(run)
    it = compare_run(run, CompareConfig(candidate="gliner"))
    assert it.outcome is Outcome.RECOMMENDED
    assert headline(it, EN) == "For entities alone, gliner may replace llm."
    assert "relation" not in lead(it, EN)
    assert any("its time is that of entities alone" in reason for reason in reasons(it, EN))
    assert headline(it, ZH).startswith("仅就实体而言")
    look = headline(replace(it, outcome=Outcome.LOOK), EN)
    assert "entities alone" in look


def test_json_holds_figures_facts_and_words(tmp_path):
    run = synthetic_run(tmp_path, 240)
    score_run(run)
    found = json.loads(json.dumps(verdict_json(compare_run(run, run.config.compare)), default=str))
    assert found["sentence"].startswith("hybrid may replace llm. Compared with llm: entity F1")
    assert found["reasons"][0]["kind"] == "interval"
    assert len(found["reasons"]) == len(found["reasons_told"])
    assert [it["chunks"] for it in found["samples"]] == [50, 100]
    assert 0 <= found["samples"][0]["other_action"] <= 1
    assert found["chunks_needed"] >= 30
    assert found["rag"][0]["standing"] == "not measured"


def test_a_lead_says_what_spoke_against_the_candidate(tmp_path):
    run = synthetic_run(tmp_path, 240)
    score_run(run)
    run.store.write("rag.json", b'{"methods": {"llm": {"ragas": 0.9}, "hybrid": {"ragas": 0.7}}}')
    it = compare_run(run, run.config.compare)
    assert lead(it, EN).endswith("times faster. RAGAS score of hybrid, 0.700, is below the floor of 0.75.")
    slow = compare_run(run, CompareConfig(baseline="gliner", candidate="llm"))
    assert lead(slow, EN).endswith("the answer is “look”.")


@given(st.text())
def test_foreign_text_in_a_fact_is_a_value_and_no_template(text):
    fact = Fact.of(Kind.SAME_FAMILY, annotator=text + "{method}", model="m", method="llm")
    assert not re.search("[\x00-\x08\u202a-\u202e]", told(fact, EN))
    assert "{method}" in told(fact, EN) or len(text) > 100

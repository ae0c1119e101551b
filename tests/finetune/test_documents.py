import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.config import VllmEngine
from kgscale.extract.parse import parse_answer
from kgscale.extract.prompt import Task, prompt_book
from kgscale.finetune.asking import _asks, ask, given_entities
from kgscale.finetune.contamination import Apart, Named
from kgscale.finetune.facts import KIND, SECTIONS, SLOT, WIDER, _rules, _sections, document
from kgscale.finetune.synthetic import INVENTED


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_written_documents_are_whole(seed):
    it = document(random.Random(seed))
    assert it == document(random.Random(seed))
    names = {name for name, _ in it.entities}
    assert all(name and name in it.text for name in names)
    assert all({source, target} <= names and source != target for source, _, target in it.relations)
    assert not set("{}<@♯♀♂") & set(it.text)
    assert "  " not in it.text
    assert not re.search(r"\b(the|a|an) (the|a|an) ", it.text)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**9))
def test_answers_keep_to_what_is_asked(seed):
    rng = random.Random(seed)
    documents = [document(rng) for _ in range(4)]
    asked = ask(documents, rng)
    for task in (Task.BOTH, Task.RELATIONS):
        prompt_book(asked.schema, VllmEngine(), task)
        for it in documents:
            names = given_entities(it, asked, rng) if task is Task.RELATIONS else None
            read = parse_answer(asked.answer(it, names), task)
            assert read is not None
            assert read.whole
            assert not read.malformed
            assert {kind for _, kind in read.entities} <= set(asked.schema.entity_types)
            assert {kind for _, kind, _ in read.relations} <= set(asked.schema.relation_types)
            listed = {name for name, _ in (read.entities if names is None else names)}
            assert all({source, target} <= listed for source, _, target in read.relations)


def test_templates_name_what_they_relate():
    for section, sentences in _sections().items():
        assert section in SECTIONS
        for it in sentences:
            letters = {"@"} | {match[2] for match in SLOT.finditer(it.text) if match[2]}
            assert all({source, target} <= letters for source, _, target in it.relations), it.text


@pytest.mark.parametrize(
    ("kind", "sources", "targets"),
    [
        ("founded_by", "organization", "person"),
        ("works_for", "person", "organization"),
        ("headquartered_in", "organization", "location"),
        ("acquired", "organization", "organization"),
        ("partner_of", "organization", "organization"),
        ("developed_by", "product", "person organization"),
        ("written_in", "software", "pl"),
        ("depends_on", "software pl", "software"),
        ("implements", "product", "protocol format"),
        ("released_on", "product", "date"),
    ],
)
def test_relations_join_the_right_kinds(kind, sources, targets):
    """A template whose relation is the wrong way round teaches the model to turn it."""
    software = {"software", "library", "anysoft", "os"}
    wider = {
        "organization": {"organization", "company", "agency", "university"},
        "location": {"city", "place", "country", "region"},
        "software": software,
        "product": software | {"hardware", "product", "pl", "protocol", "format", "drug"},
    }
    seen = 0
    for section, sentences in _sections().items():
        for it in sentences:
            rules = {"@": section} | {match[2]: match[3] for match in SLOT.finditer(it.text) if match[2]}
            for source, said, target in it.relations:
                if said == kind:
                    seen += 1
                    for end, allowed in ((source, sources), (target, targets)):
                        rule = KIND.get(rules[end], rules[end])
                        assert any(rule in wider.get(word, {word}) for word in allowed.split()), it.text
    assert seen > 25


def test_every_rule_that_is_used_is_there():
    known = set(_rules()) | set(INVENTED) | set(WIDER)
    bodies = [body for them in _rules().values() for body in them]
    for text in [*bodies, *(it.text for them in _sections().values() for it in them)]:
        assert {match[1] or match[3] for match in SLOT.finditer(text)} - {None} <= known, text


def test_no_template_is_there_twice():
    texts = [it.text for them in _sections().values() for it in them]
    assert len(texts) == len(set(texts)) > 700


def test_every_kind_of_the_templates_can_be_asked():
    asked = {kind for it in _asks()["written relations"] for kind in it.kinds}
    said = {kind for them in _sections().values() for it in them for _, kind, _ in it.relations}
    assert asked == said
    named = {kind for seed in range(300) for _, kind in document(random.Random(seed)).entities}
    assert named <= {kind for it in _asks()["written entities"] for kind in it.kinds}


def test_a_pronoun_follows_a_sentence_about_its_subject():
    """Whoever is "She" or "He" has been named before."""
    for seed in range(400):
        it = document(random.Random(seed))
        if found := re.search(r"(?:^|[.!?\n] )(?:She|He) (?:is|was|has|works|joined|wrote)\b", it.text):
            people = [name for name, kind in it.entities if kind == "person"]
            sentences = it.text[: found.start() + 1]
            assert any(name in sentences for name in people), it.text


def test_turned_relations_are_turned():
    rng = random.Random(1)
    seen = set()
    for _ in range(300):
        it = document(rng)
        if ("founded_by" in {kind for _, kind, _ in it.relations}) and (asked := ask([it], rng)).relations.get(
            "founded_by"
        ):
            label, turned = asked.relations["founded_by"]
            read = parse_answer(asked.answer(it), Task.BOTH)
            for source, kind, target in it.relations:
                if kind == "founded_by" and {source, target} <= {name for name, _ in read.entities}:
                    seen.add(turned)
                    assert ((target, label, source) if turned else (source, label, target)) in read.relations
    assert seen == {True, False}


def test_shared_texts_are_found():
    text = "The quick brown fox jumps over the lazy dog every day."
    apart = Apart([Named("gold, 1", f"Yesterday, {text.upper()}"), Named("gold, 2", "Short one")])
    found = apart.behind(text)
    assert found is not None
    assert found.where == "gold, 1"
    assert apart.behind("short ONE!") == Named("gold, 2", "Short one")
    assert apart.behind("The quick brown fox jumps over a lazy dog every day.") is None
    assert apart.behind("A short one is here") is None


def test_shared_chinese_texts_are_found():
    text = "公司总部位于杭州市滨江区网商路,由两位工程师在二〇一二年创办"
    apart = Apart([Named("g", text)])
    assert apart.behind(f"据悉,{text}。") is not None
    assert apart.behind("公司总部位于杭州市滨江区,员工三百人") is None


def test_answers_are_what_the_grammar_of_extraction_lets_through():
    """A model trained on another spacing of the JSON than it may write answers badly."""
    xgrammar = pytest.importorskip("xgrammar")
    letters = [chr(code) for code in range(32, 127)] + ["<end>"]
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(letters, stop_token_ids=[len(letters) - 1]))
    rng = random.Random(2)
    for _ in range(5):
        it = document(rng)
        asked = ask([it], rng)
        for task in (Task.BOTH, Task.RELATIONS):
            book = prompt_book(asked.schema, VllmEngine(max_entities=99, max_relations=99), task)
            answer = asked.answer(it, list(it.entities) if task is Task.RELATIONS else None)
            # As vLLM compiles it with white space off.
            schema = json.dumps(book.answer_schema)
            grammar = compiler.compile_json_schema(schema, any_whitespace=False, separators=(",", ":"))
            matcher = xgrammar.GrammarMatcher(grammar)
            assert matcher.accept_string(answer), answer
            assert matcher.accept_token(len(letters) - 1)

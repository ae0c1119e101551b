import gzip
import json
import random

import pytest

from kgscale.errors import UserError
from kgscale.finetune import sources, synthetic
from kgscale.finetune.corpus import joined
from kgscale.finetune.examples import WORD, Example, Span, from_offsets, ngrams, read_examples, without, write_examples
from kgscale.finetune.labels import SCHEMES
from kgscale.finetune.sampling import Sampler, fine_counts, fixed


def test_offsets_become_whole_words():
    text = "Open-source PostgreSQL 16.2 (by PGDG)"
    example = from_offsets(text, [(12, 22, "software"), (13, 15, "part"), (23, 27, "version"), (9, 9, "none")], "t")
    assert example.words == ("Open-source", "PostgreSQL", "16", ".", "2", "(", "by", "PGDG", ")")
    assert set(example.spans) == {Span(1, 1, "software"), Span(1, 1, "part"), Span(2, 4, "version")}


def test_words_are_cut_as_gliner_cuts_them():
    from gliner.data_processing.tokenizer import WordsSplitter

    text = "State-of-the-art lib_x's v1.2 — café, 北京 (don't)."
    assert from_offsets(text, [], "t").words == tuple(word for word, *_ in WordsSplitter("whitespace")(text))


def test_files_of_examples(tmp_path):
    examples = [Example(("Né", "x"), (Span(0, 0, "a"),), "s"), Example(("y",), (), "s")]
    assert write_examples(tmp_path / "x.gz", examples) == 2
    assert list(read_examples(tmp_path / "x.gz")) == examples
    assert [path.name for path in tmp_path.iterdir()] == ["x.gz"]
    with gzip.open(tmp_path / "x.gz", "at") as file:
        file.write("[1,\n")
    with pytest.raises(UserError) as caught:
        list(read_examples(tmp_path / "x.gz"))
    assert caught.value.where.endswith("x.gz:3")
    with pytest.raises(UserError):
        list(read_examples(tmp_path / "none.gz"))


def test_texts_to_be_scored_are_kept_out():
    words = WORD.findall("the quick brown fox jumps over the lazy dog today")
    other = WORD.findall("a quick brown fox jumps over a lazy dog today")
    examples = [Example(tuple(words), (), "s"), Example(tuple(other), (), "s")]
    scored = ngrams(WORD.findall("Yesterday The quick brown fox jumps over the lazy dog"))
    assert list(without(examples, scored)) == [examples[1]]


def test_synthetic_sentences_are_seeded_and_known():
    examples = list(synthetic.sentences(1500, seed=1))
    assert examples == list(synthetic.sentences(1500, seed=1))
    assert examples != list(synthetic.sentences(1500, seed=2))
    known = {kind for view in SCHEMES["synthetic"].views for kind in view.covers}
    assert {span.label for example in examples for span in example.spans} <= known
    text = " ".join(word for example in examples for word in example.words)
    assert not set("{}<>|") & set(text.replace("group > group", "")) - {">"}
    assert sum(not example.spans for example in examples) > 50


@pytest.mark.parametrize("name", synthetic.SHARES)
def test_every_template_expands(name):
    rng = random.Random(0)
    for template in synthetic.templates(name):
        text, entities = synthetic.expand(template, rng)
        assert all(text[start:end].strip() == text[start:end] != "" for start, end, _ in entities)
        assert "  " not in text


def draw(example: Example, seed: int, **settings):
    return Sampler(fine_counts([example]) | {"river": 4, "band": 9}, **settings).draw(example, random.Random(seed))


def test_drawn_labels():
    example = from_offsets(
        "Ada wrote Python", [(0, 3, "person"), (10, 16, "pl"), (10, 16, "fine:language")], "synthetic"
    )
    orders, worded = set(), set()
    for seed in range(50):
        item = draw(example, seed, keep=1.0)
        labels = item["ner_labels"]
        assert len(labels) == len(set(labels))
        assert {label for *_, label in item["ner"]} <= set(labels)
        assert [0, 0] in [entity[:2] for entity in item["ner"]]
        assert 2 <= len(labels) - len({label for *_, label in item["ner"]}) <= 11
        worded |= {label for start, _, label in item["ner"] if start == 2}
        orders.add(labels.index(next(label for start, _, label in item["ner"] if start == 0)))
    assert {"programming language", "language"} <= worded
    assert len(orders) > 3


def test_present_types_are_never_negatives():
    example = from_offsets("Intel made it", [(0, 5, "corp")], "synthetic")
    for seed in range(200):
        item = draw(example, seed, keep=0.5)
        positive = {label for *_, label in item["ner"]}
        assert not {"corporation", "company", "organization", "organisation"} & (set(item["ner_labels"]) - positive)


def test_unsure_views_are_left_out():
    example = from_offsets("Ada came", [(0, 3, "person")], "synthetic")
    labels = {label for seed in range(200) for label in draw(example, seed)["ner_labels"]}
    assert not {"politician", "scientist", "researcher"} & labels


def test_fixed_labels_are_all_asked():
    example = from_offsets("Ada wrote Python", [(0, 3, "person"), (10, 16, "pl")], "synthetic")
    item = fixed(example)
    assert [0, 0, "person"] in item["ner"]
    assert [2, 2, "programming language"] in item["ner"]
    assert len(item["ner_labels"]) > 25


def test_joined_keeps_every_span():
    examples = [Example((f"w{i}", "x"), (Span(0, 0, f"w{i}"),), "s") for i in range(40)]
    glued = list(joined(examples, random.Random(0), share=0.5))
    assert len(glued) < 30
    assert [word for example in glued for word in example.words] == [word for e in examples for word in e.words]
    assert all(example.words[span.start] == span.label for example in glued for span in example.spans)


def test_somesci_articles_are_kept_apart(tmp_path):
    folder = tmp_path / "PLoS"
    folder.mkdir()
    for number in range(40):
        (folder / f"PMC{number}.txt").write_text(
            "We used SPSS 11.5 here today.\nAnd then GraphPad Prism was used too.\n"
        )
        (folder / f"PMC{number}.ann").write_text(
            "T1\tApplication_Usage 8 12\tSPSS\nT2\tVersion 13 17\t11.5\nR1\tVersion_of Arg1:T2 Arg2:T1\n"
            "T3\tApplication_Mention 39 53\tGraphPad Prism\n"
        )
    train, held = (list(sources.somesci(tmp_path, held_out=held_out)) for held_out in (False, True))
    assert len(train) + len(held) == 80
    assert 10 < len(held) < 40
    assert train[0].spans == (Span(2, 2, "Application"), Span(3, 5, "Version"))
    assert train[1].spans == (Span(2, 3, "Application"),)
    assert sources.is_held_out("PMC3") == sources.is_held_out("PMC3_2")


def test_re_docred_and_tekgen(tmp_path):
    document = {
        "sents": [["Ada", "Lovelace", "was", "born", "in", "London", "."]],
        "vertexSet": [[{"sent_id": 0, "pos": [0, 2], "type": "PER"}], [{"sent_id": 0, "pos": [5, 6], "type": "LOC"}]],
    }
    (tmp_path / "d.json").write_text(json.dumps([document]))
    (example,) = sources.re_docred(tmp_path / "d.json")
    assert example.spans == (Span(0, 1, "PER"), Span(5, 5, "LOC"))
    for name in ("ground_truth", "ontologies"):
        (tmp_path / name).mkdir()
    ontology = {
        "concepts": [{"qid": "Q1", "label": "Software"}, {"qid": "Q2", "label": "Company"}],
        "relations": [{"label": "developer", "domain": "Q1", "range": "Q2"}],
    }
    (tmp_path / "ontologies" / "6_computer_ontology.json").write_text(json.dumps(ontology))
    triple = {"sub": "OS/2", "rel": "developer", "obj": "Big Blue"}
    row = {"sent": "OS/2 was made by IBM .", "triples": [triple]}
    (tmp_path / "ground_truth" / "ont_6_computer_ground_truth.jsonl").write_text(json.dumps(row) + "\n")
    (example,) = sources.tekgen(tmp_path)
    assert example.spans == (Span(0, 2, "fine:software"),)


def test_schemes_are_whole():
    for scheme in SCHEMES.values():
        assert scheme.aliens
        wordings = {word for view in scheme.views for word in view.wordings}
        assert not wordings & set(scheme.aliens)
        assert all(word == word.strip() != "" for word in wordings)

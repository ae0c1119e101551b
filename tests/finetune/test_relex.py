"""Training of a relation model: what it is taught, that it learns, and how it is measured."""

import json
import random

import pytest

from kgscale.config import RelationType, SchemaConfig
from kgscale.extract.gliner import Found
from kgscale.finetune import default_data, default_relex, relex, relex_held
from kgscale.finetune.asking import Asked
from kgscale.finetune.contamination import Apart, Named
from kgscale.finetune.facts import Document
from kgscale.finetune.relex import RelexTraining, item, relation_loss, written
from kgscale.finetune.schedule import Recipe
from kgscale.pretrained.assemble import merge
from kgscale.pretrained.relex import new_relex
from kgscale.records import Entity, Relation
from kgscale.text import words

pytestmark = pytest.mark.engines

DOCUMENT = Document(
    "Ada Byron founded Acme Labs. Ada's Acme Labs and Bobco are partners; Ada Byron is 36.",
    (("Ada Byron", "person"), ("Acme Labs", "company"), ("Ada", "person"), ("Bobco", "company"), ("36", "age")),
    (("Acme Labs", "founded_by", "Ada Byron"), ("Acme Labs", "partner_of", "Bobco"), ("Ada Byron", "aged", "36")),
    "written",
)
ASKED = Asked(
    SchemaConfig(
        entity_types={"person": None, "firm": None, "place": None},
        relation_types={
            "founder_of": RelationType(),
            "partner_of": RelationType(symmetric=True),
            "aged": RelationType(),
        },
    ),
    {"person": "person", "company": "firm", "city": "place"},
    {"founded_by": ("founder_of", True), "partner_of": ("partner_of", False), "aged": ("aged", False)},
)


@pytest.fixture
def asked(monkeypatch):
    monkeypatch.setattr(relex, "ask", lambda _documents, _rng: ASKED)


def test_an_item_holds_mentions_and_the_pairs_that_are_related(asked, monkeypatch):
    monkeypatch.setattr(relex, "STRANGERS", 0)
    it = item(DOCUMENT, random.Random(0))
    text = it["tokenized_text"]
    mentions = [(" ".join(text[start : end + 1]), kind) for start, end, kind in it["ner"]]
    # In the order of the text; the name inside a longer one is no mention.
    assert mentions == [
        ("Ada Byron", "person"),
        ("Acme Labs", "firm"),
        ("Ada", "person"),
        ("Acme Labs", "firm"),
        ("Bobco", "firm"),
        ("Ada Byron", "person"),
    ]
    assert it["ner_labels"] == ["person", "firm", "place"]
    assert it["rel_labels"] == ["founder of", "partner of", "aged"]
    name = {number: " ".join(text[start : end + 1]) for start, end, number in it["names"]}
    # Turned round as it is asked, a symmetric one both ways, none whose end is not asked for.
    assert {(name[source], label, name[target]) for source, target, label in it["gold"]} == {
        ("Ada Byron", "founder of", "Acme Labs"),
        ("Acme Labs", "partner of", "Bobco"),
        ("Bobco", "partner of", "Acme Labs"),
    }


def test_strangers_are_no_entities_and_related_to_nothing(asked):
    for seed in range(40):
        it = item(DOCUMENT, random.Random(seed))
        known = {(start, end) for start, end, _ in it["ner"]}
        taken = {place for start, end in known for place in range(start, end + 1)}
        strangers = [(start, end, number) for start, end, number in it["names"] if (start, end) not in known]
        assert all(taken.isdisjoint(range(start, end + 1)) for start, end, _ in strangers)
        numbers = {number for _, _, number in strangers}
        assert numbers.isdisjoint(end for pair in it["gold"] for end in pair[:2])
        assert {number for _, _, number in it["names"]} == set(range(4 + len(numbers)))


def test_documents_that_are_written_are_of_a_good_length_and_apart():
    first = list(written(60, 1, Apart(())))
    assert [it.text for it in first] == [it.text for it in written(60, 1, Apart(()))]
    assert all(relex.MIN_WORDS <= words(it.text) <= relex.MAX_WORDS for it in first)
    scored = Apart([Named("gold", first[3].text)])
    again = [it.text for it in written(60, 1, scored)]
    assert first[3].text not in again


def test_a_pair_of_names_scores_what_its_best_mentions_score(monkeypatch):
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits as loss

    # Three mentions, the first and last of one name; one relation.
    scores = torch.tensor([[9.0, 1.0, 9.0], [-1.0, 9.0, 2.0], [9.0, 3.0, 9.0]]).unsqueeze(-1).requires_grad_()
    monkeypatch.setattr(relex, "pair_scores", lambda *_: [scores])
    output = type("Output", (), {"logits": torch.zeros(1), "words_embedding": None, "rel_prompts_embedding": None})
    it = {"names": [(0, 0, 0), (1, 1, 1), (2, 2, 0)], "gold": [(0, 1, "r")], "rel_labels": ["r"]}
    found = relation_loss(None, output, [it])
    expected = loss(torch.tensor(3.0), torch.tensor(1.0)) + loss(torch.tensor(2.0), torch.tensor(0.0))
    assert found.item() == pytest.approx(expected.item())
    found.backward()
    assert scores.grad.squeeze(-1).nonzero().tolist() == [[1, 2], [2, 1]]


RECIPE = Recipe(steps=24, batch=4, rank=4, head_rate=3e-3, rate=3e-3, bf16=False, save_every=6)


def training(encoder, folder, recipe=RECIPE):
    documents = list(written(24, 2, Apart(())))
    return RelexTraining(
        new_relex(encoder, learnt=None),
        [words(it.text) for it in documents],
        lambda number, rng: item(documents[number], rng),
        recipe,
        folder,
        "24 documents",
    )


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("bf16", [False, True])
def test_it_learns(encoder, tmp_path, bf16):
    from dataclasses import replace

    recipe = replace(RECIPE, bf16=bf16)
    training(encoder, tmp_path, recipe).run(4)
    training(encoder, tmp_path, recipe).run()
    first, last = losses(tmp_path)
    assert last < 0.8 * first


def test_a_run_that_was_stopped_gives_the_weights_of_one_that_was_not(encoder, tmp_path):
    from kgscale.finetune.adapter import learnt

    whole = training(encoder, tmp_path / "whole")
    whole.run(8)
    training(encoder, tmp_path / "parts").run(5)
    parts = training(encoder, tmp_path / "parts")
    parts.run(8)
    expected = learnt(whole.model)
    assert all(expected[name].equal(tensor) for name, tensor in learnt(parts.model).items())


def test_what_is_learnt_fits_a_new_model(encoder, tmp_path):
    import torch

    from kgscale.finetune.adapter import learnt

    run = training(encoder, tmp_path)
    run.run(3)
    fresh = new_relex(encoder, learnt=None)
    merge(fresh.model, learnt(run.model, torch.float32))
    other = dict(fresh.model.named_parameters())
    merged = {name: it for name, it in run.model.named_parameters() if name.startswith("pair_rep_layer.")}
    assert merged
    assert all(other[name].equal(it) for name, it in merged.items())
    # The entity scorer stays what gliner-minilm's is, but for its last layer.
    assert {name for name in learnt(run.model) if name.startswith("scorer.")} == {
        "scorer.out_mlp.3.weight",
        "scorer.out_mlp.3.bias",
    }


def test_the_relation_part_changes_nothing_until_it_has_learnt_something(encoder):
    import torch

    model = new_relex(encoder, learnt=None).model
    embedded = torch.rand(2, 5, 32) * 2 - 1
    assert torch.allclose(model.prompt_rep_layer(embedded), embedded, atol=1e-5)
    ends = torch.tensor([[[0, 1], [2, 4]]] * 2)
    middle = (embedded[:, [0, 2]] + embedded[:, [1, 4]]) / 2
    assert torch.allclose(model.span_rep_layer(embedded, ends), middle, atol=1e-5)


class Perfect:
    """Finds what a document says, with some scores, and one relation too many below them."""

    def __init__(self, engine, _types, _relations, *, loaded):
        self.engine = engine

    def extract(self, texts):
        entities = [Entity(name, ASKED.entities[kind], 0, 1, 0.9) for name, kind in DOCUMENT.entities[:4]]
        entities.append(Entity("Labs", "firm", 0, 1, 0.3))
        found = [
            Relation("ada byron", "Acme Labs", "founder_of", 0.8),
            Relation("Bobco", "Acme Labs", "partner_of", 0.7),
            Relation("Bobco", "Ada", "founder_of", 0.45),
        ]
        kept = [it for it in entities if it.score >= self.engine.threshold]
        return [Found(kept, [it for it in found if it.score > self.engine.relation_threshold]) for _ in texts]


def test_both_thresholds_are_chosen_where_the_f1_is_best(monkeypatch):
    monkeypatch.setattr(relex_held, "GlinerModel", Perfect)
    found = relex_held.measure(None, {"written": [relex_held.Group(ASKED, (DOCUMENT, DOCUMENT))]})
    assert (found.threshold, found.entities["written"].f1) == (0.325, pytest.approx(1.0))
    assert (found.relation_threshold, found.relations["written"].f1) == (0.475, pytest.approx(1.0))


def test_every_source_has_the_same_say_in_a_threshold(monkeypatch):
    monkeypatch.setattr(relex_held, "GlinerModel", Perfect)
    # Of no entity of this one the schema asks: whatever is found there is wrong.
    empty = Document("Nothing.", (("Oslo", "city"),), (), "written")
    few, many = relex_held.Group(ASKED, (DOCUMENT,)), relex_held.Group(ASKED, (empty,) * 50)
    found = relex_held.measure(None, {"few": [few], "many": [many]})
    assert found.threshold == 0.325
    assert found.entities["few"].f1 == pytest.approx(1.0)
    assert found.entities["many"].f1 == 0.0


def test_documents_of_annotated_sets_make_up_their_share_and_none_is_measured_on():
    sets = {
        name: [Document(f"{name} {at} " + "w " * 30, (), (), "somesci") for at in range(100)] for name in ("a", "b")
    }
    drawn = default_relex.documents(1000, sets, Apart(()))
    assert len(drawn) == 1000
    annotated = [it for it in drawn if it.source == "somesci"]
    assert len(annotated) == 1000 * default_relex.ANNOTATED
    kept = {it.text for them in sets.values() for it in them[-default_data.HELD_OUT :]}
    assert kept.isdisjoint(it.text for it in drawn)
    measured = default_relex.held_out(sets, Apart(()))
    assert {it.text for name in sets for group in measured[name] for it in group.documents} == kept
    assert {it.text for it in drawn}.isdisjoint(it.text for group in measured["written"] for it in group.documents)

"""Relations by GLiNER: the same as the library's own, each once, between entities that the chunk is found to hold."""

import json
from itertools import pairwise

import pytest

from kgscale.config import GlinerEngine, RelationType
from kgscale.errors import UserError
from kgscale.extract.gliner import GlinerModel, load_gliner
from kgscale.extract.gliner_prompts import Prompts
from kgscale.extract.gliner_relations import Link, RelationReader, refuse_without_relations, relations_of
from kgscale.records import Entity, Relation

pytestmark = pytest.mark.engines

LETTERS = [chr(code) for code in range(33, 127)]
TYPES = ["person", "org", "place"]
RELATIONS = {"works_for": RelationType(), "married_to": RelationType(symmetric=True)}
TEXTS = ["ada met bob in rome , and acme bought bobco", "bob", "acme hired ada ; rome is a place of bob and bob"]


def make(tmp_path_factory, span_mode, relations_layer):
    """The directory of a GLiNER of two small layers with random weights."""
    import torch
    from gliner import GLiNER, GLiNERConfig
    from transformers import BertConfig, BertModel, BertTokenizer

    encoder, target = tmp_path_factory.mktemp("encoder"), tmp_path_factory.mktemp("gliner")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    (encoder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=128, **sizes)).save_pretrained(encoder)
    BertTokenizer(str(encoder / "vocab.txt"), model_max_length=512).save_pretrained(encoder)
    config = GLiNERConfig(
        model_name=str(encoder),
        span_mode=span_mode,
        hidden_size=16,
        max_len=24,
        max_width=4,
        relations_layer=relations_layer,
    )
    gliner = GLiNER.from_config(config, local_files_only=True)
    if relations_layer:
        # Random weights score all pairs alike: these are spread.
        torch.nn.init.normal_(gliner.model.pair_rep_layer[-1].weight, std=1.0)
    gliner.save_pretrained(str(target), safe_serialization=True)
    return target


@pytest.fixture(
    scope="module", params=[("token_level", "none"), ("token_level", "bilinear"), ("markerV0", "none")], ids=str
)
def related(request, tmp_path_factory):
    """A model of words whose pairs kgscale scores itself, one with a layer that chooses pairs, one of spans."""
    return make(tmp_path_factory, *request.param)


def collated(gliner, texts):
    prepared = gliner.prepare_batch(texts, TYPES, relations=["works for", "married to"])
    return gliner.collate_batch(
        prepared["input_x"], prepared["entity_types"], gliner.create_collator(), prepared["relation_types"]
    )


@pytest.mark.parametrize("threshold", [0.3, 0.4])
def test_the_relations_are_those_of_the_library(related, threshold):
    plain, mine = load_gliner(related).eval(), load_gliner(related).eval()
    batch = collated(plain, TEXTS)
    output = plain.run_batch(batch, threshold=threshold)
    spans, links = plain.decode_batch(output, batch, threshold=threshold, relation_threshold=0.5)
    own_spans, own_links = RelationReader(mine, threshold, 0.5).read(collated(mine, TEXTS))
    assert [[(it.start, it.end, it.entity_type) for it in them] for them in own_spans] == [
        [(it.start, it.end, it.entity_type) for it in them] for them in spans
    ]
    # Where a span could be of several types, the library relates it once for each of them, and to itself.
    expected = [{tuple(it[:3]): it[3] for it in them if it[0] != it[2]} for them in links]
    own_links = [[it for it in them if it[0] != it[2]] for them in own_links]
    assert [sorted({tuple(it[:3]) for it in them}) for them in own_links] == [sorted(it) for it in expected]
    assert sum(map(len, own_links)) > 3
    for them, known in zip(own_links, expected, strict=True):
        assert {tuple(it[:3]): it[3] for it in them} == pytest.approx(known, abs=1e-5)


def test_a_chunk_carries_its_relations(related):
    engine = GlinerEngine(model=str(related), threshold=0.3, relation_threshold=0.5, dtype="float32")
    model = GlinerModel(engine, TYPES, RELATIONS, threads=1)
    found = model.extract([*TEXTS, ""])
    assert sum(len(it.relations) for it in found) > 3
    for it in found:
        assert it.error is None
        names = {entity.text for entity in it.entities}
        assert all({relation.source, relation.target} <= names for relation in it.relations)
        assert {relation.type for relation in it.relations} <= set(RELATIONS)
        assert all(0.5 < relation.score <= 1 for relation in it.relations)
        triples = [(relation.source, relation.type, relation.target) for relation in it.relations]
        assert len(set(triples)) == len(triples)


def test_who_asks_for_entities_alone_gets_what_no_relation_has_touched(related):
    engine = GlinerEngine(model=str(related), threshold=0.3, dtype="float32")
    both = GlinerModel(engine, TYPES, RELATIONS, threads=1)
    alone = GlinerModel(engine, TYPES, threads=1).extract(TEXTS)
    again = both.asking(TYPES).extract(TEXTS)
    assert [it.relations for it in alone] == [[]] * len(TEXTS)
    assert [[(e.start, e.end, e.type) for e in it.entities] for it in alone] == [
        [(e.start, e.end, e.type) for e in it.entities] for it in again
    ]


def test_stored_thresholds_hold_for_whatever_is_asked(related):
    (related / "kgscale.json").write_text('{"threshold": 0.37, "relation_threshold": 0.21}')
    try:
        model = GlinerModel(GlinerEngine(model=str(related)), TYPES, RELATIONS)
        for it in (model, model.asking(TYPES)):
            assert (it.threshold, it.relation_threshold) == (0.37, 0.21)
        assert GlinerModel(GlinerEngine(model=str(related), relation_threshold=0.9), TYPES).relation_threshold == 0.9
    finally:
        (related / "kgscale.json").unlink()


def test_a_model_that_finds_no_relations_is_refused(tmp_path_factory):
    folder = make(tmp_path_factory, "token_level", None)
    with pytest.raises(UserError, match="finds entities only"):
        refuse_without_relations("m", folder)
    with pytest.raises(UserError, match="finds entities only") as caught:
        GlinerModel(GlinerEngine(model=str(folder)), TYPES, RELATIONS)
    assert "gliner-relex-minilm" in caught.value.hint


def test_a_model_that_finds_relations_is_not_refused(related):
    refuse_without_relations("m", related)


@pytest.mark.parametrize("length", [30, 200])
def test_a_relation_of_two_windows_is_there_once_and_none_is_lost(related, monkeypatch, length):
    from gliner.decoding.decoder import Span

    engine = GlinerEngine(model=str(related), window_overlap=8)
    model = GlinerModel(engine, TYPES, {"next_to": RelationType()}, threads=1)

    def read(batch):
        spans = [
            [Span(at, at, "org", 0.9) for at, word in enumerate(words) if word.startswith("e")]
            for words in batch["tokens"]
        ]
        return spans, [[(at, "next to", at + 1, 0.8) for at in range(len(them) - 1)] for them in spans]

    monkeypatch.setattr(model._reader, "read", read)
    words = ["w"] * length
    places = range(1, length, 4)
    for number, at in enumerate(places):
        words[at] = f"e{number}"
    (found,) = model.extract([" ".join(words)])
    assert found.windows > 1
    names = [f"e{number}" for number in range(len(places))]
    assert [(it.source, it.target) for it in found.relations] == list(pairwise(names))


def test_names_are_linked_once_by_the_best_score_and_not_to_themselves():
    entities = [Entity("Ada", "person", 0, 3), Entity("Bob", "person", 8, 11), Entity("Ada", "person", 20, 23)]
    links = [
        Link((0, 3), (8, 11), "knows", 0.6),
        Link((20, 23), (8, 11), "knows", 0.7),
        Link((8, 11), (0, 3), "knows", 0.5),
        Link((8, 11), (20, 23), "married", 0.8),
        Link((0, 3), (8, 11), "married", 0.9),
        Link((0, 3), (20, 23), "knows", 0.99),
        Link((0, 3), (30, 33), "knows", 0.99),
    ]
    assert relations_of(entities, links, {"married"}) == [
        Relation("Ada", "Bob", "married", 0.9),
        Relation("Bob", "Ada", "knows", 0.5),
        Relation("Ada", "Bob", "knows", 0.7),
    ]


def prompts(entities, relations, *, room=100, most=None, labels=None):
    return Prompts(entities, relations, labels or {}, cost=len, room=room, most=most)


def test_relations_are_asked_for_in_words_and_in_one_prompt_where_that_fits():
    asked = prompts(["person", "org"], ["works_for"], labels={"org": "company"})
    assert [(it.entities, it.relations) for it in asked.passes] == [(["person", "company"], ["works for"])]
    assert (asked.entity_of, asked.relation_of) == ({"person": "person", "company": "org"}, {"works for": "works_for"})
    assert asked.tokens == len("person") + len("company") + len("works for")


def test_every_group_of_entities_is_asked_with_every_group_of_relations():
    entities, relations = [f"entity{at}" for at in range(9)], [f"relation_{at}" for at in range(7)]
    for asked in (prompts(entities, relations, room=60), prompts(entities, relations, room=1000, most=4)):
        pairs = {(e, r) for it in asked.passes for e in it.entities for r in it.relations}
        assert pairs == {(e, r.replace("_", " ")) for e in entities for r in relations}
        assert len(asked.passes) > 2
    assert all(sum(map(len, it.entities)) <= 30 for it in prompts(entities, relations, room=60).passes)


def test_entities_stay_together_where_that_leaves_room_for_a_relation():
    # A relation is found between entities of one prompt.
    entities, relations = [f"entity{at}" for at in range(9)], [f"relation_{at}" for at in range(7)]
    asked = prompts(entities, relations, room=63 + 10)
    assert [it.entities for it in asked.passes] == [entities] * 7
    assert [it.relations for it in asked.passes] == [[it.replace("_", " ")] for it in relations]


def test_labels_that_cannot_be_asked_for_are_named():
    with pytest.raises(
        UserError, match=r"the relation type 'rrrr.* takes 120 tokens, more than GLiNER can read \(50\)"
    ):
        prompts(["person"], ["r" * 120, "s" * 40], room=100)
    with pytest.raises(UserError, match="'works_for' and 'works for' have the same wording") as caught:
        prompts(["person"], ["works_for", "works for"])
    assert "relation type" in caught.value.hint


def test_a_model_whose_settings_cannot_be_read_is_not_blamed_for_its_relations(tmp_path):
    refuse_without_relations("m", tmp_path)
    refuse_without_relations("owner/name", "owner/name")
    (tmp_path / "gliner_config.json").write_text(json.dumps({"relations_layer": None}))
    with pytest.raises(UserError):
        refuse_without_relations("m", tmp_path)

"""GLiNER on a tiny real model with random weights: every word of every text is read, and offsets are always true."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.config import GlinerEngine
from kgscale.errors import UserError
from kgscale.extract.gliner import GlinerModel

pytestmark = pytest.mark.engines

LETTERS = [chr(code) for code in range(33, 127)] + list("éß中文公司。")
TYPES = ["person", "org", "place"]


@pytest.fixture(scope="module", params=["token_level", "markerV0"])
def folder(request, tmp_path_factory):
    """A GLiNER of two small layers that reads 24 words and 96 word pieces."""
    import torch
    from gliner import GLiNER, GLiNERConfig
    from transformers import BertConfig, BertModel, BertTokenizer

    encoder, target = tmp_path_factory.mktemp("encoder"), tmp_path_factory.mktemp("gliner")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    (encoder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=96, **sizes)).save_pretrained(encoder)
    BertTokenizer(str(encoder / "vocab.txt"), model_max_length=512).save_pretrained(encoder)
    config = GLiNERConfig(model_name=str(encoder), span_mode=request.param, hidden_size=16, max_len=24, max_width=4)
    GLiNER.from_config(config, local_files_only=True).save_pretrained(str(target), safe_serialization=True)
    return target


@pytest.fixture(scope="module")
def model(folder):
    engine = GlinerEngine(model=str(folder), threshold=0.3, window_overlap=6, dtype="float32")
    return GlinerModel(engine, TYPES, threads=1)


@pytest.fixture
def planted(folder, monkeypatch):
    """A model that finds each word `ent…` that really reaches its encoder, with the words after it up to `width`.

    What the end of a window cuts short gets the better score, as an engine without context might give it.
    """
    from gliner.decoding.decoder import Span

    def make(types=TYPES, width=1, **engine):
        model = GlinerModel(GlinerEngine(model=str(folder), **{"window_overlap": 6, **engine}), types, threads=1)

        def decode(output, batch, **_options):
            found = []
            labels = list(batch["id_to_classes"].values())
            for words, mask in zip(batch["tokens"], batch["words_mask"], strict=True):
                read = set(mask.tolist())
                found.append(
                    [
                        Span(
                            at,
                            min(at + width, len(words)) - 1,
                            labels[int(word[3:] or 0) % len(labels)],
                            0.5 if at + width <= len(words) else 0.99,
                        )
                        for at, word in enumerate(words)
                        if word.startswith("ent") and at + 1 in read
                    ]
                )
            return found

        monkeypatch.setattr(model._model, "decode_batch", decode)
        return model

    return make


def check(text, found):
    assert found.error is None
    last = 0
    for it in found.entities:
        assert text[it.start : it.end] == it.text != ""
        assert it.start >= last, "in order, and none overlaps another"
        last = it.end
        assert it.type in TYPES
        assert 0 <= it.score <= 1


AWKWARD = {
    "empty": "",
    "white space": " \n\t\u3000 ",
    "Chinese": "苹果公司由史蒂夫·乔布斯在加利福尼亚州创立。" * 5,
    "mixed": "Acme公司 and 文 Ada。",
    "emoji": "Ada 👩🏽‍🚀 flew 🇬🇧 to 😀😀😀 " * 8,
    "control characters": "Ada\x00 met\x01\x02 Bob\x1f\x7f \u200b\ufeff\u202e end " * 6,
    "one endless word": "x" * 5000,
    "endless punctuation": "-_" * 2000,
    "unknown script": "ሰላም ልዑል " * 30,
    "combining": "Cafe\u0301 a\u0300\u0301\u0302 " * 30,
    "special tokens": "[SEP] [CLS] <<ENT>> person <<SEP>> [PAD] " * 10,
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_texts(model, name):
    text = AWKWARD[name]
    (found,) = model.extract([text])
    check(text, found)
    assert (found.windows == 0) == (not text.strip())


@settings(max_examples=25)
@given(st.lists(st.text(max_size=300), max_size=4))
def test_offsets_are_true_for_any_text(model, texts):
    for text, found in zip(texts, model.extract(texts), strict=True):
        check(text, found)


def test_the_same_entities_in_any_company(model):
    rng = random.Random(1)
    texts = [
        " ".join(rng.choice(["ada", "met", "acme", "b", "xyzzyx"]) for _ in range(rng.randint(1, 90)))
        for _ in range(12)
    ]
    together = model.extract(texts)
    shuffled = rng.sample(range(12), 12)
    in_other_order = dict(zip(shuffled, model.extract([texts[at] for at in shuffled]), strict=True))
    assert sum(len(it.entities) for it in together) > 20
    for at, text in enumerate(texts):
        (alone,) = model.extract([text])
        for other in (alone, in_other_order[at]):
            assert [(it.start, it.end, it.type) for it in other.entities] == [
                (it.start, it.end, it.type) for it in together[at].entities
            ]
            assert [it.score for it in other.entities] == pytest.approx(
                [it.score for it in together[at].entities], abs=1e-4
            )


@pytest.mark.parametrize("length", [1, 23, 24, 25, 43, 400, 1003])
def test_every_word_reaches_the_encoder_and_is_owned_once(planted, length):
    text = " ".join(f"ent{at}" for at in range(length))
    (found,) = planted().extract([text])
    assert [it.text for it in found.entities] == text.split()
    assert (found.windows == 1) == (length == 1)


@pytest.mark.parametrize(
    "filler",
    ["w", "sesquipedalian" * 4, "😀", "\x01", "a\u200b", "\u00ad", "文", "ሰላም", "x" * 150],
    ids=["short", "long", "emoji", "control", "zero width", "soft hyphen", "Chinese", "unknown", "endless"],
)
def test_an_entity_anywhere_is_found_whatever_the_words_around_it(planted, filler):
    words = [filler] * 250
    places = [0, 20, 24, 110, 210, 249]
    for number, place in enumerate(places):
        words[place] = f"ent{number}"
    text = " ".join(words)
    (found,) = planted().extract([text])
    assert [it.text for it in found.entities] == [f"ent{number}" for number in range(len(places))]


def test_an_entity_at_the_end_of_a_window_is_read_where_it_has_its_context(planted):
    # Heavy words after the light ones: windows often end between them.
    text = " ".join(f"ent{at} {'o' * 9} {'b' * 9}" for at in range(150))
    (found,) = planted(width=3).extract([text])
    assert found.windows > 10
    assert [it.text for it in found.entities] == [f"ent{at} {'o' * 9} {'b' * 9}" for at in range(150)]


def test_fifty_thousand_words_are_read_in_good_time(planted, folder):
    words = ["w"] * 50_000
    for at in range(0, 50_000, 10):
        words[at] = f"ent{at}"
    text = " ".join(words)
    model = planted(batch_tokens=20_000)
    begun = time.perf_counter()
    (found,) = model.extract([text])
    assert len(found.entities) == 5_000
    assert found.entities[-1].text == "ent49990"
    assert found.windows > 2_000
    assert time.perf_counter() - begun < 60


def test_five_hundred_labels_take_several_passes_and_all_are_asked(planted, folder):
    types = [f"kind {at}" for at in range(500)]
    model = planted(types)
    assert [label for group in model.label_passes for label in group] == types
    assert len(model.label_passes) >= 20
    assert all(len(group) <= 25 for group in model.label_passes)
    seen = set()
    prepare = model._model.prepare_batch

    def noting(texts, labels):
        seen.update(labels)
        return prepare(texts, labels)

    model._model.prepare_batch = noting
    (found,) = model.extract([" ".join(f"ent{at}" for at in range(60))])
    assert seen == set(types)
    assert [it.text for it in found.entities] == [f"ent{at}" for at in range(60)]


def test_labels_leave_the_text_its_room(planted):
    types = [f"{'long' * 5}{at:02}" for at in range(10)]
    model = planted(types)
    assert len(model.label_passes) > 1
    (found,) = model.extract([" ".join(f"ent{at}" for at in range(100))])
    assert len(found.entities) == 100
    with pytest.raises(UserError, match=r"the entity type .* takes 101 tokens, more than GLiNER can read"):
        planted(["x " * 100])


def test_another_wording_of_a_type_and_two_types_of_one_wording(planted):
    model = planted(["org"], labels={"org": "company or institution"})
    assert model.label_passes == [["company or institution"]]
    assert [it.type for it in model.extract(["ent"])[0].entities] == ["org"]
    with pytest.raises(UserError, match="'org' and 'person' have the same wording for GLiNER, 'person'"):
        planted(["org", "person"], labels={"org": "person"})


def test_a_text_that_the_model_cannot_read_costs_itself_alone(planted, monkeypatch):
    model = planted()
    run_batch = model._model.run_batch

    def failing(batch, **options):
        if any("poison" in words for words in batch["tokens"]):
            raise RuntimeError("CUDA out of memory")
        return run_batch(batch, **options)

    monkeypatch.setattr(model._model, "run_batch", failing)
    texts = ["ent1 b", "ent2 poison", "", "ent3 c", "ent4 " * 40 + "poison " + "w " * 40]
    found = model.extract(texts)
    assert [it.error for it in found] == [
        None,
        "RuntimeError: CUDA out of memory",
        None,
        None,
        "RuntimeError: CUDA out of memory",
    ]
    assert [len(found[at].entities) for at in (0, 2, 3)] == [1, 0, 1]


def test_a_text_that_the_tokenizer_cannot_read_costs_itself_alone(planted, monkeypatch):
    model = planted()
    tokenizer = model._tokenizer

    class Failing:
        def __call__(self, words, **options):
            if "poison" in words:
                raise ValueError("no")
            return tokenizer(words, **options)

    model._tokenizer = Failing()
    found = model.extract(["ent1", "poison", "ent2"])
    assert [it.error for it in found] == [None, "ValueError: no", None]
    assert [len(it.entities) for it in found] == [1, 0, 1]


def test_times_are_shared_among_the_texts_of_a_batch(model):
    found = model.extract(["ada met bob"] * 8 + [""])
    assert all(it.batch_ms > 0 and it.batch_size == pytest.approx(8) for it in found[:8])
    assert (found[8].batch_ms, found[8].batch_size, found[8].windows) == (0, 1, 0)


def test_the_threshold_that_training_chose_is_used(folder):
    (folder / "kgscale.json").write_text('{"threshold": 0.37}')
    try:
        assert GlinerModel(GlinerEngine(model=str(folder)), TYPES).threshold == 0.37
        assert GlinerModel(GlinerEngine(model=str(folder), threshold=0.9), TYPES).threshold == 0.9
    finally:
        (folder / "kgscale.json").unlink()
    assert GlinerModel(GlinerEngine(model=str(folder)), TYPES).threshold == 0.5

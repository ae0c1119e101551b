"""The real default models, prepared in the user's own cache so that the whole suite shares them."""

import json

import pytest

from kgscale.config import GlinerEngine, RelationType, SchemaConfig, VllmEngine
from kgscale.extract.framing import encode, frame
from kgscale.extract.gliner import GlinerModel
from kgscale.extract.parse import parse_answer
from kgscale.extract.prompt import Task, prompt_book
from kgscale.pretrained import prepare, relex, stored_relation_threshold, stored_threshold, verify
from kgscale.pretrained.cache import Manifest
from kgscale.pretrained.minilm import SHIPPED
from kgscale.pretrained.smollm2 import LEARNT as SMOLLM2_KG

MEGABYTE = 1 << 20
NEWS = (
    "In March 2019, Siemens opened a research centre in Toronto. Its director, Angela Brandt, said that the team would "
    "write the control software in Python and that the Raspberry Pi boards would talk MQTT."
)


@pytest.fixture(scope="session")
def smollm2():
    return prepare("smollm2-135m", say=print)


@pytest.fixture(scope="session")
def minilm():
    return prepare("gliner-minilm", say=print)


@pytest.fixture(scope="session")
def relex_minilm():
    return prepare("gliner-relex-minilm", say=print)


@pytest.fixture(scope="session")
def tokenizer(smollm2):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(smollm2, local_files_only=True)


def test_they_are_whole(smollm2, minilm, relex_minilm):
    for folder in (smollm2, minilm, relex_minilm):
        verify(folder)


def test_tokenizer_of_smollm2(tokenizer):
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id) == (2, 2, 1)
    assert tokenizer.model_max_length == 8192
    for text in ("Line one.\n  Line two , and 'three' — é ü 中文 ▁ 🎉", " 1234 items, v2.10"):
        assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert tokenizer.tokenize("in 2024") == ["in", "Ġ", "2", "0", "2", "4"]
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer(prompt).input_ids.count(1) == 3


def test_smollm2_answers(smollm2, tokenizer):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(smollm2, local_files_only=True)
    assert model.dtype == torch.bfloat16
    chat = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    answer = model.generate(**prompt, max_new_tokens=24, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(answer)
    assert answer[-1] == tokenizer.eos_token_id


def test_gliner_finds_what_is_plain_to_see(minilm):
    from gliner import GLiNER

    model = GLiNER.from_pretrained(str(minilm), local_files_only=True)
    labels = ["person", "organization", "location", "date", "programming language", "protocol", "hardware"]
    found = model.inference([NEWS], labels, threshold=stored_threshold(minilm))[0]
    expected = {
        ("Siemens", "organization"),
        ("Toronto", "location"),
        ("Angela Brandt", "person"),
        ("March 2019", "date"),
        ("Python", "programming language"),
    }
    assert expected <= {(entity["text"], entity["label"]) for entity in found}
    assert all(NEWS[entity["start"] : entity["end"]] == entity["text"] for entity in found)
    assert model.inference(["Please restart it and try again."], labels) == [[]]


def test_what_is_shipped_is_small(minilm):
    assert sum(path.stat().st_size for path in SHIPPED) < 9.5 * MEGABYTE
    card = Manifest.read(minilm)
    assert {record.path for record in card.files} >= {
        "README.md",
        "kgscale.json",
        "gliner_config.json",
        "model.safetensors",
    }
    assert 0 < stored_threshold(minilm) < 1


def test_a_model_without_a_threshold(tmp_path):
    assert stored_threshold(tmp_path) is None


def test_the_relation_model_was_trained_on_what_is_shipped_as_gliner_minilm():
    """New weights of gliner-minilm make those of the relation model worthless: it has to be trained again."""
    settings = json.loads(relex.SETTINGS.read_text())
    assert settings["base"] == relex.base_digest()
    assert relex.LEARNT.stat().st_size <= 10 * MEGABYTE


def test_the_relation_model_finds_what_is_plain_to_see(relex_minilm):
    text = "Orvane Systems was founded by Tilda Marsh. Orvane Systems has its headquarters in Lisbon."
    kinds = {"founded_by": RelationType(), "headquartered_in": RelationType()}
    model = GlinerModel(GlinerEngine(model=str(relex_minilm)), ["person", "organization", "location"], kinds)
    stored = stored_threshold(relex_minilm), stored_relation_threshold(relex_minilm)
    assert (model.threshold, model.relation_threshold) == stored
    (found,) = model.extract([text])
    assert {("Orvane Systems", "organization"), ("Tilda Marsh", "person"), ("Lisbon", "location")} == {
        (it.text, it.type) for it in found.entities
    }
    assert [(it.source, it.type, it.target) for it in found.relations] == [
        ("Orvane Systems", "founded_by", "Tilda Marsh"),
        ("Orvane Systems", "headquartered_in", "Lisbon"),
    ]
    assert model.extract(["Please restart it and try again."])[0].relations == []


def test_a_model_without_a_relation_threshold(tmp_path, minilm):
    assert stored_relation_threshold(tmp_path) is None
    assert stored_relation_threshold(minilm) is None


def test_smollm2_kg_is_the_base_with_the_adapter(smollm2):
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    assert SMOLLM2_KG.stat().st_size <= 10 * MEGABYTE
    folder = prepare("smollm2-135m-kg", say=print)
    verify(folder)
    base, model = (
        AutoModelForCausalLM.from_pretrained(it, local_files_only=True).state_dict() for it in (smollm2, folder)
    )
    adapted = {f"{name.removesuffix('.lora_A')}.weight" for name in load_file(SMOLLM2_KG) if name.endswith(".lora_A")}
    assert adapted == {name for name, tensor in model.items() if not tensor.equal(base[name])}


def test_smollm2_kg_answers_the_prompts_of_extraction(tokenizer):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(prepare("smollm2-135m-kg", say=print), local_files_only=True)
    schema = SchemaConfig(
        entity_types={"person": None, "organization": "companies", "location": None},
        relation_types={"works_for": RelationType(), "headquartered_in": RelationType()},
    )
    book = prompt_book(schema, VllmEngine(), Task.BOTH)
    around = frame(tokenizer, book.system)
    asked = encode(tokenizer, book.ask("Orvane Systems is based in Lisbon. Tilda Marsh is its chief executive.").user)
    prompt = torch.tensor([[*around.before, *asked, *around.after]])
    answer = model.generate(prompt, max_new_tokens=160, do_sample=False)[0, prompt.shape[1] :]
    read = parse_answer(tokenizer.decode(answer, skip_special_tokens=True), Task.BOTH)
    assert read is not None
    assert read.whole
    # No more than its card promises: whole answers in the schema's words, and names that are plain to see.
    assert {kind for _, kind in read.entities} <= set(schema.entity_types)
    assert {("Orvane Systems", "organization"), ("Lisbon", "location")} <= set(read.entities)

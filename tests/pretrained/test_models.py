"""The real default models, prepared in the user's own cache so that the whole suite shares them."""

import pytest

from kgscale.pretrained import prepare, stored_threshold, verify
from kgscale.pretrained.cache import Manifest
from kgscale.pretrained.minilm import SHIPPED

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
def tokenizer(smollm2):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(smollm2, local_files_only=True)


def test_both_are_whole(smollm2, minilm):
    verify(smollm2)
    verify(minilm)


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

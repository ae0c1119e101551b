import random

import pytest

from kgscale.finetune import synthetic

LETTERS = [chr(code) for code in range(33, 127)]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """A tiny BERT with random weights and a vocabulary of letters."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    (folder / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder)
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=512).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def examples():
    found = [example for example in synthetic.sentences(120, seed=3) if len(example.words) < 14]
    return random.Random(0).sample(found, 48)

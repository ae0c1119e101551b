"""Model directories: no pickle is read, and no code of a model's is run."""

import json
import pickle
from contextlib import suppress

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from kgscale.config import GlinerEngine, VllmEngine
from kgscale.corpus.chunk import in_tokens
from kgscale.errors import UserError
from kgscale.extract.gliner import GlinerModel
from kgscale.extract.llm import make_llm
from kgscale.pretrained import locate


class Bomb:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (self.mark, "w"))


@pytest.mark.parametrize("kind", ["gliner", "llm"])
@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt", "model.ckpt", "consolidated.00.pth"])
def test_pickled_weights_are_refused_unread(tmp_path, kind, name):
    mark = tmp_path / "ran"
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / name).write_bytes(pickle.dumps(Bomb(str(mark))))
    with pytest.raises(UserError, match=rf"pickled \({name}\)"):
        locate(folder, kind)
    (folder / "model.safetensors").write_bytes(b"")
    assert locate(folder, kind) == folder, "the safetensors beside it are what the libraries read"
    assert not mark.exists()


def test_safetensors_of_another_name_are_not_what_gliner_reads(tmp_path):
    (tmp_path / "adapter.safetensors").write_bytes(b"")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UserError, match="pickled"):
        locate(tmp_path, "gliner")


@pytest.mark.engines
def test_code_of_a_gliner_model_is_not_run(tmp_path):
    """Such a model runs its code where the library is left to itself, as the second half shows."""
    from gliner import GLiNER, GLiNERConfig
    from transformers import BertConfig, BertModel, BertTokenizer

    encoder, folder, mark = tmp_path / "encoder", tmp_path / "gliner", tmp_path / "ran"
    encoder.mkdir()
    (encoder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=8, **sizes)).save_pretrained(encoder)
    BertTokenizer(str(encoder / "vocab.txt")).save_pretrained(encoder)
    config = GLiNERConfig(model_name=str(encoder), span_mode="token_level", hidden_size=16, max_len=24)
    GLiNER.from_config(config, local_files_only=True).save_pretrained(str(folder), safe_serialization=True)
    path = folder / "gliner_config.json"
    stored = json.loads(path.read_text())
    # The form that a model on a hub would use: the code lies elsewhere, here in a directory beside it.
    stored["encoder_config"]["auto_map"] = {"AutoModel": f"{folder}--own.Own"}
    path.write_text(json.dumps(stored))
    code = f"open({str(mark)!r}, 'w').close()\nfrom transformers import BertModel\nclass Own(BertModel):\n    pass\n"
    (folder / "own.py").write_text(code)

    with pytest.raises(UserError, match="wants to run code of its own"):
        GlinerModel(GlinerEngine(model=str(folder)), ["person"], threads=1)
    assert not mark.exists()

    GLiNER.from_pretrained(str(folder), local_files_only=True)
    assert mark.exists()


@pytest.mark.engines
def test_code_of_a_tokenizer_is_run_only_where_that_is_asked_for_by_name(tmp_path):
    tokenizer = Tokenizer(WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    folder, mark = tmp_path / "model", tmp_path / "ran"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    stored = json.loads(path.read_text()) | {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": [None, "own.Own"]}}
    path.write_text(json.dumps(stored))
    (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}))
    code = f"open({str(mark)!r}, 'w').close()\nfrom transformers import PretrainedConfig, PreTrainedTokenizerFast\n"
    code += "class Config(PretrainedConfig):\n    model_type = 'own'\n"
    (folder / "own.py").write_text(f"{code}class Own(PreTrainedTokenizerFast):\n    pass\n")
    for trust in (False, True):
        engine = VllmEngine(model=str(folder), trust_remote_code=trust)
        with suppress(ValueError, UserError):
            make_llm(engine, gpu_share=None, seed=0).settings([])
        assert mark.exists() is trust
    mark.unlink()
    with suppress(UserError):
        in_tokens(str(folder))
    assert not mark.exists()

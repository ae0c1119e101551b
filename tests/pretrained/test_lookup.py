import shutil
import subprocess
import sys

import pytest

from kgscale.errors import UserError
from kgscale.pretrained import available, fingerprint, identity, locate


def test_known_name_is_prepared(tmp_path, monkeypatch, toy_model):
    monkeypatch.setenv("KGSCALE_CACHE", str(tmp_path / "cache"))
    assert locate("toy", "llm") == tmp_path / "cache" / "toy"


def test_directory_and_hub_id(tmp_path, monkeypatch):
    assert locate(str(tmp_path), "gliner") == tmp_path
    assert locate(tmp_path, "gliner") == tmp_path
    assert locate("urchade/gliner_small-v2.1", "gliner") == "urchade/gliner_small-v2.1"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mine").mkdir(parents=True)
    assert locate("models/mine", "llm") == tmp_path / "models" / "mine"


@pytest.mark.parametrize(
    ("name", "kind", "hint"),
    [
        ("smollm2_135m", "llm", "did you mean smollm2-135m?"),
        ("gliner-mini", "gliner", "did you mean gliner-minilm?"),
        ("/no/such/directory", "llm", "the default llm models are: smollm2-135m, smollm2-135m-kg;"),
        ("gliner-minilm", "llm", "the default llm models are: smollm2-135m, smollm2-135m-kg;"),
    ],
)
def test_anything_else_is_refused(name, kind, hint):
    with pytest.raises(UserError) as caught:
        locate(name, kind)
    assert hint in caught.value.hint
    assert name in caught.value.message


def test_available():
    kinds = {
        "smollm2-135m": "llm",
        "smollm2-135m-kg": "llm",
        "gliner-minilm": "gliner",
        "gliner-relex-minilm": "gliner",
    }
    assert {model.name: model.kind for model in available()} == kinds
    assert all(model.licence and model.summary and model.source for model in available())


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("KGSCALE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(identity, "SMALL", 100)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "weights.bin").write_bytes(b"w" * 1000)
    return tmp_path / "model"


def test_fingerprint_is_of_contents(model, tmp_path):
    first = fingerprint(model)
    assert first.startswith("sha256:")
    assert len(first) == 23
    (model / "README.md").write_text("a card")
    assert fingerprint(model) == first
    shutil.copytree(model, tmp_path / "copy")
    assert fingerprint(tmp_path / "copy") == first
    (model / "config.json").write_text("{ }")
    assert fingerprint(model) != first
    (model / "config.json").write_text("{}")
    (model / "weights.bin").write_bytes(b"v" * 1000)
    assert fingerprint(model) != first


def test_fingerprint_remembers_large_files(model, monkeypatch):
    first = fingerprint(model)
    hashed = []
    original = identity.sha256_of
    monkeypatch.setattr(identity, "sha256_of", lambda path: hashed.append(path.name) or original(path))
    assert fingerprint(model) == first
    assert hashed == ["config.json"]


def test_fingerprint_without_a_writable_cache(model, monkeypatch):
    first = fingerprint(model)
    monkeypatch.setenv("KGSCALE_CACHE", str(model / "config.json" / "under-a-file"))
    assert fingerprint(model) == first


def test_fingerprint_of_others(tmp_path):
    assert fingerprint("owner/name") == "owner/name"
    with pytest.raises(UserError, match="no such model directory"):
        fingerprint(tmp_path / "none")
    with pytest.raises(UserError, match="holds no model"):
        fingerprint(tmp_path)


def test_import_is_light():
    heavy = {"torch", "transformers", "gliner", "ray", "vllm"}
    code = f"import sys, kgscale.pretrained; sys.exit(bool({heavy} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)

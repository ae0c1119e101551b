"""`kgscale finetune gliner` on a tiny real model: what comes out, what is refused, and what a kill costs."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gliner import GLiNER, GLiNERConfig
from safetensors.torch import load_file

from kgscale import cli
from kgscale.config import GlinerEngine, SchemaConfig
from kgscale.errors import UserError
from kgscale.extract.gliner import GlinerModel
from kgscale.finetune.gliner_held import HeldOut
from kgscale.finetune.gliner_job import Job, finetune_gliner
from kgscale.finetune.gliner_training import BEST
from kgscale.finetune.own import read_own
from kgscale.gold.agreement import agreement
from kgscale.pretrained.assemble import new_gliner
from kgscale.records import GoldChunk, GoldEntity

ROOT = Path(__file__).parents[2]
SCHEMA = SchemaConfig(
    entity_types={"person": None, "organization": "a company"},
    relation_types={},
    aliases={"entity_types": {"FIRM": "organization"}, "names": {"Zar": "Zarnet"}},
)
ENGINE = GlinerEngine(dtype="float32")
FIRST = ("Ada", "Ivo", "Mia", "Noor", "Tove", "Pia", "Leo", "Eva")
FIRMS = ("zarnet", "quill", "mobex", "tarn", "oleva", "fjord", "hexo", "ylva")
VERBS = ("left", "joined", "founded", "sued")


def chunks(number, seed):
    """Texts in which names begin with a capital, and firms stand after `at`."""
    rng = random.Random(seed)
    for i in range(number):
        person, firm = rng.choice(FIRST) + rng.choice("abcdef") * 2, rng.choice(FIRMS) + rng.choice("xyz")
        rest = " ".join(rng.choice(("so", "it", "was", "then", "of")) for _ in range(rng.randint(1, 4)))
        text = f"{person} {rng.choice(VERBS)} at {firm} {rest}."
        at = text.find(firm)
        yield f"s{seed}-{i}", text, (0, len(person)), (at, at + len(firm))


def write_json(path, number, seed, kinds=("person", "FIRM")):
    """Gold in the guide's form, without offsets."""
    found = []
    for name, text, *spans in chunks(number, seed):
        entities = [{"text": text[a:b], "type": kind} for (a, b), kind in zip(spans, kinds, strict=True)]
        found.append({"chunk_id": name, "text": text, "ground_truth_entities": entities})
    path.write_text(json.dumps({"chunks": found}))
    return path


def write_brat(folder, number, seed):
    folder.mkdir()
    for name, text, person, firm in chunks(number, seed):
        (folder / f"{name}.txt").write_text(text)
        lines = [
            f"T{i}\t{kind} {a} {b}\t{text[a:b]}\n"
            for i, (kind, (a, b)) in enumerate((("person", person), ("FIRM", firm)), 1)
        ]
        (folder / f"{name}.ann").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def bases(encoder, tmp_path_factory):
    """A GLiNER of words and one of spans, with fresh heads, and their bare encoder."""
    folder = tmp_path_factory.mktemp("bases")
    new_gliner(encoder).save_pretrained(str(folder / "words"), safe_serialization=True)
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "max_len": 24, "max_width": 4, "dropout": 0.0}
    config = GLiNERConfig(model_name=str(encoder), span_mode="markerV0", **sizes)
    spans = GLiNER.from_config(config, local_files_only=True)
    spans.save_pretrained(str(folder / "spans"), safe_serialization=True)
    return {"words": folder / "words", "spans": folder / "spans", "encoder": encoder}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return write_brat(folder / "brat", 40, 1), write_json(folder / "train.json", 40, 2)


def job(bases, files, out, base="words", **changes):
    settings = {"steps": 60, "batch": 8, "rate": 4e-3, "head_rate": 4e-3, "rank": 4, "patience": 0, "threads": 1}
    return Job(SCHEMA, ENGINE, files, [], [], str(bases[base]), out, **{**settings, **changes})


@pytest.fixture(scope="module")
def trained(bases, files, tmp_path_factory):
    """What a job gave and said, by base."""
    found = {}
    for base in bases:
        said = []
        out = tmp_path_factory.mktemp("jobs") / base
        found[base] = finetune_gliner(job(bases, files, out, base), said.append), said
    return found


@pytest.mark.parametrize("base", ["words", "spans", "encoder"])
def test_a_job_gives_a_model_that_extraction_and_gliner_load(base, files, trained):
    out, said = trained[base]
    record = json.loads((out / "kgscale.json").read_text())
    assert record["train"]["train.json"] == hashlib.sha256(files[1].read_bytes()).hexdigest()
    assert set(record["train"]) == {"brat", "train.json"}
    assert (record["texts"], record["held_out"]) == (72, 8)
    assert record["best"]["f1"] > 0.3
    assert record["best"] in record["curve"]
    assert [row["step"] for row in record["curve"]] == [*range(4, 61, 4)]
    assert "█" in (out / "README.md").read_text()
    assert any("sentences/s" in line and "left" in line and "F1" in line for line in said)
    model = GLiNER.from_pretrained(str(out), local_files_only=True)
    assert not any("lora" in name for name in model.model.state_dict())
    assert GlinerModel(GlinerEngine(model=str(out)), list(SCHEMA.entity_types)).extract(["Ada sued at hexo it."])


@pytest.mark.parametrize("base", ["words", "spans"])
def test_f1_and_threshold_are_those_of_extraction_and_of_the_scorer(base, trained, tmp_path):
    out, _ = trained[base]
    gold_file = write_json(tmp_path / "gold.json", 30, 3)
    records = read_own([gold_file], SCHEMA).records
    types = list(SCHEMA.entity_types)
    held = HeldOut(GLiNER.from_pretrained(str(out), local_files_only=True), ENGINE, SCHEMA, records)
    chosen = held({})
    assert 0 < chosen["f1"] < 1
    engine = ENGINE.model_copy(update={"model": str(out), "threshold": chosen["threshold"]})
    found = GlinerModel(engine, types).extract([it.text for it in records])
    pairs = zip(records, found, strict=True)
    predicted = [
        GoldChunk(it.gold.chunk_id, [GoldEntity(e.text, e.type) for e in them.entities], []) for it, them in pairs
    ]
    (f1,) = (it.f1 for it in agreement([it.gold for it in records], predicted, SCHEMA).modes if it.mode == "name+type")
    assert f1 == pytest.approx(chosen["f1"])


def test_the_chosen_threshold_is_used(trained):
    text = "Evaff founded at quillz it was so."
    for base in ("words", "spans"):
        out, _ = trained[base]
        record = json.loads((out / "kgscale.json").read_text())
        ours = GlinerModel(ENGINE.model_copy(update={"model": str(out)}), list(SCHEMA.entity_types))
        assert ours.threshold == record["threshold"]
        assert record["threshold"] == (0.5 if base == "words" else record["best"]["threshold"])
        (found,) = ours.extract([text])
        assert found.entities
        labels = list(SCHEMA.entity_types)
        plain = GLiNER.from_pretrained(str(out), local_files_only=True)
        theirs = plain.predict_entities(text, labels, threshold=record["threshold"])
        assert [(it.start, it.end, it.type) for it in found.entities] == [
            (it["start"], it["end"], it["label"]) for it in theirs
        ]


def test_the_best_weights_are_kept_and_training_stops(bases, files, tmp_path, monkeypatch):
    seen = []
    scripted = iter([0.1, 0.5, 0.4, 0.5, 0.3, 0.9])

    def measured(self, weights):
        seen.append({name: it.clone() for name, it in weights.items()})
        return {"f1": next(scripted), "threshold": 0.4, "precision": 0.5, "recall": 0.5}

    monkeypatch.setattr(HeldOut, "__call__", measured)
    said = []
    out = finetune_gliner(job(bases, files, tmp_path / "out", patience=3), said.append)
    assert len(seen) == 5
    assert any("stopped at step 20" in line for line in said)
    assert json.loads((out / "kgscale.json").read_text())["best"]["step"] == 8
    kept = load_file(tmp_path / "out.training" / BEST)
    assert all(torch.equal(kept[name], it) for name, it in seen[1].items())
    assert not all(torch.equal(kept[name], it) for name, it in seen[3].items())


def test_killed_and_started_again_gives_the_same_weights(bases, files, trained, tmp_path):
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from kgscale.finetune import gliner_training\n"
        "from tests.finetune.test_gliner_job import finetune_gliner, job\n"
        "*files, base, out = map(Path, sys.argv[1:])\n"
        "measure = gliner_training.Training._measure\n"
        "def slow(self):\n"
        "    measure(self)\n"
        "    if len(self.curve) == 4: time.sleep(600)\n"
        "gliner_training.Training._measure = slow\n"
        "finetune_gliner(job({'words': base}, files, out), print)\n"
    )
    out = tmp_path / "out"
    arguments = [str(it) for it in (*files, bases["words"], out)]
    process = subprocess.Popen([sys.executable, "-c", script, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)
    log = tmp_path / "out.training" / "log.jsonl"
    deadline = time.monotonic() + 300
    while not (log.exists() and '"step": 16' in log.read_text()) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not out.exists()
    said = []
    finetune_gliner(job(bases, files, out), said.append)
    assert any("from step 12 of 60" in line for line in said)
    whole, _ = trained["words"]
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    curves = [json.loads((it / "kgscale.json").read_text())["curve"] for it in (out, whole)]
    assert curves[0] == curves[1]
    with pytest.raises(UserError, match="something already"):
        finetune_gliner(job(bases, files, out), said.append)
    shutil.rmtree(out)
    with pytest.raises(UserError, match="another recipe"):
        finetune_gliner(job(bases, files, out, seed=8), said.append)


def test_all_weights_or_adapters_only(bases, files, trained, tmp_path):
    full = finetune_gliner(job(bases, files, tmp_path / "full", rank=0, rate=1e-3, steps=16), lambda _: None)
    before, after, adapted = (load_file(it / "model.safetensors") for it in (bases["words"], full, trained["words"][0]))
    table = "token_rep_layer.bert_layer.model.embeddings.word_embeddings.weight"
    assert torch.equal(before[table], adapted[table])
    assert not torch.equal(before[table], after[table])
    inner = next(name for name in before if "layer.1.attention.self.query.weight" in name)
    assert not torch.equal(before[inner], after[inner])
    assert not torch.equal(before[inner], adapted[inner])


def test_texts_of_the_gold_or_of_the_held_out_part_are_refused(bases, tmp_path, capsys):
    shared = "the board of the company met in the old town hall that day"
    gold = tmp_path / "scored.json"
    chunk = {"chunk_id": "g", "text": f"Then {shared}.", "ground_truth_entities": [{"text": "board", "type": "person"}]}
    gold.write_text(json.dumps({"chunks": [chunk]}))
    train = tmp_path / "train.json"
    train.write_text(json.dumps({"chunks": [{**chunk, "chunk_id": "t", "text": f"Said {shared} again."}]}))
    asked = job(bases, [train], tmp_path / "out")
    for changed in ({"scored": [gold]}, {"evaluate": [gold]}):
        with pytest.raises(UserError, match=r"(?s)1 training texts.*train.json, t shares 8 words.*scored.json, g"):
            finetune_gliner(replace(asked, **changed), lambda _: None)
    config = tmp_path / "config.yaml"
    config.write_text(f"corpus: {{path: x}}\ngold: {gold}\nschema: {{entity_types: [person]}}\n")
    arguments = ["finetune", "gliner", config, "--train", train, "--out", tmp_path / "out"]
    with pytest.raises(SystemExit) as stop:
        cli.main([str(it) for it in arguments])
    assert stop.value.code == 2
    assert "train.json, t shares 8 words in a row with scored.json, g" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("base", ["gliner-minlm", "smollm2-135m", "{tmp}"])
def test_an_unknown_base_is_the_users_mistake(base, files, tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text("corpus: {path: x}\nschema: {entity_types: [person, FIRM]}\n")
    base = base.format(tmp=tmp_path)
    arguments = ["finetune", "gliner", config, "--train", files[1], "--out", tmp_path / "o"]
    with pytest.raises(SystemExit) as stop:
        cli.main([str(it) for it in (*arguments, "--base", base)])
    assert stop.value.code == 2
    assert base in capsys.readouterr().err


@pytest.mark.skipif("KGSCALE_SLOW" not in os.environ, reason="starts Ray Train, which takes a minute: set KGSCALE_SLOW")
def test_two_workers_train_as_one_does(bases, files, tmp_path, monkeypatch):
    pytest.importorskip("pandas")  # Ray Train wants it
    monkeypatch.chdir(tmp_path)
    short = {"steps": 6, "rate": 1e-3, "head_rate": 1e-3}
    one = finetune_gliner(job(bases, files, tmp_path / "one", **short), lambda _: None)
    two = finetune_gliner(job(bases, files, Path("two"), workers=2, **short), lambda _: None)
    first, second, base = (load_file(it / "model.safetensors") for it in (one, two, bases["words"]))
    apart, moved = (
        sum(float((it[name] - first[name]).square().sum()) for name in first) ** 0.5 for it in (second, base)
    )
    # The same steps but for rounding, which Adam makes the most of where gradients are next to nothing.
    assert 0 < apart < moved / 2

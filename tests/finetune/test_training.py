import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kgscale.errors import UserError
from kgscale.finetune.adapter import add_adapters, learnt, save_learnt
from kgscale.finetune.examples import write_examples
from kgscale.finetune.gliner import export, shorten, training
from kgscale.finetune.schedule import Recipe, plan, rate_at
from kgscale.finetune.threshold import build_in, choose_threshold
from kgscale.pretrained.assemble import merge, new_gliner

RECIPE = Recipe(steps=8, batch=4, rank=4, save_every=3)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def uninterrupted(encoder, examples, tmp_path_factory):
    run = training(new_gliner(encoder), examples, RECIPE, tmp_path_factory.mktemp("whole"))
    run.run()
    return run


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_resume_gives_the_same_weights(encoder, examples, uninterrupted, tmp_path):
    for until in (3, 5, None):
        resumed = training(new_gliner(encoder), examples, RECIPE, tmp_path)
        resumed.run(until)
    assert same(learnt(resumed.model), learnt(uninterrupted.model))
    steps = [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert steps == [3, 5, 8]


def test_killed_and_resumed(encoder, examples, uninterrupted, tmp_path):
    write_examples(tmp_path / "train.gz", examples)
    script = (
        "import sys, time; from pathlib import Path; import torch; torch.set_num_threads(1)\n"
        "from kgscale.finetune.examples import read_examples\n"
        "from tests.finetune.test_training import RECIPE, training, new_gliner\n"
        "encoder, train, folder = map(Path, sys.argv[1:])\n"
        "t = training(new_gliner(encoder), list(read_examples(train)), RECIPE, folder)\n"
        "t.run(4); t.save = lambda: time.sleep(600); t.run()"
    )
    arguments = [str(encoder), str(tmp_path / "train.gz"), str(tmp_path / "run")]
    process = subprocess.Popen([sys.executable, "-c", script, *arguments], cwd=ROOT)
    log = tmp_path / "run" / "log.jsonl"
    deadline = time.monotonic() + 300
    while not log.exists() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    resumed = training(new_gliner(encoder), examples, RECIPE, tmp_path / "run")
    assert 3 <= resumed.step <= 4
    resumed.run()
    assert same(learnt(resumed.model), learnt(uninterrupted.model))


def test_another_recipe_in_the_same_folder_is_refused(encoder, examples, uninterrupted):
    with pytest.raises(UserError, match="another recipe"):
        training(new_gliner(encoder), examples, replace(RECIPE, seed=8), uninterrupted.folder)


def test_only_heads_and_adapters_learn(encoder, uninterrupted):
    fresh = dict(new_gliner(encoder).model.named_parameters())
    for name, parameter in uninterrupted.model.named_parameters():
        adapter = name.endswith((".a", ".b"))
        assert parameter.requires_grad == (adapter or not name.startswith("token_rep_layer."))
        if not parameter.requires_grad:
            plain = fresh[name.replace(".layer.weight", ".weight").replace(".layer.bias", ".bias")]
            assert torch.equal(parameter, plain.to(parameter.dtype))


def test_lower_blocks_may_stay_untouched(encoder):
    model = new_gliner(encoder).model
    add_adapters(model, 4, untouched=0.5)
    adapted = {name for name, it in model.named_parameters() if name.endswith(".a")}
    assert len(adapted) == 6
    assert all(".layer.1." in name for name in adapted)


def test_the_file_holds_what_was_trained(encoder, uninterrupted, tmp_path):
    from safetensors.torch import load_file

    save_learnt(learnt(uninterrupted.model), tmp_path / "x.safetensors")
    stored = load_file(tmp_path / "x.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    gliner = new_gliner(encoder).eval()
    merge(gliner.model, stored)
    text, labels = ["Ada wrote Python in Oslo"], ["person", "city"]
    batches = [
        it.collate_batch(it.prepare_batch(text, labels)["input_x"], labels) for it in (gliner, uninterrupted.gliner)
    ]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        merged, trained = gliner.run_batch(batches[0])[0], uninterrupted.gliner.run_batch(batches[1])[0]
    assert torch.allclose(merged.float(), trained.float(), atol=0.05)
    assert not torch.allclose(new_gliner(encoder).run_batch(batches[0])[0], merged.float(), atol=0.05)
    with pytest.raises(UserError, match="it has no other"):
        merge(gliner.model, {"other": torch.zeros(1)})


def test_threshold_is_built_in(encoder, examples, uninterrupted, tmp_path):
    weights = learnt(uninterrupted.model)
    gliner = new_gliner(encoder).eval()
    merge(gliner.model, weights)
    chosen = choose_threshold(gliner, examples, candidates=(0.05, 0.1))
    merge(gliner.model, {name: tensor for name, tensor in weights.items() if ".lora_" not in name})
    shifted = new_gliner(encoder).eval()
    merge(shifted.model, build_in(weights, chosen.threshold))
    again = choose_threshold(shifted, examples, candidates=(0.5,))
    assert again.f1 == pytest.approx(chosen.f1, abs=0.02)
    export(encoder, weights, examples, tmp_path)
    assert json.loads((tmp_path / "kgscale.json").read_text())["threshold"] == 0.5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kgscale.json", "learnt.safetensors"]


def test_plan_is_seeded_and_sees_all(examples):
    recipe = Recipe(steps=30, batch=5)
    lengths = [len(it.words) for it in examples]
    batches = plan(lengths, recipe)
    assert batches == plan(lengths, recipe)
    assert batches != plan(lengths, replace(recipe, seed=1))
    assert batches[:12] == plan(lengths, replace(recipe, steps=12))
    assert sorted(number for batch in batches[:10] for number in batch) == list(range(len(examples)))


def test_rate_warms_up_and_cools_down():
    recipe = Recipe(steps=100, warmup=0.1)
    rates = [rate_at(step, recipe) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] < 0.01


def test_long_texts_are_cut_with_their_entities():
    item = {"tokenized_text": list("abcdef"), "ner": [[0, 1, "x"], [2, 3, "x"]], "ner_labels": ["x"]}
    assert shorten(item, 3) == {"tokenized_text": list("abc"), "ner": [[0, 1, "x"]], "ner_labels": ["x"]}
    assert shorten(item, 6) == item

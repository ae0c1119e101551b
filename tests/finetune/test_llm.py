import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from kgscale.config import SchemaConfig, VllmEngine
from kgscale.errors import UserError
from kgscale.extract.framing import encode, frame
from kgscale.extract.parse import parse_answer
from kgscale.extract.prompt import Task, prompt_book
from kgscale.finetune.llm import BEST, TASKS, Recipe, Training, load
from kgscale.finetune.llm_job import Job, finetune_llm
from kgscale.finetune.lora import Adapted, answer_loss, learnt, take_up
from kgscale.finetune.own import OwnMixture, as_it_is, read_own
from kgscale.pretrained.assemble import merge
from tests.finetune.tiny_llm import make_tiny_llm

RECIPE = Recipe(steps=6, batch=3, rank=4, save_every=2, evaluate_every=3, warmup=2, limit=600)
SCHEMA = SchemaConfig(
    entity_types={"person": None, "organization": "a company"}, relation_types={"works_for": {"symmetric": False}}
)
ROOT = Path(__file__).parents[2]
NAMES = ("Ada Borg", "Ivo Lund", "Mia Falk", "Noor Ek", "Tove Dahl", "Pia Holm", "Leo Berg", "Eva Lind")
FIRMS = ("Zarnet", "Quill AB", "Mobex", "Tarn", "Oleva", "Fjord Data", "Hexo", "Ylva Labs")


def gold_file(path: Path, names=NAMES, firms=FIRMS) -> Path:
    chunks = [
        {
            "chunk_id": f"c{i}",
            "text": f"{name} has worked as an engineer at the head office of {firm} since the beginning.",
            "ground_truth_entities": [{"text": name, "type": "person"}, {"text": firm, "type": "organization"}],
            "ground_truth_relations": [{"source": name, "target": firm, "type": "works_for"}],
        }
        for i, (name, firm) in enumerate(zip(names, firms, strict=True))
    ]
    path.write_text(json.dumps({"chunks": chunks}))
    return path


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny_llm(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    return read_own([gold_file(tmp_path_factory.mktemp("gold") / "train.json")], SCHEMA).documents


def training(tiny, documents, folder, recipe=RECIPE):
    mixture = OwnMixture(AutoTokenizer.from_pretrained(tiny), documents, SCHEMA, size=recipe.batch, limit=recipe.limit)
    held_out = {task.value: mixture.in_order(task) for task in TASKS}
    return Training(load(tiny, recipe), mixture.draw, held_out, recipe, folder, "data")


@pytest.fixture(scope="module")
def uninterrupted(tiny, documents, tmp_path_factory):
    whole = training(tiny, documents, tmp_path_factory.mktemp("whole"))
    whole.run()
    return whole


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_prompt_and_answer_are_those_of_extraction(tiny, documents):
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    mixture = OwnMixture(tokenizer, documents, SCHEMA, size=8, limit=4000)
    for task in TASKS:
        (batch,) = mixture.in_order(task)
        book = prompt_book(SCHEMA, VllmEngine(), task)
        around = frame(tokenizer, book.system)
        assert batch.prefix == around.before
        for prompt, answer in zip(batch.prompts, batch.answers, strict=True):
            assert prompt[-len(around.after) :] == around.after
            user = tokenizer.decode(prompt[: -len(around.after)])
            document = next(it for it in documents if it.text in user)
            if task is Task.BOTH:
                assert user == book.ask(document.text).user
            read = parse_answer(tokenizer.decode(answer[:-1]), task)
            assert answer[-1] == tokenizer.eos_token_id
            assert read is not None
            assert read.whole
            assert not read.malformed
            if task is Task.BOTH:
                assert read.entities == list(document.entities)
                assert read.relations == [(source, kind, target) for source, kind, target in document.relations]
            else:
                assert set(read.relations) <= {(source, kind, target) for source, kind, target in document.relations}


def test_text_cannot_pass_for_the_template(tiny):
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    tokens = encode(tokenizer, "a <|im_end|> b")
    assert tokenizer.eos_token_id not in tokens
    assert tokenizer.decode(tokens) == "a <|im_end|> b"


def test_the_loss_is_that_of_plain_transformers(tiny, documents):
    """One pass for the shared instruction, sampled strangers and padding change nothing about the loss."""
    mixture = OwnMixture(AutoTokenizer.from_pretrained(tiny), documents, SCHEMA, size=4, limit=4000)
    batch = mixture.in_order(Task.BOTH)[0]
    model = load(tiny, replace(RECIPE, bf16=False))
    plain = AutoModelForCausalLM.from_pretrained(tiny)
    expected = 0.0
    for prompt, answer in zip(batch.prompts, batch.answers, strict=True):
        tokens = torch.tensor([[*batch.prefix, *prompt, *answer]])
        labels = torch.full_like(tokens, -100)
        labels[0, -len(answer) :] = tokens[0, -len(answer) :]
        with torch.no_grad():
            expected += float(plain(input_ids=tokens, labels=labels).loss) * len(answer)
    with torch.no_grad():
        exact, count = answer_loss(model, batch.prefix, batch.prompts, batch.answers)
    assert count == sum(map(len, batch.answers))
    assert float(exact) == pytest.approx(expected, rel=1e-4)
    # In training, a sample stands for the tokens that the batch lacks.
    sampled = answer_loss(model, batch.prefix, batch.prompts, batch.answers)[0].detach()
    assert float(sampled) == pytest.approx(expected, rel=0.02)


def test_the_shared_instruction_gets_its_gradients(tiny, documents):
    mixture = OwnMixture(AutoTokenizer.from_pretrained(tiny), documents, SCHEMA, size=3, limit=4000)
    batch = mixture.in_order(Task.BOTH)[0]
    grads = []
    for prefix, prompts in (
        (batch.prefix, batch.prompts),
        (batch.prefix[:1], [[*batch.prefix[1:], *it] for it in batch.prompts]),
    ):
        model = load(tiny, replace(RECIPE, bf16=False))
        with torch.no_grad():
            for it in model.modules():
                if isinstance(it, Adapted):
                    it.b.copy_(torch.randn(it.b.shape, generator=torch.Generator().manual_seed(it.b.numel())) / 10)
        torch.manual_seed(0)
        answer_loss(model, prefix, prompts, batch.answers)[0].backward()
        grads.append([it.a.grad for it in model.modules() if isinstance(it, Adapted)])
    assert all(torch.allclose(one, other, rtol=1e-3, atol=1e-3) for one, other in zip(*grads, strict=True))


def test_only_adapters_learn(tiny, uninterrupted):
    fresh = dict(AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.bfloat16).named_parameters())
    adapted = 0
    for name, parameter in uninterrupted.model.named_parameters():
        if parameter.requires_grad:
            adapted += 1
        else:
            assert torch.equal(parameter, fresh[name.replace(".layer.", ".")])
    assert adapted == 2 * 7 * 2


def test_resume_gives_the_same_weights(tiny, documents, uninterrupted, tmp_path):
    for until in (2, 4, None):
        resumed = training(tiny, documents, tmp_path)
        resumed.run(until)
    assert same(learnt(resumed.model), learnt(uninterrupted.model))
    assert resumed.curve == uninterrupted.curve
    assert [row["step"] for row in resumed.curve] == [3, 6]


def test_killed_and_resumed(tiny, documents, uninterrupted, tmp_path):
    gold_file(tmp_path / "train.json")
    script = (
        "import sys, time; from pathlib import Path; import torch; torch.set_num_threads(1)\n"
        "from tests.finetune.test_llm import SCHEMA, read_own, training\n"
        "tiny, gold, folder = map(Path, sys.argv[1:])\n"
        "t = training(tiny, read_own([gold], SCHEMA).documents, folder)\n"
        "t.run(4); t.save = lambda: time.sleep(600); t.run()"
    )
    arguments = [str(tiny), str(tmp_path / "train.json"), str(tmp_path / "run")]
    process = subprocess.Popen([sys.executable, "-c", script, *arguments], cwd=ROOT)
    log = tmp_path / "run" / "log.jsonl"
    deadline = time.monotonic() + 300
    while not (log.exists() and '"step": 4' in log.read_text()) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    resumed = training(tiny, documents, tmp_path / "run")
    assert resumed.step in (2, 4)
    resumed.run()
    assert same(learnt(resumed.model), learnt(uninterrupted.model))


def test_another_recipe_in_the_same_folder_is_refused(tiny, documents, uninterrupted):
    with pytest.raises(UserError, match="another recipe"):
        training(tiny, documents, uninterrupted.folder, replace(RECIPE, seed=8))


def test_merged_model_is_the_trained_one(tiny, documents, uninterrupted):
    mixture = OwnMixture(AutoTokenizer.from_pretrained(tiny), documents, SCHEMA, size=4, limit=4000)
    batch = mixture.in_order(Task.BOTH)[0]
    merged = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.bfloat16)
    merge(merged, learnt(uninterrupted.model))
    with torch.no_grad():
        losses = [
            float(answer_loss(it, batch.prefix, batch.prompts, batch.answers)[0])
            for it in (uninterrupted.model, merged)
        ]
        untrained = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.bfloat16)
        before = float(answer_loss(untrained, batch.prefix, batch.prompts, batch.answers)[0])
    assert losses[0] == pytest.approx(losses[1], rel=0.01)
    assert losses[1] < before


def test_training_goes_on_from_adapters_that_were_learnt(tiny, uninterrupted):
    before = learnt(uninterrupted.model, torch.float32)
    fresh = load(tiny, replace(RECIPE, seed=8))
    take_up(fresh, before)
    assert same(learnt(fresh, torch.float32), before)


def test_a_whole_job(tiny, tmp_path):
    train = gold_file(tmp_path / "train.json")
    scored = gold_file(tmp_path / "gold.json", names=NAMES[::-1])
    said = []
    job = Job(SCHEMA, [train], [], [], str(tiny), tmp_path / "mine", RECIPE)
    assert finetune_llm(job, said.append) == tmp_path / "mine"
    record = json.loads((tmp_path / "mine" / "kgscale.json").read_text())
    assert record["train"] == {"train.json": hashlib.sha256(train.read_bytes()).hexdigest()}
    assert record["texts"] == 7  # one is held out
    assert record["kept_step"] in (3, 6)
    assert "train.json" in (tmp_path / "mine" / "README.md").read_text()
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "mine")
    assert not any("lora" in name for name in model.state_dict())
    assert AutoTokenizer.from_pretrained(tmp_path / "mine").chat_template
    assert (tmp_path / "mine.training" / BEST).is_file()
    with pytest.raises(UserError, match="something already"):
        finetune_llm(job, said.append)
    with pytest.raises(UserError, match=r"(?s)8 training texts are in the gold.*c0 shares 8 words") as refused:
        finetune_llm(replace(job, scored=[scored], out=tmp_path / "other"), said.append)
    assert "gold.json" in str(refused.value)
    assert not (tmp_path / "other").exists()


def test_types_outside_the_schema_are_told(tmp_path):
    found = read_own([gold_file(tmp_path / "g.json")], SCHEMA.model_copy(update={"entity_types": {"person": None}}))
    assert found.left_out == {"organization": 8, "(relation without its entities)": 8}
    with pytest.raises(UserError, match="no annotated entity"):
        read_own([tmp_path / "g.json"], SCHEMA.model_copy(update={"entity_types": {"river": None}}))


def test_own_schema_is_asked_as_it_is():
    asked = as_it_is(SCHEMA)
    assert asked.schema == SCHEMA
    rng = random.Random(0)
    from kgscale.finetune.own import varied

    orders = {tuple(varied(SCHEMA, rng).schema.entity_types) for _ in range(40)}
    assert orders == {("person",), ("organization",), ("person", "organization"), ("organization", "person")}

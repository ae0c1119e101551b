"""Pseudo-gold from an endpoint that refuses, stalls, breaks off and talks nonsense."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from kgscale.cli.gold import gold as commands
from kgscale.config import SchemaConfig
from kgscale.errors import UserError, WorkError
from kgscale.formats import load_gold, prepare_gold
from kgscale.gold.annotate import Panel, write_pseudo_gold
from kgscale.gold.annotator import Annotator, annotating_engine
from kgscale.records import EXTRACTION_SCHEMA, Origin, to_table
from kgscale.runs import GOLD_FILE
from kgscale.score.scorer import score_run
from tests.gold.scripted import Scripted, problem, said, serving
from tests.making import make_run, rows_of

TEXTS = [f"Ada met Bob {number} times, and Bob thanked Ada. Eve saw it." for number in range(6)]
SETTINGS = {"concurrency": 4, "retries": 3, "timeout_s": 5.0, "max_tokens": 256}


def annotator(url, model="big-model", key=None, prices=(2.0, 10.0), **settings):
    engine = annotating_engine(model, url, key, {**SETTINGS, **settings})
    return Annotator.of(engine, SchemaConfig(), prices)


def annotated(sample, out, *annotators, needed=None, agree=lambda _: True, say=lambda _: None):
    return write_pseudo_gold(sample, out, Panel.of(annotators, SchemaConfig(), needed), 0, agree=agree, say=say)


def test_what_the_model_says_becomes_pseudo_gold_with_its_origin(endpoint, sample, tmp_path):
    out = tmp_path / "gold.json"
    one = annotator(endpoint.url)
    found = annotated(sample(TEXTS), out, one)
    assert (found.chunks, found.failed, found.entities, found.relations) == (6, 0, 18, 12)
    gold = load_gold(out)
    assert gold.annotator == "big-model"
    first = gold.chunks[0]
    assert (first.origin, first.annotator, first.prompt) == (Origin.PSEUDO, "big-model", one.book.sha256)
    # Every place where a name stands is a mention.
    assert Counter(it.text for it in first.entities) == {"Ada": 2, "Bob": 2, "Eve": 1}
    assert all(first.text[it.start : it.end] == it.text for it in first.entities)
    cost = found.costs[0]
    assert (cost.prompt_tokens, cost.output_tokens) == (600, 60)
    assert cost.dollars == pytest.approx(600 * 2e-6 + 60 * 10e-6)


def test_the_annotator_reaches_the_scores_of_a_run(endpoint, sample, tmp_path):
    annotated(sample(TEXTS), tmp_path / "gold.json", annotator(endpoint.url))
    run = make_run(tmp_path / "run", TEXTS)
    prepare_gold(tmp_path / "gold.json", run.store)
    for shard in run.remaining("llm"):
        run.write(shard, to_table(rows_of(run, shard), EXTRACTION_SCHEMA))
    summary = score_run(run).gold
    assert summary is not None
    assert summary.annotator == "big-model"
    assert summary.partial == 0
    assert load_gold(run.store.path(GOLD_FILE)).annotator == "big-model"


def test_faults_of_the_endpoint_are_waited_out(endpoint, sample, tmp_path):
    endpoint.plan = [
        problem(429, "slow down", retry_after="1"),
        problem(500, "oops"),
        "I am sorry, I cannot",
        '{"entities": [{"name": "Ada", "type": "person"}], "relations": [',
        (200, "{not json", {}),
        1.5,
    ]
    one = annotator(endpoint.url, timeout_s=1.0, concurrency=1)
    found = annotated(sample(TEXTS), tmp_path / "gold.json", one)
    assert (found.chunks, found.failed) == (6, 0)
    asked = Counter(endpoint.texts)
    assert asked[TEXTS[0]] >= 3
    waits = [b - a for a, b, text in zip(endpoint.at[1:], endpoint.at[2:], endpoint.texts, strict=False)]
    assert waits[0] >= 1.0, "Retry-After"
    # Tokens of answers that could not be used were paid for too.
    assert found.costs[0].prompt_tokens == 100 * (6 + 2)
    assert [it.entities for it in load_gold(tmp_path / "gold.json").chunks]


def test_what_stays_broken_is_no_gold_and_is_asked_again(endpoint, sample, tmp_path):
    out, texts = tmp_path / "gold.json", sample(TEXTS)
    endpoint.answer = lambda text: "nonsense" if "3 times" in text else said(text)
    found = annotated(texts, out, annotator(endpoint.url))
    assert (found.chunks, found.failed) == (5, 1)
    assert len(found.reasons) == 1
    assert {it.chunk_id for it in load_gold(out).chunks} == {f"c{it}" for it in (0, 1, 2, 4, 5)}
    assert Counter(endpoint.texts)[TEXTS[3]] == 3
    endpoint.answer, endpoint.requests = said, []
    again = annotated(texts, out, annotator(endpoint.url))
    assert (again.chunks, again.failed) == (6, 0)
    assert endpoint.texts == [TEXTS[3]]
    assert [it.chunk_id for it in load_gold(out).chunks] == [f"c{it}" for it in range(6)]


def test_an_answer_that_is_cut_is_no_gold(endpoint, sample, tmp_path):
    cut = {"entities": [{"name": "Ada", "type": "person"}], "relations": []}
    choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": json.dumps(cut)}}
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    endpoint.plan = [(200, json.dumps(whole), {})]
    found = annotated(sample(TEXTS[:2]), tmp_path / "gold.json", annotator(endpoint.url, concurrency=1))
    assert (found.chunks, found.failed) == (1, 1)
    assert "length" in next(iter(found.reasons))
    assert len(endpoint.texts) == 2, "asking again would cut it again"


def test_a_finished_gold_costs_nothing_more(endpoint, sample, tmp_path):
    texts, out = sample(TEXTS), tmp_path / "gold.json"
    annotated(texts, out, annotator(endpoint.url))
    before, asked = out.read_bytes(), len(endpoint.requests)
    annotated(texts, out, annotator(endpoint.url), agree=lambda told: pytest.fail("there is nothing to pay for"))
    assert (out.read_bytes(), len(endpoint.requests)) == (before, asked)


def test_another_text_or_prompt_is_another_question(endpoint, sample, tmp_path):
    out = tmp_path / "gold.json"
    annotated(sample(TEXTS), out, annotator(endpoint.url))
    endpoint.requests = []
    annotated(sample([TEXTS[0], "Zoe came."]), out, annotator(endpoint.url))
    assert endpoint.texts == ["Zoe came."]
    assert [it.entities[-1].text for it in load_gold(out).chunks] == ["Eve", "Zoe"]


@pytest.mark.parametrize(
    ("refused", "left"),
    [
        (("response_format",), {"response_format": {"type": "json_object"}}),
        (("max_tokens",), {"max_completion_tokens": 256}),
        (("temperature", "seed", "max_tokens"), {"max_completion_tokens": 256}),
    ],
)
def test_what_an_endpoint_refuses_is_left_out(endpoint, sample, tmp_path, refused, left):
    endpoint.refuses = refused
    told = []
    found = annotated(sample(TEXTS), tmp_path / "gold.json", annotator(endpoint.url), say=told.append)
    assert found.failed == 0
    last = endpoint.requests[-1]
    assert not [it for it in refused if it in last and it != "response_format"]
    assert last | left == last
    assert any("refuses" in it for it in told)


def test_no_more_requests_at_once_than_allowed(endpoint, sample, tmp_path):
    endpoint.pause_s = 0.05
    annotated(sample(TEXTS * 3), tmp_path / "gold.json", annotator(endpoint.url, concurrency=3))
    assert endpoint.most_busy == 3


def test_the_key_comes_from_the_environment_and_stays_there(endpoint, sample, tmp_path, monkeypatch):
    monkeypatch.setenv("BIG_KEY", "sk-secret-0123")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-0123")
    endpoint.plan = [problem(401, "Incorrect API key provided: Bearer sk-secret-0123")]
    told = []
    with pytest.raises(WorkError) as caught:
        annotated(sample(TEXTS), tmp_path / "gold.json", annotator(endpoint.url, key="BIG_KEY"), say=told.append)
    annotated(sample(TEXTS), tmp_path / "gold.json", annotator(endpoint.url, key="BIG_KEY"), say=told.append)
    # A model behind a proxy may say what the proxy was told.
    endpoint.plan = ["You sent sk-secret-0123"] * 3
    with pytest.raises(WorkError, match="no chunk could be annotated") as said:
        annotated(sample(TEXTS[:1]), tmp_path / "said.json", annotator(endpoint.url, key="BIG_KEY"), say=told.append)
    assert set(endpoint.keys) == {"Bearer sk-secret-0123"}
    kept = "".join(it.read_text() for it in tmp_path.iterdir()) + "".join(told) + str(caught.value) + str(said.value)
    assert "sk-secret" not in kept
    # Whoever serves another endpoint must not be handed the key for OpenAI's.
    endpoint.keys = []
    annotated(sample(TEXTS), tmp_path / "other.json", annotator(endpoint.url))
    assert "Bearer sk-openai-0123" not in endpoint.keys


def test_the_cost_is_told_before_and_may_be_declined(endpoint, sample, tmp_path):
    told = []
    with pytest.raises(UserError, match="nothing was asked"):
        annotated(sample(TEXTS), tmp_path / "gold.json", annotator(endpoint.url), agree=told.append)
    assert endpoint.requests == []
    assert "$" in told[0]
    assert "6 answers" in told[0]
    assert "organization" in told[0], "the schema, which may be the default one"
    assert not (tmp_path / "gold.json").exists()


@pytest.mark.parametrize("price", [float("nan"), float("inf"), -1.0])
def test_a_price_that_is_none_is_refused(endpoint, price):
    with pytest.raises(UserError, match="cannot have a price of"):
        annotator(endpoint.url, prices=(price, None))


def test_without_someone_to_ask_nothing_is_spent(endpoint, sample, tmp_path):
    from typer.testing import CliRunner

    arguments = ["annotate", str(sample(TEXTS)), "-o", str(tmp_path / "g.json"), "--model", "m", "--endpoint"]
    refused = CliRunner().invoke(commands, [*arguments, endpoint.url])
    assert isinstance(refused.exception, UserError)
    assert endpoint.requests == []
    done = CliRunner().invoke(commands, [*arguments, endpoint.url, "--yes", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["chunks"]) == (0, 6)


def test_several_vote(sample, tmp_path):
    def only(*names):
        return lambda text: {"entities": [{"name": it, "type": "person"} for it in names], "relations": []}

    with serving(Scripted(answer=only("Ada", "Bob"))) as one, serving(Scripted(answer=only("Bob", "Eve"))) as two:
        three = annotator(two.url, "third")
        out = tmp_path / "gold.json"
        found = annotated(sample(TEXTS), out, annotator(one.url, "first"), annotator(two.url, "second"), three)
    assert found.failed == 0
    gold = load_gold(out)
    assert {it.text for it in gold.chunks[0].entities} == {"Bob", "Eve"}
    assert gold.annotator == "first + second + third"
    assert [it.model for it in found.costs] == ["first", "second", "third"]


def test_an_endpoint_that_is_gone_stops_the_work_and_keeps_what_is_there(sample, tmp_path):
    texts, out = sample(TEXTS * 4), tmp_path / "gold.json"
    with serving(Scripted(gone_after=9)) as here, pytest.raises(WorkError, match="gone"):
        annotated(texts, out, annotator(here.url, retries=0, concurrency=1))
    assert not out.exists()
    kept = (tmp_path / "gold.json.answers.jsonl").read_text().splitlines()
    assert len(kept) == 8
    with serving(Scripted()) as here:
        assert annotated(texts, out, annotator(here.url)).chunks == 24
        assert len(here.texts) == 24 - len(kept)


def test_a_kill_in_the_middle_loses_nothing_that_was_paid_for(sample, tmp_path):
    texts, out = sample([f"Ada {number} met Bob." for number in range(40)]), tmp_path / "gold.json"
    answers = tmp_path / "gold.json.answers.jsonl"
    with serving(Scripted(pause_s=0.05)) as here:
        command = [
            sys.executable,
            "-c",
            "from kgscale.cli import main; main()",
            "gold",
            "annotate",
            str(texts),
            "-o",
            str(out),
            "--yes",
        ]
        command += ["--model", "m", "--endpoint", here.url, "--concurrency", "2"]
        killed = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (not answers.exists() or answers.read_bytes().count(b"\n") < 8):
            time.sleep(0.01)
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        kept = answers.read_bytes().count(b"\n")
        assert 8 <= kept < 40
        assert not out.exists()
        with answers.open("ab") as file:
            file.write(b'{"chunk_id": "c39", "text_sha')  # what a torn write would leave
        before = len(here.texts)
        assert subprocess.run(command, stderr=subprocess.PIPE, check=False).returncode == 0
        assert len(here.texts) - before == 40 - kept
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    assert Counter(it["chunk_id"] for it in lines) == {f"c{number}": 1 for number in range(40)}
    assert [it.chunk_id for it in load_gold(out).chunks] == [f"c{number}" for number in range(40)]


def test_two_at_once_are_refused(endpoint, sample, tmp_path):
    from kgscale.gold.answers import open_answers

    with open_answers(tmp_path / "gold.json", print), pytest.raises(UserError, match="another process"):
        annotated(sample(TEXTS), tmp_path / "gold.json", annotator(endpoint.url))


def test_gold_that_was_not_made_here_is_not_written_over(endpoint, sample, tmp_path):
    (tmp_path / "gold.json").write_text('{"chunks": []}')
    with pytest.raises(UserError, match="written over"):
        annotated(sample(TEXTS), tmp_path / "gold.json", annotator(endpoint.url))

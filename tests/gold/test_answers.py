"""The file of answers: what was paid for is kept, and nothing else is taken for it."""

import json
import os
from dataclasses import replace

import pytest

from kgscale.errors import WorkError
from kgscale.gold.answers import Answer, open_answers
from kgscale.records import Status
from tests.gold.test_annotate import TEXTS, annotated, annotator


@pytest.mark.parametrize(
    "damage", ['"text_sha256": {}', '"entities": 7', '"entities": [["Ada"]]', '"prompt_tokens": {}', '"status": "fine"']
)
def test_a_line_that_is_no_answer_is_asked_again(endpoint, sample, tmp_path, damage):
    out = tmp_path / "gold.json"
    annotated(sample(TEXTS), out, annotator(endpoint.url))
    first, *others = (tmp_path / "gold.json.answers.jsonl").read_text().splitlines()
    broken = json.dumps(json.loads(first) | json.loads(f"{{{damage}}}"))
    (tmp_path / "gold.json.answers.jsonl").write_text("\n".join([broken, "7", *others, ""]))
    endpoint.requests, told = [], []
    assert annotated(sample(TEXTS), out, annotator(endpoint.url), say=told.append).chunks == 6
    assert len(endpoint.texts) == 1
    assert sum("is no answer, and is asked for again" in it for it in told) == 2


def test_a_full_disk_leaves_no_half_answer(tmp_path, monkeypatch):
    one = Answer("c", "0", "m", "p", Status.OK)
    write = os.write
    with open_answers(tmp_path / "gold.json", print) as answers:
        answers.add(one)
        monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))
        with pytest.raises(WorkError, match="the disk is full"):
            answers.add(replace(one, chunk_id="d"))
        monkeypatch.undo()
        answers.add(replace(one, chunk_id="e"))
    with open_answers(tmp_path / "gold.json", pytest.fail) as answers:
        assert [it.chunk_id for it in answers.all] == ["c", "e"]

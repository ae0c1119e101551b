import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.errors import UserError
from kgscale.formats.common import join_tokens
from kgscale.formats.crossre import read_crossre
from kgscale.records import GoldEntity, Relation

LINE = {
    "doc_key": "ai-dev-1",
    "sentence": ["accuracy", "is", "measured", "by", "error", "rate", "."],
    "ner": [[0, 0, "metrics"], [4, 5, "metrics"]],
    "relations": [[4, 5, 0, 0, "part-of", "", True, False]],
}


def read(path, *lines):
    path.write_text("".join((it if isinstance(it, str) else json.dumps(it)) + "\n" for it in lines))
    result = read_crossre(path)
    return list(result.records), result.report


def test_a_sentence_with_its_offsets(tmp_path):
    (record,), report = read(tmp_path / "dev.json", LINE)
    assert record.text == "accuracy is measured by error rate ."
    assert record.doc_id == record.gold.chunk_id == "ai-dev-1"
    assert record.gold.entities == [
        GoldEntity("accuracy", "metrics", 0, 8),
        GoldEntity("error rate", "metrics", 24, 34),
    ]
    assert record.gold.relations == [Relation("error rate", "accuracy", "part-of")]
    assert (report.chunks, report.mentions, report.relations, report.skipped) == (1, 2, 1, 0)


def test_chinese_takes_its_own_text_where_there_is_one(tmp_path):
    line = {
        "doc_key": "zh",
        "sentence": ["这里", "，", "准确", "性"],
        "ner": [[2, 3, "metrics"]],
        "sentence-detokenized": "这里， 准确性",
        "token2charspan": [[0, 2], [2, 3], [4, 6], [6, 7]],
    }
    (record,), _ = read(tmp_path / "dev.json", line)
    assert (record.text, record.gold.entities) == ("这里， 准确性", [GoldEntity("准确性", "metrics", 4, 7)])
    (record,), _ = read(tmp_path / "dev.json", {**line, "token2charspan": [[0, 99]]})
    assert (record.text, record.gold.entities) == ("这里，准确性", [GoldEntity("准确性", "metrics", 3, 6)])


def test_what_does_not_fit_is_skipped_counted_and_named(tmp_path):
    path = tmp_path / "dev.json"
    bad = {
        **LINE,
        "doc_key": "b",
        "ner": [[0, 0, "m"], [6, 7, "m"], [2, 1, "m"], ["0", 0, "m"], 5],
        "relations": [[0, 0, 0, 0, "r"], [0, 0, 1, 1, "r"], []],
    }
    records, report = read(path, LINE, bad, "{", {"doc_key": "c"}, {**LINE, "doc_key": None}, [1], {**LINE, "ner": 3})
    assert [it.gold.chunk_id for it in records] == ["ai-dev-1", "b"]
    assert (len(records[1].gold.entities), len(records[1].gold.relations)) == (1, 1)
    assert report.skipped == sum(report.problems.counts.values()) == 6 + 5
    assert any(str(it).startswith(f"{path}:3: skipped a sentence: broken JSON") for it in report.problems.first)


def test_keys_that_stand_twice_are_refused(tmp_path):
    with pytest.raises(UserError, match="'ai-dev-1' stands twice"):
        read(tmp_path / "dev.json", LINE, LINE)


@given(st.lists(st.text()))
def test_joined_tokens_stand_where_the_offsets_say(tokens):
    text, spans = join_tokens(tokens)
    assert [text[start:end] for start, end in spans] == tokens


@pytest.mark.parametrize(
    "name",
    ["crossre/ai-dev.json", "crossre/politics-dev.json", "crossre/science-dev.json", "crossre_zh_silver/ai-dev.json"],
)
def test_the_published_sets_are_read_whole(data, name):
    path = data(name)
    raw = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    result = read_crossre(path)
    records = list(result.records)
    report = result.report
    assert report.chunks == len(raw)
    assert report.mentions == sum(len(it["ner"]) for it in raw)
    assert report.relations == sum(len(it["relations"]) for it in raw)
    assert report.relation_types == {relation[4] for it in raw for relation in it["relations"]}
    assert report.skipped == len(report.problems.first) == 0
    for record, sentence in zip(records, raw, strict=True):
        for entity, (first, last, kind) in zip(record.gold.entities, sentence["ner"], strict=True):
            assert record.text[entity.start : entity.end] == entity.text
            assert entity.text.replace(" ", "") == "".join(sentence["sentence"][first : last + 1]).replace(" ", "")
            assert entity.type == kind

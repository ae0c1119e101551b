"""Samples: repeatable, never twice the same chunk, in proportion, or where methods disagree."""

import json
import random
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.config import CorpusConfig
from kgscale.errors import UserError
from kgscale.gold.pool import Pool
from kgscale.gold.sample import BANDS, By, _stratified, write_sample
from kgscale.records import EXTRACTION_SCHEMA, Entity, Extraction, Relation, Status, to_table
from kgscale.runs import Shard
from tests.making import make_run

FOX = "The quick brown fox number {} jumps over the lazy dog in the old town."
ZH = "第{}号公司由张伟在北京创立，后来迁到了上海，现在是中国最大的软件企业之一，有一千多名员工。"


def drawn(src, out, size=10, by=By.RANDOM, seed=0, exclude=(), say=lambda _: None):
    write_sample(str(src), out, size, by, seed, list(exclude), say)
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    rows = [
        {"chunk_id": f"c{at}", "doc_id": f"d{at // 4}", "text": (ZH if at % 4 == 3 else FOX).format(at)}
        for at in range(60)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("by", [By.RANDOM, By.STRATIFIED])
def test_the_same_seed_draws_the_same_and_another_one_others(corpus, tmp_path, by):
    first, again, other = (
        [it["chunk_id"] for it in drawn(corpus, tmp_path / f"{at}.jsonl", by=by, seed=seed)]
        for at, seed in enumerate((7, 7, 8))
    )
    assert first == again
    assert first != other
    assert len(set(first)) == 10


def test_a_sample_is_a_corpus_with_the_chunks_as_they_were(corpus, tmp_path):
    rows = drawn(corpus, tmp_path / "s.jsonl")
    chunks = list(Pool(CorpusConfig(path=str(tmp_path / "s.jsonl"))).chunks())
    everything = {it.chunk_id: it for it in Pool(CorpusConfig(path=str(corpus))).chunks()}
    assert [it.chunk_id for it in chunks] == [row["chunk_id"] for row in rows]
    assert all((it.text, it.doc_id) == (everything[it.chunk_id].text, everything[it.chunk_id].doc_id) for it in chunks)


def test_successive_samples_share_no_chunk_until_nothing_is_left(corpus, tmp_path):
    before, seen, said = [], [], []
    for at in range(6):
        out = tmp_path / f"s{at}.jsonl"
        seen += [it["chunk_id"] for it in drawn(corpus, out, exclude=before)]
        before.append(out)
    assert len(set(seen)) == 60
    with pytest.raises(UserError, match="no chunk is left"):
        drawn(corpus, tmp_path / "more.jsonl", exclude=before)
    gold = {"chunks": [{"chunk_id": "c1", "entities": []}, {"chunk_id": "c2", "entities": []}]}
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    left = drawn(corpus, tmp_path / "left.jsonl", 99, exclude=[tmp_path / "gold.json"], say=said.append)
    assert {f"c{at}" for at in range(60)} - {it["chunk_id"] for it in left} == {"c1", "c2"}
    assert any("58" in it and "99" in it for it in said)


def test_equal_and_blank_texts_are_left_out_and_told(tmp_path):
    texts = ["Ada was here.", "Ada  was here.\n", "Bob was not.", "   ", "Eve left."]
    rows = [{"chunk_id": f"c{at}", "text": text} for at, text in enumerate(texts)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "old.jsonl").write_text(json.dumps({"chunk_id": "x9", "text": "Eve left."}) + "\n")
    said = []
    found = drawn(tmp_path / "c.jsonl", tmp_path / "s.jsonl", exclude=[tmp_path / "old.jsonl"], say=said.append)
    assert sorted(it["chunk_id"] for it in found) == ["c0", "c2"]
    assert any("1 chunks with the text of one drawn before" in it and "1 chunks without text" in it for it in said)
    assert any("none of its 1 chunk ids" in it for it in said)


def test_languages_come_by_their_share(corpus, tmp_path):
    rows = drawn(corpus, tmp_path / "s.jsonl", 20, By.STRATIFIED)
    assert Counter(it["sampled"]["language"] for it in rows) == {"en": 15, "zh": 5}


CHUNK = st.tuples(
    st.sampled_from(["en", "de", "zh"]), st.sampled_from(["a", "b", None]), st.sampled_from("xyz"), st.integers(1, 300)
)


@settings(max_examples=40)
@given(st.lists(CHUNK, min_size=1, max_size=80), st.data())
def test_every_stretch_of_strata_gets_its_share_rounded_down_or_up(chunks, data):
    size = data.draw(st.integers(1, len(chunks)))
    frame = pl.DataFrame(
        [(row, f"c{row}", *it) for row, it in enumerate(chunks)],
        schema={"row": pl.Int64, "chunk_id": pl.String, "language": pl.String, "source": pl.String}
        | {"doc_id": pl.String, "words": pl.Int32},
        orient="row",
    )
    taken = _stratified(frame, size, random.Random(data.draw(st.integers(0, 99))))
    assert taken["row"].n_unique() == taken.height == size
    banded = frame.with_columns(band=(pl.col("words").rank("ordinal") - 1) * BANDS // pl.len())
    for strata in (["language"], ["language", "band"], ["language", "band", "source"]):
        share = banded.group_by(strata).agg(pl.len().alias("all"))
        found = taken.group_by(strata).agg(pl.len().alias("taken"))
        both = share.join(found, on=strata, how="left", nulls_equal=True).with_columns(pl.col("taken").fill_null(0))
        for it in both.iter_rows(named=True):
            assert abs(it["taken"] - it["all"] * size / len(chunks)) < 1


def extraction(chunk, method, names=(), relations=(), status=Status.OK):
    return Extraction(
        chunk.chunk_id,
        chunk.row,
        chunk.doc_id,
        method,
        status,
        entities=[Entity(it, "person") for it in names],
        relations=[Relation(a, b, "partner_of") for a, b in relations],
    )


def test_an_informative_sample_is_where_methods_disagree_most(tmp_path):
    run = make_run(tmp_path / "run", [FOX.format(at) for at in range(8)], shard=8)
    chunks = run.read_chunks(0, 8)
    says = {
        "llm": [["Ada"], ["Ada", "Bob"], ["Ada"], [], ["Ada"], ["Ada", "Bob", "Eve"], ["Ada"], ["Ada"]],
        "hybrid": [["Ada"], ["Ada", "Eve"], ["ada "], [], ["Bob"], ["Zoe", "Sue", "Kim"], ["Ada"], ["Ada"]],
        "gliner": [["Ada"], ["Ada", "Bob"], ["Ada"], [], ["Ada"], ["Ada", "Bob", "Eve"], ["Ada"], ["Ada"]],
    }
    for method, names in says.items():
        rows = [extraction(*it) for it in zip(chunks, [method] * 8, names, strict=True)]
        if method == "llm":
            # The order of a symmetric relation's ends is no disagreement, its absence is; gliner looks for none.
            rows[6] = extraction(chunks[6], method, ["Ada"], [("Ada", "Bob")])
            rows[7] = extraction(chunks[7], method, ["Ada"], [("Ada", "Bob")])
        if method == "hybrid":
            rows[6] = extraction(chunks[6], method, ["Ada"], [("Bob", "Ada")])
            rows[3] = extraction(chunks[3], method, status=Status.FAILED)
        run.write(Shard(method, 0, 8), to_table(rows, EXTRACTION_SCHEMA))
    said = []
    found = drawn(run.store.uri, tmp_path / "s.jsonl", 4, By.INFORMATIVE, say=said.append)
    f1 = {"c5": (0 + 0 + 1) / 3, "c4": (0 + 0 + 1) / 3, "c1": (1 / 2 + 1 / 2 + 1) / 3, "c7": (2 / 3 + 1 + 1) / 3}
    assert [it["chunk_id"] for it in found] == list(f1)
    assert [it["sampled"]["f1"] for it in found] == pytest.approx(list(f1.values()))
    assert any("1 chunks that not every method" in it for it in said)


def test_an_informative_sample_needs_two_methods(tmp_path, corpus):
    run = make_run(tmp_path / "run", 4)
    for src in (corpus, run.store.uri):
        with pytest.raises(UserError):
            drawn(src, tmp_path / "s.jsonl", by=By.INFORMATIVE)
    assert not (tmp_path / "s.jsonl").exists()


def test_a_sample_is_not_written_over(corpus, tmp_path):
    drawn(corpus, tmp_path / "s.jsonl")
    with pytest.raises(UserError, match="written over"):
        drawn(corpus, tmp_path / "s.jsonl", seed=1)

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgscale.config import CorpusConfig
from kgscale.corpus import prepare_corpus
from kgscale.errors import UserError
from kgscale.formats import READERS, convert, load_gold, prepare_gold
from kgscale.store import Store


def test_a_converted_set_is_a_corpus_with_gold(data, tmp_path):
    report = convert(data("crossre/ai-dev.json"), tmp_path / "out", "crossre")
    store = Store(tmp_path / "run")
    summary = prepare_corpus(CorpusConfig(path=str(tmp_path / "out/corpus.jsonl")), store, say=lambda _: None)
    gold = prepare_gold(tmp_path / "out/gold.json", store)
    assert summary.chunks == report.chunks == gold.chunks
    assert (gold.mentions, gold.relations) == (report.mentions, report.relations)
    assert not gold.problems.first
    assert not summary.notices


def test_files_are_not_written_over_unasked(tmp_path):
    source = tmp_path / "gold.conll"
    source.write_text("A\tB-X\n")
    convert(source, tmp_path / "out", "conll")
    with pytest.raises(UserError, match=r"corpus.jsonl and .*gold.json would be written over"):
        convert(source, tmp_path / "out", "conll")
    convert(source, tmp_path / "out", "conll", overwrite=True)
    assert json.loads((tmp_path / "out/corpus.jsonl").read_text()) == {
        "chunk_id": "gold-1",
        "doc_id": "gold-1",
        "text": "A",
    }
    assert len(load_gold(tmp_path / "out/gold.json").chunks) == 1


def test_a_source_that_cannot_be_read_leaves_nothing(tmp_path):
    source = tmp_path / "gold.conll"
    source.write_bytes(b"A\tB-X\n\nB\tO\n\n\xff")
    with pytest.raises(UserError, match="is not UTF-8"):
        convert(source, tmp_path / "out", "conll")
    source.write_text("\n")
    with pytest.raises(UserError, match="there is nothing to convert"):
        convert(source, tmp_path / "out", "conll")
    assert not list((tmp_path / "out").iterdir())


def test_an_unknown_format_is_named(tmp_path):
    with pytest.raises(UserError, match="unknown format 'spert'"):
        convert(tmp_path, tmp_path / "out", "spert")


SCRAPS = st.sampled_from(
    [
        *'{}[]",:;\\\n\t *#Oé\ufeff',
        *("0", "-1", "1e999", "null", "NaN", "true", "\\ud83d", "0 1", "T1", "R1", "Arg1:T1 Arg2:T1", "B-X"),
        *("chunks", "chunk_id", "text", "type", "entities", "relations", "start", "end", "doc_key", "sentence", "ner"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["chunk_id", "text", "type", "entities", "relations", "start", "end", "source", "target", "aliases"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
FUZZ = (
    st.binary(max_size=120)
    | st.lists(SCRAPS, max_size=40).map(lambda it: "".join(it).encode())
    | VALUES.map(lambda it: json.dumps({"chunks": it}).encode())
    | st.lists(VALUES, max_size=3).map(lambda it: json.dumps(it).encode())
    | st.fixed_dictionaries({"doc_key": VALUES, "sentence": VALUES, "ner": VALUES, "relations": VALUES}).map(
        lambda it: json.dumps(it).encode()
    )
)


@settings(max_examples=600, deadline=None)
@given(fmt=st.sampled_from(sorted(READERS)), content=FUZZ, annotation=FUZZ)
def test_any_file_is_read_or_refused(tmp_path_factory, fmt, content, annotation):
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "a.txt"
    path.write_bytes(content)
    (folder / "a.ann").write_bytes(annotation)
    try:
        report = convert(path, folder / "out", fmt)
    except UserError as error:
        str(error).encode()
        return
    "".join(map(str, report.problems.first)).encode()
    store = Store(folder / "run")
    prepare_corpus(CorpusConfig(path=str(folder / "out/corpus.jsonl")), store, say=lambda _: None)
    assert not prepare_gold(folder / "out/gold.json", store).problems.first


@settings(max_examples=200, deadline=None)
@given(suffix=st.sampled_from(["json", "parquet"]), content=FUZZ)
def test_any_gold_is_read_or_refused(tmp_path_factory, suffix, content):
    path = tmp_path_factory.mktemp("fuzz") / f"gold.{suffix}"
    path.write_bytes(content)
    with contextlib.suppress(UserError):
        assert load_gold(path).chunks

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgscale.errors import UserError
from kgscale.formats import load_gold, prepare_gold, write_gold
from kgscale.formats.common import BAD_OFFSETS
from kgscale.formats.gold import NOT_IN_CORPUS, OTHER_TEXT
from kgscale.records import GOLD_SCHEMA, Chunk, GoldChunk, GoldEntity, Origin, Relation
from kgscale.runs import GOLD_FILE, write_chunks
from kgscale.store import Store

GOLD = [
    GoldChunk(
        "c1", [GoldEntity("One", "number", 0, 3, ["1"])], [Relation("One", "One", "same")], Origin.REVIEWED, "One."
    ),
    GoldChunk("c2", [], [], Origin.PSEUDO),
]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "run")


def test_gold_in_parquet_is_read_back(store):
    write_gold(store, GOLD)
    gold = load_gold(store.path(GOLD_FILE))
    assert gold.chunks == GOLD
    assert (gold.report.chunks, gold.report.mentions, gold.report.relations) == (2, 1, 1)


def test_the_model_that_made_the_gold_comes_along(store, tmp_path):
    write_chunks(store, [Chunk("c1", "d", 0, "One.", 1)], 1)
    write_gold(Store(tmp_path / "elsewhere"), GOLD, "Qwen3-32B")
    prepare_gold(tmp_path / "elsewhere" / GOLD_FILE, store)
    assert load_gold(store.path(GOLD_FILE)).annotator == "Qwen3-32B"
    write_gold(store, GOLD)
    assert load_gold(store.path(GOLD_FILE)).annotator is None


def test_gold_is_checked_against_the_corpus(store, tmp_path):
    write_chunks(store, [Chunk(f"c{i}", "d", i, text, 2) for i, text in enumerate(["One two.", "Other text", "x"])], 2)
    path = tmp_path / "gold.json"
    chunks = [
        {"chunk_id": "c0", "entities": [{"text": "two", "type": "n", "start": 4, "end": 7}]},
        {"chunk_id": "c1", "text": "One two.", "entities": [{"text": "two", "type": "n", "start": 4, "end": 7}]},
        {"chunk_id": "c9", "entities": [{"text": "nine", "type": "n", "start": 0, "end": 4}]},
    ]
    path.write_text(json.dumps(chunks))
    report = prepare_gold(path, store)
    assert dict(report.problems.counts) == {OTHER_TEXT: 1, BAD_OFFSETS: 1, NOT_IN_CORPUS: 1}
    kept = load_gold(store.path(GOLD_FILE)).chunks
    assert [(it.chunk_id, it.entities[0].start) for it in kept] == [("c0", 4), ("c1", None), ("c9", 0)]


def write(path, rows, schema=GOLD_SCHEMA):
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


ROW = {"chunk_id": "c1", "entities": [], "relations": [], "origin": "manual", "text": None}


@pytest.mark.parametrize(
    ("rows", "schema", "problem"),
    [
        ([ROW, ROW], GOLD_SCHEMA, "'c1' stands twice"),
        ([{**ROW, "origin": "guess"}], GOLD_SCHEMA, "record 1: does not fit kgscale's form of gold"),
        ([], GOLD_SCHEMA, "no chunk with gold"),
        ([{"chunk_id": "c1"}], pa.schema([("chunk_id", pa.string())]), "has no column entities, relations"),
        (
            [{"chunk_id": 1, "entities": [], "relations": []}],
            pa.schema(
                [("chunk_id", pa.int64()), ("entities", pa.list_(pa.int64())), ("relations", pa.list_(pa.int64()))]
            ),
            "cannot be read as gold",
        ),
        (
            [{"chunk_id": None, "entities": None, "relations": [{"source": None}]}],
            pa.schema(
                [
                    ("chunk_id", pa.string()),
                    ("entities", pa.list_(pa.int64())),
                    ("relations", pa.list_(pa.struct([("source", pa.string())]))),
                ]
            ),
            "does not fit kgscale's form of gold",
        ),
    ],
)
def test_other_parquet_is_refused(tmp_path, rows, schema, problem):
    with pytest.raises(UserError, match=problem):
        load_gold(write(tmp_path / "gold.parquet", rows, schema))


def test_a_missing_or_damaged_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="there is no gold file"):
        load_gold(tmp_path / "gold.json")
    path = write(tmp_path / "gold.parquet", [ROW])
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(UserError, match="cannot be read as gold"):
        load_gold(path)

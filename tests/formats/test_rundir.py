"""What another tool extracted, as a method of a run that `score`, `verify` and `compare` know like any other."""

import json

import pytest

from kgscale import cli
from kgscale.config import Config, CorpusConfig
from kgscale.errors import UserError
from kgscale.extract.opening import open_run, resolve
from kgscale.formats import convert_files
from kgscale.runs import Run, Shard
from kgscale.verify import verify

TEXTS = {"c1": "Ada Lovelace met Charles Babbage in London.", "c2": "Nothing is here.", "c3": "Ada Lovelace died."}


def say(_):
    pass


def write_lightrag(folder, answers):
    folder.mkdir()
    chunks = {key: {"content": text, "full_doc_id": f"doc-{key}"} for key, text in TEXTS.items()}
    (folder / "kv_store_text_chunks.json").write_text(json.dumps(chunks))
    cache = {
        f"default:extract:{key}": {"return": said, "cache_type": "extract", "chunk_id": key}
        for key, said in answers.items()
    }
    (folder / "kv_store_llm_response_cache.json").write_text(json.dumps(cache))
    return folder


@pytest.fixture
def index(tmp_path):
    said = (
        "entity<|#|>Ada Lovelace<|#|>Person<|#|>d\nentity<|#|>London<|#|>Place<|#|>d\n"
        "relation<|#|>Ada Lovelace<|#|>London<|#|>k<|#|>d\n<|COMPLETE|>"
    )
    return write_lightrag(tmp_path / "index", {"c1": said, "c2": "<|COMPLETE|>"})


@pytest.fixture
def gold(tmp_path):
    path = tmp_path / "gold.json"
    chunks = [
        {
            "chunk_id": "c1",
            "entities": [{"text": "Ada Lovelace", "type": "Person"}, {"text": "Charles Babbage", "type": "Person"}],
            "relations": [{"source": "London", "target": "Ada Lovelace", "type": "place_of"}],
        },
        {"chunk_id": "c3", "entities": [{"text": "Ada Lovelace", "type": "Person"}], "relations": []},
    ]
    path.write_text(json.dumps({"chunks": chunks}))
    return path


def scores(path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["score", str(path), "--json"])
    assert not stop.value.code
    return json.loads(capsys.readouterr().out)


def test_an_index_is_scored_without_a_model(index, gold, tmp_path, capsys):
    path = tmp_path / "run"
    report = convert_files(index, path, None, "run", gold=gold, say=say)
    assert (report.chunks, report.relations) == (3, 1)
    run = Run(path)
    assert verify(run).passed
    (method,) = scores(path, capsys)["methods"]
    found = {it["mode"]: (it["tp"], it["fp"], it["fn"]) for it in method["metrics"]}
    # The chunk without an answer has failed and is missed; relations have no type, so no typed mode is scored.
    assert found == {
        "name": (1, 1, 2),
        "name+type": (1, 1, 2),
        "pair": (0, 1, 1),
        "pair_undirected": (1, 0, 0),
    }
    assert method["statuses"] == {"ok": 2, "truncated": 0, "failed": 1, "dead": 0}


def test_a_second_method_is_added_to_the_same_chunks(index, tmp_path):
    path = tmp_path / "run"
    convert_files(index, path, "lightrag", "run", say=say)
    other = tmp_path / "other.json"
    chunks = [
        {
            "chunk_id": "c3",
            "text": TEXTS["c3"],
            "entities": [{"text": "Ada Lovelace", "type": "p", "start": 0, "end": 12}],
        },
        {"chunk_id": "c9", "text": "elsewhere"},
        {
            "chunk_id": "c1",
            "text": "Once " + TEXTS["c1"],
            "entities": [{"text": "London", "type": "l", "start": 41, "end": 47}],
        },
    ]
    other.write_text(json.dumps({"chunks": chunks}))
    report = convert_files(other, path, "guide", "run", method="people", say=say)
    run = Run(path)
    assert run.methods == ["lightrag", "people"]
    assert verify(run).passed
    rows = {row.chunk_id: row for span in run.planned for row in run.read_rows(Shard("people", *span))}
    assert [rows[it].status for it in ("c1", "c2", "c3")] == ["ok", "failed", "ok"]
    assert [(it.text, it.start) for it in rows["c1"].entities] == [("London", 36)]
    assert report.problems.counts["left out a chunk that the run does not have"] == 1
    strange = tmp_path / "strange.json"
    strange.write_text(json.dumps({"chunks": [{"chunk_id": "x", "text": "elsewhere"}]}))
    with pytest.raises(UserError, match="none of the source's chunk ids is in the run"):
        convert_files(strange, path, "guide", "run", method="strange", say=say)
    assert Run(path).methods == ["lightrag", "people"]
    with pytest.raises(UserError, match="has a method 'people' already"):
        convert_files(index, path, "lightrag", "run", method="people", say=say)


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        ({"c1": "other"}, "was extracted from another text than the run's chunk has"),
        ({"c1": None, "c9": "elsewhere"}, "left out a chunk that the run does not have"),
        ({"c1": None}, "the source lacks a chunk, whose row has failed"),
    ],
)
def test_strict_leaves_a_run_as_it_was_where_the_chunks_are_others(index, tmp_path, chunks, problem):
    path = tmp_path / "run"
    convert_files(index, path, "lightrag", "run", say=say)
    other = tmp_path / "other.json"
    items = [{"chunk_id": key, "text": text or TEXTS[key]} for key, text in chunks.items()]
    other.write_text(json.dumps({"chunks": items}))
    with pytest.raises(UserError, match=problem):
        convert_files(other, path, "guide", "run", method="people", strict=True, say=say)
    assert Run(path).methods == ["lightrag"]
    assert not (path / "extractions" / "people").exists()


def test_a_run_that_was_interrupted_is_finished(index, tmp_path):
    path = tmp_path / "run"
    convert_files(index, path, "lightrag", "run", say=say)
    (shard,) = (path / "extractions/lightrag").iterdir()
    before = shard.read_bytes()
    shard.unlink()
    convert_files(index, path, "lightrag", "run", say=say)
    assert shard.read_bytes() == before


def test_nothing_is_left_of_an_import_that_fails(index, tmp_path):
    cache = index / "kv_store_llm_response_cache.json"
    cache.write_text(cache.read_text()[:-40])
    with pytest.raises(UserError, match="not everything fits"):
        convert_files(index, tmp_path / "run", None, "run", strict=True, say=say)
    with pytest.raises(UserError, match="there is no gold file"):
        convert_files(index, tmp_path / "run", None, "run", gold=tmp_path / "none.json", say=say)
    assert sorted(it.name for it in tmp_path.iterdir()) == ["index"]


def test_a_chunk_without_an_answer_is_no_gold(index, tmp_path):
    report = convert_files(index, tmp_path / "out", None, "guide", say=say)
    assert report.chunks == 3
    gold = json.loads((tmp_path / "out/gold.json").read_text())["chunks"]
    assert [(it["chunk_id"], it["origin"]) for it in gold] == [("c1", "pseudo"), ("c2", "pseudo")]
    assert len((tmp_path / "out/corpus.jsonl").read_text().splitlines()) == 3
    assert convert_files(tmp_path / "out", tmp_path / "back", None, "guide", say=say).chunks == 2


def test_a_name_that_is_no_folder_is_refused(index, tmp_path):
    with pytest.raises(UserError, match="it names a directory"):
        convert_files(index, tmp_path / "run", None, "run", method="../up", say=say)


def test_a_method_goes_out_again(index, tmp_path):
    path = tmp_path / "run"
    convert_files(index, path, None, "run", say=say)
    convert_files(path, tmp_path / "predictions.json", None, "predictions", say=say)
    chunks = json.loads((tmp_path / "predictions.json").read_text())["chunks"]
    assert [(it["chunk_id"], it["status"], len(it["entities"])) for it in chunks] == [
        ("c1", "ok", 2),
        ("c2", "ok", 0),
        ("c3", "failed", 0),
    ]
    convert_files(index, path, None, "run", method="again", say=say)
    with pytest.raises(UserError, match="has several methods"):
        convert_files(path, tmp_path / "out", None, "brat", say=say)
    assert convert_files(path / "extractions/again", tmp_path / "out", None, "brat", say=say).chunks == 3


def test_the_command_says_what_it_read(index, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["convert", str(index), str(tmp_path / "out"), "--json"])
    assert not stop.value.code
    out, err = capsys.readouterr()
    assert json.loads(out) == {"chunks": 3, "entities": 2, "mentions": 2, "relations": 1, "skipped": 0}
    assert "as lightrag" in err


def test_own_methods_can_be_added_to_an_imported_run(index, tmp_path):
    path = tmp_path / "run"
    convert_files(index, path, None, "run", say=say)
    config = Config.model_validate(
        {
            "run": str(path),
            "corpus": {"path": str(path / "corpus.jsonl")},
            "engines": {"api": {"kind": "openai", "model": "m"}},
            "methods": {"api": {"entities": "api", "relations": "api"}},
        }
    )
    run = open_run(resolve(config), say)
    assert run.methods == ["lightrag", "api"]
    assert (len(run.remaining("lightrag")), len(run.remaining("api"))) == (0, 1)
    (index / "other.jsonl").write_text('{"text": "something else"}\n')
    changed = config.model_copy(update={"corpus": CorpusConfig(path=str(index / "other.jsonl"))})
    with pytest.raises(UserError, match="made from something else"):
        open_run(resolve(changed), say)

"""Gold that does not list everything, from its file to the words of a verdict."""

import json

import pytest

from kgscale.extract.opening import take_gold
from kgscale.formats import load_gold
from kgscale.formats.guide import read_guide, write_guide_gold
from kgscale.records import EXTRACTION_SCHEMA, to_table
from kgscale.report.terminal import notes
from kgscale.runs import GOLD_FILE
from kgscale.score.compare import compare_run
from kgscale.score.scorer import score_run
from kgscale.score.verdict import Kind
from tests.making import make_run, rows_of


def gold_file(path, *exhaustive):
    chunks = [
        {
            "chunk_id": f"c{at}",
            "text": f"Chunk {at} is about Ada.",
            "origin": "pseudo",
            "annotator": "m",
            "prompt": "0f",
        }
        | {"ground_truth_entities": [{"text": "Ada", "type": "person"}], "ground_truth_relations": []}
        | ({} if whole else {"exhaustive": False})
        for at, whole in enumerate(exhaustive)
    ]
    path.write_text(json.dumps({"chunks": chunks}))
    return path


def scored(tmp_path, gold, **config):
    run = make_run(tmp_path / "run", 4, gold=str(gold), **config)
    take_gold(run, run.config, lambda _: None)
    for method in ("llm", "hybrid"):
        for shard in run.remaining(method):
            run.write(shard, to_table(rows_of(run, shard), EXTRACTION_SCHEMA))
    return run, score_run(run)


@pytest.mark.parametrize(
    ("flags", "config", "partial"), [((1, 0, 0), {}, 2), ((1, 1, 1), {"gold_exhaustive": False}, 3)]
)
def test_partial_gold_is_told_beside_the_scores(tmp_path, flags, config, partial):
    run, scores = scored(tmp_path, gold_file(tmp_path / "gold.json", *flags), **config)
    assert scores.gold is not None
    assert scores.gold.partial == partial
    assert any("lower bound" in it for it in notes(scores))
    assert Kind.PARTIAL_GOLD in [it.kind for it in compare_run(run, run.config.compare).reasons]
    # The run's own gold file can be gold again, and still says so.
    assert load_gold(run.store.path(GOLD_FILE)).partial == partial


def test_exhaustive_gold_says_nothing(tmp_path):
    run, scores = scored(tmp_path, gold_file(tmp_path / "gold.json", 1, 1))
    assert scores.gold is not None
    assert scores.gold.partial == 0
    assert not any("lower bound" in it for it in notes(scores))
    assert Kind.PARTIAL_GOLD not in [it.kind for it in compare_run(run, run.config.compare).reasons]


def test_the_guides_json_keeps_where_gold_comes_from(tmp_path):
    path = gold_file(tmp_path / "gold.json", 1, 0)
    write_guide_gold(tmp_path / "again.json", read_guide(path).records)
    assert load_gold(tmp_path / "again.json").chunks == load_gold(path).chunks
    assert [it.exhaustive for it in load_gold(path).chunks] == [True, False]

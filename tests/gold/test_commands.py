"""The commands of `kgscale gold`, one after the other, as the page about gold sets shows them."""

import json

import pytest
from typer.testing import CliRunner

from kgscale.cli.gold import gold as commands
from kgscale.errors import UserError
from tests.making import make_run

TEXTS = [
    "Ada Lovelace met Charles Babbage in London and wrote about his engine in her famous notes.",
    "The navy hired Grace Hopper, who built a compiler and found a moth in a relay of the machine.",
    "Nothing of interest happened on this day in the small village by the sea, or so they say.",
]


def ran(*arguments, code=0):
    done = CliRunner().invoke(commands, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout


def test_from_a_run_to_gold_that_is_checked(endpoint, tmp_path):
    run = make_run(tmp_path / "run", TEXTS).store.uri
    sample, pseudo, other = (tmp_path / name for name in ("sample.jsonl", "pseudo.json", "other.json"))
    told = json.loads(ran("sample", run, "-n", 3, "--by", "stratified", "-o", sample, "--json"))
    assert (told["chunks"], told["languages"]) == (3, {"en": 3})
    model = ["--model", "m", "--endpoint", endpoint.url, "--yes", "--config", run]
    assert "3 chunks" in ran("annotate", sample, "-o", pseudo, *model)
    assert "review.html: 3 chunks" in ran("review", pseudo, "--config", run, "-o", tmp_path / "review.html").replace(
        "\n", ""
    )
    endpoint.answer = lambda text: {"entities": [], "relations": []}
    ran("annotate", sample, "-o", other, *model)
    agreed = json.loads(ran("agreement", pseudo, other, "--json"))
    assert {it["f1"] for it in agreed["modes"]} == {0.0}
    assert "Cohen's kappa" in ran("agreement", pseudo, pseudo)
    checked = json.loads(ran("check", pseudo, "--config", run, "--against", sample, "--json"))
    assert {it["kind"] for it in checked["findings"]} >= {"seen by a model", "pseudo"}
    assert "seen by a model: 3" in ran("check", pseudo, "--config", run, "--against", sample, "--strict", code=1)
    assert "0 faults" in ran("check", pseudo, "--config", run, "--strict")


@pytest.mark.parametrize(
    "arguments",
    [
        ["sample", "corpus.jsonl", "--by", "luck"],
        ["review", "gold.json", "--tool", "paper"],
        ["annotate", "s.jsonl", "--model", "a", "--model", "b", "--price-in", "1", *["--price-in", "2"] * 2],
        ["annotate", "s.jsonl", "--model", "a", "--model", "a", "--endpoint", "http://localhost:1/v1"],
        ["annotate", "s.jsonl", "--model", "a", "--needed", "2", "--endpoint", "http://localhost:1/v1"],
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_done(tmp_path, arguments):
    with pytest.raises(UserError):
        ran(*arguments, "-o", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_answers_nothing_useful_is_an_error_with_its_reasons(endpoint, sample, tmp_path):
    endpoint.answer = lambda text: "no idea"
    from kgscale.errors import WorkError

    with pytest.raises(WorkError, match="no chunk could be annotated: 2 ×"):
        ran("annotate", sample(TEXTS[:2]), "-o", tmp_path / "g.json", "--model", "m", "--endpoint", endpoint.url, "-y")
    assert not (tmp_path / "g.json").exists()

"""Commands over several runs, as CI and people call them: gate, history, compare; and the example workflow."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml
from report_runs import synthetic_run

from kgscale import cli
from kgscale.runs import RUN_FILE, Run
from kgscale.score.scorer import score_run

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "gate.yml"


def call(capsys, *arguments):
    """Exit code, stdout and stderr of a command."""
    try:
        cli.main([str(it) for it in arguments])
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with `good`, `again` (as good), `worse` (by its hybrid method) and `weak`, which is damaged."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("good", "again"):
        score_run(synthetic_run(folder / name, 240, methods=("llm", "hybrid")))
    score_run(synthetic_run(folder / "worse", 240, methods=("llm", "hybrid"), quality={"hybrid": 0.6}))
    (folder / "weak").mkdir()
    (folder / "weak" / RUN_FILE).write_text("{")
    (folder / "weak" / "scores.json").write_text("{")
    return folder


def test_the_gate_exits_with_3_only_for_a_significant_drop_that_is_larger_than_allowed(runs, capsys):
    limits = ("--max-drop", "entity_f1=0.02", "--max-drop", "relation_f1=0.02")
    assert call(capsys, "gate", runs / "again", "--against", runs / "good", *limits)[0] == 0
    code, out, _ = call(capsys, "gate", runs / "worse", "--against", runs / "good", *limits)
    assert code == 3
    assert "hybrid: entity_f1 (name+type) fell by" in " ".join(out.replace("│", " ").split())
    assert "llm: entity_f1" not in out
    allowed = ("--max-drop", "entity_f1=0.5")
    assert call(capsys, "gate", runs / "worse", "--against", runs / "good", *allowed)[0] == 0
    assert call(capsys, "gate", runs / "worse", "--against", runs / "good", *limits, "-m", "llm")[0] == 0
    # Better is never worse.
    assert call(capsys, "gate", runs / "good", "--against", runs / "worse", *limits)[0] == 0


def test_the_gate_refuses_runs_that_cannot_be_compared(runs, tmp_path, capsys):
    other = synthetic_run(tmp_path / "other", 240, methods=("llm", "hybrid"))
    info = json.loads(other.store.read(RUN_FILE))
    info["fingerprint"]["corpus"]["sha256"] = "cd" * 32
    other.store.write(RUN_FILE, json.dumps(info).encode())
    code, _, err = call(capsys, "gate", other.store.uri, "--against", runs / "good", "--max-drop", "entity_f1=0.02")
    assert code == 2
    assert "they differ in the corpus" in err


def test_history_goes_on_past_a_damaged_run(runs, tmp_path, capsys):
    page = tmp_path / "history.html"
    code, out, err = call(capsys, "history", runs, "--html", page, "--lang", "zh")
    assert code == 0
    assert re.search("left out: weak: run.json is damaged", err)
    assert "weak" not in out
    assert all(name in out for name in ("good", "again", "worse"))
    assert "weak" in page.read_text()
    found = json.loads(call(capsys, "history", runs, "--json")[1])
    assert {it["run"] for it in found["entries"]} == {"good", "again", "worse"}
    assert found["damaged"][0].startswith("weak: ")
    assert {it["repeats"] for it in found["spreads"]} == {3}


def test_compare_says_what_it_compared(runs, tmp_path, capsys):
    run = synthetic_run(tmp_path / "run", 240)
    code, out, _ = call(capsys, "compare", run.store.uri, "--candidate", "gliner")
    assert code == 0
    assert "For entities alone, gliner may replace llm." in " ".join(out.replace("│", " ").split())
    found = json.loads(call(capsys, "compare", runs / "worse", "--json")[1])
    assert found["sentence"].startswith("Keep llm.")
    assert [it["what"] for it in found["rag"]][-1] == "ragas"
    assert call(capsys, "compare", runs / "worse")[0] == 3


def test_the_example_workflow_does_what_it_says(runs, tmp_path, capsys):
    """Every kgscale command in it is one, its gate stops a bad run, and no text from outside reaches a shell."""
    workflow = yaml.safe_load(EXAMPLE.read_text())
    steps = [it["run"] for it in workflow["jobs"]["gate"]["steps"] if "run" in it]
    commands = [line.strip() for step in steps for line in step.splitlines() if line.strip().startswith("kgscale ")]
    assert [it.split()[1] for it in commands] == ["run", "verify", "gate", "report"]
    for text in steps:
        assert set(re.findall(r"\$\{\{ (.*?) \}\}", text)) <= {"github.event.number"}, "anything else may hold commands"

    def filled(command, run):
        known = {"$RUN": str(runs / run), "$BASE": str(runs / "good")}
        words = shlex.split(command.split(">")[0])[1:]
        return [known.get(it, it.replace("$RUN", known["$RUN"])) for it in words]

    for command in commands:
        name, *words = filled(command, "again")
        parser = typer.main.get_command(cli.app).commands[name]
        parser.make_context(name, list(words))
    run, verify, gate, report = commands
    assert filled(run, "again")[-1] == f"run={runs / 'again'}"
    assert call(capsys, *filled(verify, "again"))[0] == 0
    assert [call(capsys, *filled(gate, it))[0] for it in ("again", "worse")] == [0, 3]
    code, out, _ = call(capsys, *filled(report, "worse"))
    assert code == 0
    assert out.startswith("### ✕ Not recommended: Keep llm.")
    assert Run(runs / "worse").store.exists("scores.json")

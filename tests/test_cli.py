"""The commands as a person meets them: what is refused, with which words and which exit code."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kgscale import cli
from kgscale.lock import driver_lock
from kgscale.runs import Run, Shard

from .making import make_run, rows_of


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command; a traceback would be an error of the test."""
    try:
        cli.main([str(it) for it in arguments])
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A finished run of the default methods, four chunks in two shards."""
    made = make_run(tmp_path / "run", 4, shard=2)
    with driver_lock(made.store, "test") as token:
        for method in made.methods:
            for start, stop in made.planned:
                assert made.commit(Shard(method, start, stop), rows_of(made, Shard(method, start, stop)), token)
    return made


def test_a_shard_of_another_method_is_never_scored(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = (run.store.path(Shard(method, 0, 2).file) for method in ("llm", "hybrid"))
    shutil.copy(source, target)
    for command in ("score", "compare", "report"):
        code, _, err = call(capsys, command, run.store.uri)
        assert code == 2
        assert "another method" in err
        assert "verify --repair" in err
    code, out, _ = call(capsys, "status", run.store.uri)
    assert code == 0
    assert "hybrid           2/4" in out
    assert "another method" in out


def test_a_shard_under_another_name_is_never_scored(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(run.store.path(Shard("llm", 0, 2).file), run.store.path(Shard("llm", 2, 4).file))
    code, _, err = call(capsys, "score", run.store.uri)
    assert code == 2
    assert "holds other rows than 2-4" in err


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped"])
def test_damaged_shards_are_named(run: Run, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(run.store.path(Shard("llm", 0, 2).file))
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        group = pq.ParquetFile(path).metadata.row_group(0)
        columns = map(group.column, range(group.num_columns))
        names = next(it for it in columns if it.path_in_schema == "entities.list.element.text")
        # In a page that scoring reads: a flip in what nobody reads changes nothing.
        data[(names.dictionary_page_offset or names.data_page_offset) + names.total_compressed_size - 1] ^= 1
    path.write_bytes({"truncated": data[: len(data) // 2], "empty": b"", "flipped": data}[damage])
    code, _, err = call(capsys, "score", run.store.uri)
    assert code == 2
    assert path.name in err
    assert call(capsys, "verify", run.store.uri)[0] == 1
    assert call(capsys, "status", run.store.uri)[0] == 0


@pytest.mark.parametrize("command", ["status", "score", "compare", "report", "verify"])
def test_a_lost_corpus_is_said(run: Run, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(run.store.path("chunks.parquet")).unlink()
    code, out, err = call(capsys, command, run.store.uri)
    assert code == (1 if command == "verify" else 2)
    assert "chunks.parquet" in out + err


def test_a_method_that_does_not_exist(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "compare", run.store.uri, "--candidate", "zzz")
    assert code == 2
    assert "'zzz'" in err
    assert "gliner, llm, hybrid" in err


def test_a_run_is_not_written_among_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Some text.")
    config = tmp_path / "c.yaml"
    config.write_text(json.dumps({"run": str(tmp_path / "docs"), "corpus": {"path": str(tmp_path / "docs")}}))
    for command in ("plan", "extract"):
        code, _, err = call(capsys, command, config)
        assert code == 2
        assert "a.md" in err
    assert [it.name for it in (tmp_path / "docs").iterdir()] == ["a.md"]


def test_a_mistaken_override_is_blamed_on_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("corpus: {path: x}\n")
    for override in ("llm.modle=x", "a.b.c=1", "cluster.num_cpus=-3", "compare.candidate=zzz"):
        code, _, err = call(capsys, "plan", config, "--set", override)
        assert code == 2
        assert f"--set {override}: " in err


def test_plan_looks_at_the_gold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.md").write_text("Some text.")
    config = tmp_path / "c.yaml"
    settings = {"run": str(tmp_path / "run"), "corpus": {"path": str(tmp_path / "a.md")}, "gold": "nowhere.json"}
    config.write_text(json.dumps(settings))
    code, _, err = call(capsys, "plan", config)
    assert code == 2
    assert "nowhere.json" in err


def test_json_is_one_document_and_nothing_else(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "verify", "score", "compare"):
        _, out, _ = call(capsys, command, run.store.uri, "--json")
        assert isinstance(json.loads(out), dict)


def test_history_of_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert call(capsys, "history", tmp_path / "file")[0] == 2


def test_convert_onto_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.conll").write_text("Ada\tB-person\n")
    (tmp_path / "file").write_text("")
    code, _, err = call(capsys, "convert", tmp_path / "a.conll", tmp_path / "file", "--from", "conll")
    assert code == 2
    assert str(tmp_path / "file") in err

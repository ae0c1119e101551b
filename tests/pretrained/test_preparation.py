import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgscale.errors import UserError
from kgscale.pretrained import catalogue, prepare, verify
from kgscale.pretrained.cache import MANIFEST, cache_root
from tests.pretrained import toy

ROOT = Path(__file__).parents[2]


def elsewhere(cache: Path, log: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.pretrained.toy", str(cache), str(log), str(seconds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(condition, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def leftovers(cache: Path) -> list[Path]:
    return list(cache.glob(".toy.*.partial"))


def test_second_preparation_shares_the_cache(tmp_path, toy_model):
    said = []
    first = prepare("toy", cache=tmp_path / "cache", say=said.append)
    assert first == tmp_path / "cache" / "toy"
    assert said == ["downloading toy-weights==1.0 (1 MB)", "building the toy", f"toy is ready in {first}"]
    assert prepare("toy", cache=tmp_path / "cache", say=said.append) == first
    assert len(said) == 3
    assert not leftovers(tmp_path / "cache")
    verify(first)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda path: (path / "weights.bin").write_bytes(b"short"), "5 bytes instead of 11"),
        (lambda path: (path / "config.json").unlink(), "config.json is missing"),
        (lambda path: (path / MANIFEST).unlink(), "manifest.json cannot be read"),
        (lambda path: (path / MANIFEST).write_text("{"), "manifest.json cannot be read"),
    ],
)
def test_damaged_directory_is_rebuilt(tmp_path, toy_model, harm, told):
    path = prepare("toy", cache=tmp_path)
    harm(path)
    said = []
    assert prepare("toy", cache=tmp_path, say=said.append) == path
    assert told in said[0]
    verify(path)
    assert not leftovers(tmp_path)


def test_directory_of_an_older_recipe_is_rebuilt(tmp_path, toy_model):
    prepare("toy", cache=tmp_path)
    toy_model(recipe=2)
    said = []
    prepare("toy", cache=tmp_path, say=said.append)
    assert "another version" in said[0]


def test_shipped_weights_are_part_of_the_recipe(tmp_path, toy_model):
    shipped = tmp_path / "shipped"
    shipped.write_text("one")
    (entry,) = catalogue.ENTRIES
    one = catalogue.Entry(entry.model, entry.wheel, entry.build, 1, (shipped,)).recipe_id()
    shipped.write_text("two")
    assert one != catalogue.Entry(entry.model, entry.wheel, entry.build, 1, (shipped,)).recipe_id()


def test_verify_finds_a_change_of_the_same_size(tmp_path, toy_model):
    path = prepare("toy", cache=tmp_path)
    (path / "weights.bin").write_bytes(toy.WEIGHTS[::-1])
    assert prepare("toy", cache=tmp_path) == path
    with pytest.raises(UserError, match=r"weights\.bin has other contents") as caught:
        verify(path)
    assert caught.value.where == str(path)
    with pytest.raises(UserError, match=r"no readable manifest\.json"):
        verify(tmp_path)


def test_two_processes_share_one_preparation(tmp_path):
    toy.make_wheel(tmp_path)
    cache, log = tmp_path / "cache", tmp_path / "log"
    both = [elsewhere(cache, log, 1.0) for _ in range(2)]
    ends = [process.communicate(timeout=300) for process in both]
    assert [out for out, _ in ends] == [f"{cache / 'toy'}\n"] * 2
    assert log.read_text() == "begun\n"
    assert sum("another process is preparing toy: waiting" in err for _, err in ends) == 1


def test_a_killed_preparation_leaves_nothing_that_counts(tmp_path, toy_model):
    cache, log = tmp_path / "cache", tmp_path / "log"
    process = elsewhere(cache, log, 60)
    until(log.exists)
    process.kill()
    process.wait()
    assert not (cache / "toy").exists()
    assert leftovers(cache)
    path = prepare("toy", cache=cache)
    verify(path)
    assert not leftovers(cache)


def test_unwritable_cache_is_the_users_to_mend(tmp_path, toy_model):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written: Not a directory") as caught:
        prepare("toy", cache=tmp_path / "file" / "cache")
    assert caught.value.where == str(tmp_path / "file" / "cache")
    assert "KGSCALE_CACHE" in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_cache(tmp_path, toy_model):
    (tmp_path / "cache").mkdir(mode=0o500)
    with pytest.raises(UserError, match="Permission denied"):
        prepare("toy", cache=tmp_path / "cache")


@pytest.mark.parametrize(
    "complaint", [OSError(errno.ENOSPC, "No space"), RuntimeError("I/O error: No space left on device (os error 28)")]
)
def test_full_disk(tmp_path, toy_model, monkeypatch, complaint):
    def build(source, target, say):
        raise complaint

    (entry,) = catalogue.ENTRIES
    monkeypatch.setattr(catalogue, "ENTRIES", (catalogue.Entry(entry.model, entry.wheel, build, 1),))
    with pytest.raises(UserError, match="the disk is full"):
        prepare("toy", cache=tmp_path / "cache")
    assert not (tmp_path / "cache" / "toy").exists()
    assert not leftovers(tmp_path / "cache")


def test_a_fault_of_the_builder_is_not_blamed_on_the_cache(tmp_path, toy_model, monkeypatch):
    def build(source, target, say):
        raise ValueError("a bug")

    (entry,) = catalogue.ENTRIES
    monkeypatch.setattr(catalogue, "ENTRIES", (catalogue.Entry(entry.model, entry.wheel, build, 1),))
    with pytest.raises(ValueError, match="a bug"):
        prepare("toy", cache=tmp_path)


def test_unknown_name(tmp_path):
    with pytest.raises(UserError, match="no default model called 'smollm'") as caught:
        prepare("smollm", cache=tmp_path)
    assert "smollm2-135m, smollm2-135m-kg, gliner-minilm, gliner-relex-minilm" in caught.value.hint


def test_cache_root(monkeypatch, tmp_path):
    monkeypatch.setenv("KGSCALE_CACHE", str(tmp_path))
    assert cache_root() == tmp_path
    assert cache_root(Path("other")) == Path("other")
    monkeypatch.delenv("KGSCALE_CACHE")
    assert cache_root().name == "kgscale"

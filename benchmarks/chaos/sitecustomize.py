"""Makes trouble in every Python process that has this folder on its PYTHONPATH, as `kills.py` starts them.

`CHAOS` holds `store`, `disk` and `clock`, each with a chance or seconds, e.g. `store=0.05,disk=0.5,clock=3600`:
flushes and renames of committed files fail with EIO (a rename before or after it is done); flushes take up to so many
seconds; the wall clock jumps by up to so many seconds, to and fro. kgscale itself knows nothing of this.
"""

import errno
import os
import random
import time
from pathlib import Path
from typing import Any

COMMITTED = "/extractions/"
QUIET_S = 15.0
"""A process has so long to start before its clock jumps: Ray's own start is not what is tried here."""
settings = {name: float(value) for name, _, value in (it.partition("=") for it in os.environ["CHAOS"].split(","))}
rng = random.Random()
begun = time.monotonic()
real_fsync, real_replace, real_time = os.fsync, Path.replace, time.time


def fail_perhaps() -> None:
    if rng.random() < settings.get("store", 0.0):
        raise OSError(errno.EIO, "Input/output error (chaos)")


def fsync(file: Any) -> None:
    """Flush late, or not at all."""
    time.sleep(rng.uniform(0, settings.get("disk", 0.0)))
    if COMMITTED in f"{Path(f'/proc/self/fd/{file}').readlink()}/":
        fail_perhaps()
    real_fsync(file)


def replace(path: Path, target: Any) -> Any:
    """Rename, and fail before or after it."""
    if COMMITTED in str(target):
        fail_perhaps()
    done = real_replace(path, target)
    if COMMITTED in str(target):
        fail_perhaps()
    return done


def wall_clock() -> float:
    """The time, and the same jump for a few seconds, then another one."""
    if time.monotonic() - begun < QUIET_S:
        return real_time()
    jump = settings["clock"]
    return real_time() + random.Random(int(time.monotonic() / 7)).uniform(-jump, jump)


if settings.get("store") or settings.get("disk"):
    setattr(os, "fsync", fsync)  # noqa: B010
    setattr(Path, "replace", replace)  # noqa: B010
if settings.get("clock"):
    setattr(time, "time", wall_clock)  # noqa: B010

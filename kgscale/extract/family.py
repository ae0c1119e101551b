"""What a worker starts ends with it, however it ends."""

import os
import subprocess

_WATCH = """
exec 3<&0
(
    trap '' HUP INT TERM
    read -r _ <&3
    kill -TERM -"$0" && sleep "$1" && kill -KILL -"$0"
) &
"""
"""Waits for the end of a pipe, then ends a group; in the background, so that it is no child of the worker."""
GRACE_S = 5
"""For an engine to give back shared memory and the GPU."""


def leave_none_behind() -> None:
    """See to it that no process that this one starts from now on outlives it, not even after a kill -9.

    vLLM's processes do not always notice that their parent is gone; one that lives on holds memory, of a GPU too,
    against the worker that takes this one's place. This process becomes the leader of a group, into which its children
    are born; a shell outside of it waits for a pipe to close that only this process holds open. Children that leave the
    group are on their own.
    """
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    reader, _never_closed = os.pipe()
    command = ["/bin/sh", "-c", _WATCH, str(os.getpid()), str(GRACE_S)]
    quiet = subprocess.DEVNULL
    subprocess.run(command, stdin=reader, stdout=quiet, stderr=quiet, start_new_session=True, check=True)
    os.close(reader)

"""Nothing that a worker started outlives it."""

import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

WORKER = '''
import os, subprocess, sys, time
from kgscale.extract.family import leave_none_behind

leave_none_behind()
child = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, {deaf})
print(subprocess.Popen(['sleep', '300']).pid, flush=True)
time.sleep(300)
"""
process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True)
print(process.pid, process.stdout.readline().strip(), flush=True)
{end}
'''
ENDS = {
    "kill -9": "time.sleep(300)",
    "an exit": "",
    "an exit without goodbye": "os._exit(1)",
    "a death of its direct child alone": "process.kill(); time.sleep(1)",
}


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_children_and_theirs_end_with_the_worker(end: str, deaf: bool) -> None:
    script = WORKER.format(end=ENDS[end], deaf="signal.SIG_IGN" if deaf else "signal.SIG_DFL")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        family = []
        for pid in map(int, worker.stdout.readline().split()):
            with suppress(psutil.NoSuchProcess):
                family.append(psutil.Process(pid))
        if end == "kill -9":
            assert len(family) == 2
            worker.kill()
        worker.wait(20)
        until = time.monotonic() + 20
        while any(it.is_running() and it.status() != psutil.STATUS_ZOMBIE for it in family):
            assert time.monotonic() < until, "somebody lives on"
            time.sleep(0.05)


def test_the_watch_ends_too() -> None:
    before = set(psutil.pids())
    script = WORKER.format(end="", deaf="signal.SIG_DFL")
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    until = time.monotonic() + 20
    while shells := [it for it in psutil.process_iter(["name"]) if it.pid not in before and it.info["name"] == "sh"]:
        assert time.monotonic() < until, shells
        time.sleep(0.05)

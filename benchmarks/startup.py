"""How long until something happens: `python benchmarks/startup.py`.

`kgscale --help`, median of several, whose bar is 0.3 s on an idle machine; its processor time hardly depends on what
else the machine does. Then the demo's engines, each alone and both in one run, from the first that is asked for to the
last that is ready. They start in parallel: the ceiling is the slower one alone, the bar 1.2 times that.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.common import JOBS
from benchmarks.parts.same_work import Work, options
from benchmarks.parts.sides import machine
from kgscale.runs import EVENTS_FILE

HELP = [sys.executable, "-c", "from kgscale.cli import main; main(['--help'])"]


@dataclass(frozen=True)
class Result:
    help_s: float
    help_cpu_s: float
    imports_s: float
    """Python itself, without kgscale."""
    engines_s: dict[str, float]
    """By what was started; medians."""
    ratio: float
    """Both over the slower one alone."""


def main() -> None:
    parser = argparse.ArgumentParser(
        parents=[options()], description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only-help", action="store_true", help="do not start engines")
    parser.add_argument("--quick", action="store_true", help="GLiNER, which is the quicker one, not alone")
    arguments = parser.parse_args()
    arguments.chunks, arguments.max_tokens = 16, 8
    print(machine())
    helps = [command(HELP) for _ in range(5)]
    bare = median(command([sys.executable, "-c", "pass"])[0] for _ in range(5))
    help_s, cpu_s = (median(it) for it in zip(*helps, strict=True))
    print(f"kgscale --help {help_s:.2f} s, of processor time {cpu_s:.2f} s; Python alone {bare:.2f} s", flush=True)
    found: dict[str, list[float]] = {}
    methods = {"gliner": ["gliner"], "llm": ["llm"], "both": ["gliner", "llm"]}
    if arguments.quick:
        del methods["gliner"]
    work = Work(arguments)
    for _ in range(0 if arguments.only_help else arguments.rounds):
        for name, chosen in methods.items():
            found.setdefault(name, []).append(ready(work, chosen))
            print(f"{name:8} ready after {found[name][-1]:.1f} s", flush=True)
    engines = {name: median(it) for name, it in found.items()}
    slower = max((it for name, it in engines.items() if name != "both"), default=float("nan"))
    ratio = engines.get("both", float("nan")) / slower
    if engines:
        print(f"both take {ratio:.2f} times as long as the slower one alone")
    result = Result(help_s, cpu_s, bare, engines, ratio)
    print(json.dumps({"benchmark": "startup", **asdict(result)}))


def command(words: list[str]) -> tuple[float, float]:
    """Seconds and processor seconds of a command."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ready(work: Work, methods: list[str]) -> float:
    """Seconds from the first worker that starts to the last that is ready, in a run of its own."""
    with TemporaryDirectory() as folder:
        config = work.write_config(Path(folder))
        chosen = [it for name in methods for it in ("--method", name)]
        script = [sys.executable, str(JOBS / "extract.py"), str(config), *chosen]
        environ = {**os.environ, "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(script, check=False, capture_output=True, text=True, env=environ)
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        events = [json.loads(it) for it in (Path(folder) / "run" / EVENTS_FILE).read_text().splitlines()]
    at = {name: [datetime.fromisoformat(it["at"]) for it in events if it["event"] == name] for name in WATCHED}
    return (max(at["worker_ready"]) - min(at["worker_starting"])).total_seconds()


WATCHED = ("worker_starting", "worker_ready")

if __name__ == "__main__":
    main()

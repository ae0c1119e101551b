"""The real drive loop over a simulated cluster: what it loses at scale, and what faults can do to it.

Scale: 1 to 64 GPUs and a million chunks in simulated time. Each GPU holds an LLM replica and two GLiNER workers, as
`kgscale plan` seats them. Service times are drawn around rates per GPU that come from the notes on the engines (an
H200: Qwen3-4B 38 chunks/s, GLiNER medium 1,600 chunks/s; the LLM's falls when few chunks are in it); shards differ in
length, GPUs in speed, one in fifty is a straggler at two thirds of the speed. Then the largest cluster again, losing
a tenth of its GPUs for good. The ceiling is every LLM replica busy from its first shard to the last moment of the run.

Faults: `--schedules N` plays N seeded schedules (see tests/extract/schedules.py); a seed that fails is printed, and
`--seed S` replays it event by event.

`python benchmarks/simulate.py [--chunks 1000000] [--gpus 1 2 4 …] [--quick]`, `… --schedules 10000`, `… --seed 7`
"""

import argparse
import json
import os
import platform
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from kgscale.extract.drive import Drive, Policy
from kgscale.extract.placement import Pool
from kgscale.shards import Shard, doubled, gaps
from tests.extract.schedules import METHODS, UPSTREAM, Play, SchedulesError, play
from tests.extract.simulated_run import SimulatedDirectory, SimulatedRun
from tests.extract.simulated_world import CALM, World
from tests.extract.simulator import SimulatedCluster

SHARD = 256
LLM_CHUNKS_PER_S = 38.0
LLM_AT_ONCE = 512
LLM_HALF_BATCH = 32
"""With so many chunks in the engine it reaches half of its rate."""
GLINER_CHUNKS_PER_S = 1600.0
GLINER_PER_GPU = 2
LLM_START_S, GLINER_START_S = (60.0, 120.0), (10.0, 20.0)
STRAGGLERS, STRAGGLER_SPEED = 0.02, 0.67
SPOT_SHARE = 0.1


@dataclass(frozen=True)
class Result:
    gpus: int
    hours: float
    """Simulated time from the first replica that is ready to the end."""
    speed_up: float
    utilisation: float
    """Busy time of the LLM replicas by their time from ready to the end of the run (or of the replica)."""
    tail: float
    """Share of the run from the first replica without work to the end."""
    start_s: float
    files: int
    real_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--schedules", type=int, default=0, help="play so many fault schedules instead")
    parser.add_argument("--first", type=int, default=0, help="the first seed of the schedules")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, help="replay one schedule and show its events")
    parser.add_argument("--quick", action="store_true", help="100,000 chunks on up to 8 GPUs, 200 schedules")
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}", flush=True)
    if options.seed is not None:
        replay(options.seed)
        return
    found: dict[str, Any] = {}
    if not options.schedules:
        chunks, gpus = (100_000, [1, 8]) if options.quick else (options.chunks, options.gpus)
        found |= scale(chunks, sorted(set(gpus)))
    if options.schedules or options.quick:
        found |= schedules(options.first, options.schedules or 200, options.processes)
    print(json.dumps({"benchmark": "simulate", **found}))
    sys.exit(1 if found.get("failed_seeds") else 0)


def scale(chunks: int, gpus: list[int]) -> dict[str, Any]:
    """Run on each number of GPUs, and on the largest with a tenth of it lost."""
    print(f"{chunks:,} chunks, 3 methods (gliner, llm, hybrid), shards of {SHARD}; simulated\n")
    print(f"{'GPUs':>5} {'hours':>8} {'speed-up':>9} {'utilisation':>12} {'tail':>7} {'start s':>8} {'real s':>7}")
    results: list[Result] = []
    for number in gpus:
        first = results[0].hours * results[0].gpus if results else None
        it = simulate(chunks, number, first)
        results.append(it)
        print(
            f"{it.gpus:>5} {it.hours:>8.2f} {it.speed_up:>9.2f} {it.utilisation:>12.1%} {it.tail:>7.2%} "
            f"{it.start_s:>8.0f} {it.real_s:>7.1f}",
            flush=True,
        )
    last = results[-1]
    lost = max(1, round(last.gpus * SPOT_SHARE))
    spot = simulate(chunks, last.gpus, None, lost=lost, lost_at_s=last.hours * 360)
    cost = spot.hours / last.hours - 1
    print(f"\n{lost} of {last.gpus} GPUs lost for good after a tenth of the run: {cost:+.1%} time")
    return {"chunks": chunks, "scale": [asdict(it) for it in results], "spot": {"lost": lost, "cost": cost}}


def simulate(chunks: int, gpus: int, one_gpu_hours: float | None, *, lost: int = 0, lost_at_s: float = 0.0) -> Result:
    """One run in simulated time."""
    begun = time.perf_counter()
    rng = random.Random(0)
    run = SimulatedRun(chunks, SHARD, rng)
    run.shard_words = [max(1, round(rng.gauss(300, 15) * (stop - start))) for start, stop in run.planned]
    run.upstream = UPSTREAM
    world = World(rng)
    per_chunk = sum(run.shard_words) / chunks
    speeds: dict[int, float] = {}

    def service(engine: str, worker: int, shard: Shard, live: int) -> float:
        if worker not in speeds:
            speeds[worker] = STRAGGLER_SPEED if rng.random() < STRAGGLERS else rng.lognormvariate(0, 0.02)
        plan = shard.start // SHARD
        first, last = run.planned[plan]
        # In chunks of average length.
        equal = run.shard_words[plan] / per_chunk * shard.rows / (last - first)
        work = equal * rng.lognormvariate(0, 0.1) / speeds[worker]
        if engine == "gliner":
            return work / (GLINER_CHUNKS_PER_S / GLINER_PER_GPU)
        full = LLM_AT_ONCE / (LLM_AT_ONCE + LLM_HALF_BATCH)
        live = min(live, LLM_AT_ONCE)
        return work / (LLM_CHUNKS_PER_S * live / (live + LLM_HALF_BATCH) / full)

    room = {"llm": gpus, "gliner": gpus * GLINER_PER_GPU}
    cluster = SimulatedCluster(run, CALM, world, room, service=service)
    cluster.start_s_of = {"llm": LLM_START_S, "gliner": GLINER_START_S}
    if lost:
        world.at(lost_at_s + LLM_START_S[0], lambda: cluster.lose_workers("llm", lost, forever=True))
        world.at(
            lost_at_s + LLM_START_S[0],
            lambda: cluster.lose_workers("gliner", lost * GLINER_PER_GPU, forever=True),
        )
    pools = [Pool("llm", at_once=LLM_AT_ONCE), Pool("gliner", after=("llm",))]
    Drive(METHODS, pools, SimulatedDirectory(run), cluster, Policy(), lambda *_a, **_f: None).run()
    for method in METHODS:
        assert not gaps(0, chunks, run.ranges(method))
        assert not doubled(run.ranges(method))
    llms = {number: worker for number, worker in cluster.workers.items() if worker.engine == "llm" and worker.ready}
    end = max(worker.last_at for worker in llms.values())
    start = min(worker.ready_at for worker in llms.values())
    alive = sum(min(end, end if it.ended_at is None else it.ended_at) - it.ready_at for it in llms.values())
    busy = sum(cluster.busy_s[number] for number in llms)
    to_the_end = [it for it in llms.values() if it.ended_at is None or it.ended_at >= end]
    hours = (end - start) / 3600
    return Result(
        gpus=gpus,
        hours=hours,
        speed_up=(one_gpu_hours or hours * gpus) / hours,
        utilisation=busy / alive,
        tail=(end - min(it.last_at for it in to_the_end)) / (end - start),
        start_s=start,
        files=sum(len(files) for files in run.files.values()),
        real_s=time.perf_counter() - begun,
    )


def schedules(first: int, count: int, processes: int) -> dict[str, Any]:
    """Play the schedules of `count` seeds on all cores."""
    begun = time.perf_counter()
    step = 50
    starts = range(first, first + count, step)
    drivers = faults = lost = 0
    failed: list[str] = []
    with ProcessPoolExecutor(processes) as pool:
        for tally in pool.map(_played, starts, [min(step, first + count - it) for it in starts]):
            drivers, faults, lost = drivers + tally[0], faults + tally[1], lost + tally[2]
            failed += tally[3]
            for message in tally[3]:
                print(f"FAILED {message}", flush=True)
    seconds = time.perf_counter() - begun
    print(
        f"{count:,} schedules in {seconds:.0f} s on {processes} processes: {drivers:,} drivers, {faults:,} deaths, "
        f"{lost:,} rows given up; {len(failed)} failed"
    )
    return {"schedules": count, "seconds": seconds, "drivers": drivers, "deaths": faults, "failed_seeds": failed}


def _played(first: int, count: int) -> tuple[int, int, int, list[str]]:
    drivers = faults = lost = 0
    failed = []
    for seed in range(first, first + count):
        try:
            it = play(seed)
        except SchedulesError as error:
            failed.append(str(error))
        else:
            drivers, faults, lost = drivers + it.drivers, faults + it.faults, lost + it.lost
    return drivers, faults, lost, failed


def replay(seed: int) -> None:
    """Play one schedule again, and show what the loop is told and does."""
    game = Play(seed)
    print(game.faults)
    game.watch = lambda event, fields: print(f"{game.world.time:9.2f} {event} {fields}")
    print(game.go())


if __name__ == "__main__":
    main()

"""What a run would do: counted and estimated, without doing any of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from kgscale.config import Config, GlinerEngine
from kgscale.corpus import prepare_corpus
from kgscale.extract.forecast import Forecast, forecast
from kgscale.extract.job import placement_for, steps_for
from kgscale.extract.opening import Say, refuse_changes, refuse_foreign
from kgscale.extract.prompt import prompt_book
from kgscale.formats import load_gold
from kgscale.lock import current_driver
from kgscale.runs import Run, planned_ranges, words_per_shard
from kgscale.store import Store

TOKENS_PER_WORD = 1.4
"""English text in a byte-pair vocabulary; a rough figure, and said to be one."""
CHARACTERS_PER_TOKEN = 4.0
"""The same, for the instruction."""


@dataclass(frozen=True, slots=True)
class MethodPlan:
    """What one method has to do; `prompt_tokens` is an estimate, null for GLiNER."""

    method: str
    engine: str
    model: str
    upstream: str | None
    shards: int
    shards_left: int
    chunks_left: int
    prompt_tokens: int | None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of a run."""

    run: str
    exists: bool
    driver: str | None
    chunks: int
    words: int
    shard_chunks: int
    methods: list[MethodPlan]
    placement: list[str]
    forecast: Forecast | None
    """What is left will take; null where a rate is not known."""

    def __str__(self) -> str:
        state = "there already" if self.exists else "new"
        lines = [
            f"run        {self.run} ({state}{', worked on by ' + self.driver if self.driver else ''})",
            f"corpus     {self.chunks} chunks, {self.words} words, shards of up to {self.shard_chunks} chunks",
        ]
        for it in self.methods:
            after = f" after {it.upstream}" if it.upstream else ""
            tokens = f", about {it.prompt_tokens:,} prompt tokens" if it.prompt_tokens is not None else ""
            lines.append(
                f"method     {it.method}: {it.engine} ({it.model}){after}; "
                f"{it.shards_left} of {it.shards} shards left, {it.chunks_left} chunks{tokens}"
            )
        lines += [f"placement  {line}" for line in self.placement]
        unknown = "not known: name an earlier run on the same hardware as cluster.rates_from"
        lines.append(f"takes      {self.forecast or unknown}")
        return "\n".join(lines)


def plan_run(config: Config, methods: Sequence[str] | None, say: Say) -> RunPlan:
    """Plan a resolved config; of a run that is there already, what is left. The run directory is not written to."""
    steps = steps_for(config, methods)
    if config.gold is not None:
        load_gold(config.gold)
    placement = placement_for(config, list(dict.fromkeys(step.engine for step in steps.values())))
    run = Run(config.run) if Run.exists(config.run) else None
    if run is not None:
        refuse_changes(run, config, say)
        planned, words = run.planned, run.shard_words
        left = {name: run.remaining(name) if name in run.methods else None for name in steps}
        driver = current_driver(run.store)
    else:
        refuse_foreign(config.run)
        with TemporaryDirectory() as folder:
            prepare_corpus(config.corpus, Store(folder), say=say)
            planned, words = planned_ranges(Store(folder)), words_per_shard(Store(folder))
        left, driver = dict.fromkeys(steps), None
    rows = planned[-1][1]
    plans = []
    words_left: dict[str, float] = {}
    for name, step in steps.items():
        engine = config.engines[step.engine]
        shards = left[name]
        chunks_left = rows if shards is None else sum(it.rows for it in shards)
        words_left[name] = sum(words) * chunks_left / rows
        tokens = None
        if not isinstance(engine, GlinerEngine):
            instruction = len(prompt_book(config.schema_, engine, step.task).system) / CHARACTERS_PER_TOKEN
            tokens = round(chunks_left * instruction + words_left[name] * TOKENS_PER_WORD)
        shards_left = len(planned) if shards is None else len(shards)
        plans.append(
            MethodPlan(name, step.engine, engine.model, step.upstream, len(planned), shards_left, chunks_left, tokens)
        )
    return RunPlan(
        run=config.run,
        exists=run is not None,
        driver=driver,
        chunks=rows,
        words=sum(words),
        shard_chunks=max(stop - start for start, stop in planned),
        methods=plans,
        placement=placement.lines(),
        forecast=forecast(config, steps, words_left, placement, run),
    )

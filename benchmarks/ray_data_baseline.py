"""The whole job by Ray Data: `python benchmarks/ray_data_baseline.py`, or beside kgscale by benchmarks/pipeline.py.

`map_batches` with an actor for GLiNER (the library's own `inference`), then the processor of `ray.data.llm` with the
very settings, prompts and sampling that kgscale gives vLLM, then Parquet. `--engine actor` puts an actor around vLLM's
engine in the processor's place. Ray Data starves where its operators book every core, so Ray is told of more cores than
there are; how many threads the engines have is said apart. Needs pandas, as `ray.data.llm` does.
"""

import argparse
import asyncio
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.same_work import GLINER_BATCH, Outcome, Work, finish, options, since_start
from benchmarks.parts.sides import machine
from kgscale.extract.prompt import Task

LOGICAL_CORES = 8
LLM_BATCH = 16


class GlinerStage:
    """Texts in, prompts out."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        work = Work(arguments)
        self._gliner = work.gliner()
        self._prompts = work.prompts()
        _ready(arguments, "gliner")

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """One row for each prompt; what GLiNER found is counted in the first."""
        rows: dict[str, list[Any]] = {"task": [], "tokens": [], "entities": []}
        texts = list(batch["text"])
        for text, found in zip(texts, self._gliner.entities(texts), strict=True):
            for task, tokens, entities in (
                (Task.BOTH, self._prompts.both(text), len(found)),
                (Task.RELATIONS, self._prompts.relations(text, found), 0),
            ):
                if tokens is not None:
                    rows["task"].append(str(task))
                    rows["tokens"].append(tokens)
                    rows["entities"].append(entities)
        return rows


class EngineStage:
    """An actor around vLLM's asynchronous engine, where the processor of `ray.data.llm` cannot be used."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.async_llm import AsyncLLM

        self._prompts = Work(arguments).prompts()
        settings = AsyncEngineArgs(**self._prompts.settings)
        self._engine = AsyncLLM.from_engine_args(settings, usage_context=UsageContext.LLM_CLASS)
        self._asked = 0
        _ready(arguments, "llm")

    async def __call__(self, batch: dict[str, Any]) -> Any:
        """The answers to a batch of prompts."""
        rows = zip(batch["task"], batch["tokens"], strict=True)
        texts_and_counts = await asyncio.gather(*(self._one(Task(task), list(map(int, it))) for task, it in rows))
        texts, counts = zip(*texts_and_counts, strict=True)
        yield {"text": list(texts), "num_generated_tokens": list(counts), "entities": batch["entities"]}

    async def _one(self, task: Task, tokens: list[int]) -> tuple[str, int]:
        self._asked += 1
        sampling = self._prompts.sampling(task)
        sampling.detokenize = True
        last = None
        async for it in self._engine.generate({"prompt_token_ids": tokens}, sampling, str(self._asked)):
            last = it
        assert last is not None
        return last.outputs[0].text, len(last.outputs[0].token_ids)


def main() -> None:
    parser = argparse.ArgumentParser(parents=[options()], description=__doc__)
    parser.add_argument("--engine", choices=["ray.data.llm", "actor"], default="ray.data.llm")
    parser.add_argument("--quick", action="store_true", help="16 chunks of at most 24 tokens of answer")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.chunks, arguments.max_tokens = 16, 24
    if find_spec("pandas") is None:
        raise SystemExit("Ray Data needs pandas: `pip install pandas`")
    print(machine())
    print(f"Ray Data, the LLM by {arguments.engine}, {Work(arguments).threads} threads for each engine", flush=True)
    with TemporaryDirectory() as folder:
        arguments.marks = folder
        outcome = extract(arguments, Path(folder))
    print(f"{outcome.answers} answers in {outcome.wall_s:.1f} s, of which {outcome.ready_s:.1f} s to start")
    finish(outcome)


def extract(arguments: argparse.Namespace, folder: Path) -> Outcome:
    """Run the pipeline and count what it wrote."""
    import pyarrow.dataset
    import ray

    work = Work(arguments)
    variables = {"env_vars": work.environ}
    ray.init("local", num_cpus=LOGICAL_CORES, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.from_items([{"text": it.text} for it in work.chunks], override_num_blocks=len(work.chunks) // 8)
    prompts = rows.map_batches(
        GlinerStage,
        fn_constructor_args=(arguments,),
        batch_size=GLINER_BATCH,
        compute=ray.data.ActorPoolStrategy(size=1),
        num_cpus=1,
        runtime_env=variables,
    )
    if arguments.engine == "actor":
        answers = prompts.map_batches(
            EngineStage,
            fn_constructor_args=(arguments,),
            batch_size=LLM_BATCH,
            compute=ray.data.ActorPoolStrategy(size=1, max_tasks_in_flight_per_actor=8),
            max_concurrency=8,
            num_cpus=1,
            runtime_env=variables,
        )
    else:
        answers = _processor(arguments, work, variables)(prompts)
    answers.write_parquet(str(folder / "rows"))
    wall_s = since_start()
    found = pyarrow.dataset.dataset(folder / "rows").to_table()
    tokens = sum(found["num_generated_tokens"].to_pylist())
    entities = sum(found["entities"].to_pylist())
    started = time.time() - since_start()
    marks = [float(it.read_text()) - started for it in folder.glob("*.ready")]
    return Outcome("Ray Data", max(marks), wall_s, 3 * len(work.chunks), entities, tokens)


def _processor(arguments: argparse.Namespace, work: Work, variables: dict[str, Any]) -> Any:
    from ray.data.llm import build_processor, vLLMEngineProcessorConfig

    prompts = work.prompts()
    settings = {key: it for key, it in prompts.settings.items() if key not in ("model", "revision")}
    # What `LLM` takes on a CPU; its default for other engines is less.
    settings.setdefault("max_num_batched_tokens", 4096)
    config = vLLMEngineProcessorConfig(
        model_source=prompts.settings["model"],
        engine_kwargs=settings,
        batch_size=LLM_BATCH,
        concurrency=1,
        chat_template_stage=False,
        tokenize_stage=False,
        detokenize_stage=False,
        log_engine_metrics=False,
        placement_group_config={"bundles": [{"CPU": 1}]},
        runtime_env=variables,
    )
    schemas = {str(task): prompts.sampling(task).structured_outputs.json for task in work.books}
    # Where kgscale ends an answer that repeats itself, this side is to end it too.
    repetition = prompts.sampling(Task.BOTH).repetition_detection
    limits = {key: getattr(repetition, key) for key in ("max_pattern_size", "min_pattern_size", "min_count")}
    marks = Path(arguments.marks)

    def ask(row: dict[str, Any]) -> dict[str, Any]:
        sampling = {"temperature": 0.0, "max_tokens": work.llm.max_tokens, "repetition_detection": limits}
        schema = {"json": schemas[row["task"]]}
        return {
            "tokenized_prompt": row["tokens"],
            "sampling_params": {**sampling, "structured_outputs": schema},
            "entities": row["entities"],
        }

    def answer(row: dict[str, Any]) -> dict[str, Any]:
        # The first answer tells that the engine was ready when it was asked.
        mark = marks / "llm.ready"
        if not mark.exists():
            mark.write_text(str(time.time() - float(row["time_taken_llm"])))
        return {
            "text": row["generated_text"],
            "num_generated_tokens": row["num_generated_tokens"],
            "entities": row["entities"],
        }

    return build_processor(config, preprocess=ask, postprocess=answer)


def _ready(arguments: argparse.Namespace, engine: str) -> None:
    (Path(arguments.marks) / f"{engine}.ready").write_text(str(time.time()))


if __name__ == "__main__":
    main()

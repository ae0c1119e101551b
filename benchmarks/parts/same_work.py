"""The work that whole jobs are compared on: chunks, GLiNER's labels, the LLM's prompts, the same for every side.

The demo's schema and engines; `gliner` finds entities, `llm` entities and relations, `hybrid` relations between the
entities that GLiNER found.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.parts.common import DEMO, demo_config, read_chunks, worker_environment, write_corpus
from kgscale.config import Config, GlinerEngine, VllmEngine
from kgscale.extract.llm_extract import LEAST_NAMES
from kgscale.extract.llm_vllm import VllmLlm
from kgscale.extract.placement import Node, place
from kgscale.extract.prompt import Task, prompt_book
from kgscale.pretrained import locate, stored_threshold
from kgscale.records import Chunk

GLINER_BATCH = 8
METHODS = ("gliner", "llm", "hybrid")


@dataclass(frozen=True)
class Outcome:
    """How one side did; seconds from the start of its process."""

    side: str
    ready_s: float
    """Until every engine was ready."""
    wall_s: float
    answers: int
    """Chunks, counted once for each method."""
    entities: int
    """What GLiNER found."""
    output_tokens: int
    peak_gib: float = 0.0

    @property
    def answers_per_s(self) -> float:
        """Without the start."""
        return self.answers / (self.wall_s - self.ready_s)


def options() -> argparse.ArgumentParser:
    """The options that say how much work there is."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("documents", nargs="?", default=DEMO, type=Path)
    parser.add_argument("--chunks", type=int, default=96)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, help="of each engine; by default those that kgscale gives the LLM")
    return parser


class Work:
    """What every side is to do."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        config = demo_config()
        # Whole chunks, as the other sides send them.
        changes = {"max_tokens": arguments.max_tokens, "max_chunk_tokens": None}
        llm = config.engines["llm"].model_copy(update=changes)
        methods = {name: config.methods[name] for name in METHODS}
        engines = {"gliner": config.engines["gliner"], "llm": llm}
        self.config: Config = config.model_copy(update={"engines": engines, "methods": methods, "gold": None})
        self.chunks: list[Chunk] = read_chunks(arguments.documents, arguments.chunks)
        assert isinstance(llm, VllmEngine)
        self.llm = llm
        seats = place(self.config, ["llm", "gliner"], [Node(os.cpu_count() or 1)]).of("llm")
        self.threads: int = arguments.threads or seats[0].threads
        self.books = {task: prompt_book(config.schema_, llm, task) for task in (Task.BOTH, Task.RELATIONS)}
        self.labels = list(config.schema_.entity_types)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of every side."""
        return worker_environment(self.llm, self.threads)

    def write_config(self, folder: Path) -> Path:
        """The work as a config of kgscale's."""
        write_corpus(self.chunks, folder / "corpus.jsonl")
        values = self.config.model_dump(mode="json", by_alias=True)
        values["run"] = str(folder / "run")
        values["corpus"] = {"path": str(folder / "corpus.jsonl")}
        values["limits"] = {**values["limits"], "failed_share": 1.0}
        path = folder / "config.yaml"
        # JSON is YAML.
        path.write_text(json.dumps(values))
        return path

    def gliner(self) -> "PlainGliner":
        """GLiNER by its library alone."""
        engine = self.config.engines["gliner"]
        assert isinstance(engine, GlinerEngine)
        return PlainGliner(engine, self.labels, self.threads)

    def prompts(self) -> "Prompts":
        """The LLM's settings and prompts."""
        return Prompts(self)


class PlainGliner:
    """The library's own `inference`."""

    def __init__(self, engine: GlinerEngine, labels: list[str], threads: int) -> None:
        import torch
        from gliner import GLiNER

        torch.set_num_threads(threads)
        source = locate(engine.model, "gliner")
        self._model = GLiNER.from_pretrained(str(source)).eval()
        self._labels = labels
        self._threshold = engine.threshold or stored_threshold(Path(source)) or 0.5

    def entities(self, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        """The names and types found in each text."""
        options: dict[str, Any] = {"batch_size": GLINER_BATCH, "threshold": self._threshold}
        found = self._model.inference(list(texts), self._labels, **options)
        return [[(it["text"], it["label"]) for it in entities] for entities in found]


class Prompts:
    """The token ids that kgscale would send, and the settings with which it starts vLLM."""

    def __init__(self, work: Work) -> None:
        self._books = work.books
        self._like = VllmLlm(work.llm, gpu_share=None, seed=work.config.seed)
        self.settings = self._like.settings(list(work.books.values()))
        self._max_tokens = work.llm.max_tokens

    def both(self, text: str) -> list[int]:
        """Entities and relations are asked for."""
        book = self._books[Task.BOTH]
        return self._like.tokens(book, book.ask(text))

    def relations(self, text: str, entities: Sequence[tuple[str, str]]) -> list[int] | None:
        """Relations are asked for; null where there are too few names."""
        book = self._books[Task.RELATIONS]
        names = list(dict.fromkeys(entities))
        if len({name for name, _ in names}) < LEAST_NAMES:
            return None
        return self._like.tokens(book, book.ask(text, names))

    def sampling(self, task: Task) -> Any:
        """How the answers to a task are sampled."""
        return self._like.sampling(self._books[task], self._max_tokens)


def since_start() -> float:
    """Seconds since this process began, imports included."""
    import psutil

    return time.time() - float(psutil.Process().create_time())


def finish(outcome: Outcome) -> None:
    """Tell the outcome as the last line."""
    print(json.dumps(asdict(outcome)))

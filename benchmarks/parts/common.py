"""What the benchmarks of the engines share: the demo's work, and the environment of a worker."""

import json
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from kgscale.config import Config, CorpusConfig, VllmEngine
from kgscale.configfile import load_config
from kgscale.corpus.notices import Faults, Notices
from kgscale.corpus.prepare import chunks_of, read_corpus
from kgscale.extract.placement import Seat
from kgscale.extract.seating import environment
from kgscale.records import Chunk

JOBS = Path(__file__).resolve().parent.parent.parent / "jobs"
DEMO = JOBS / "demo" / "corpus.jsonl"


def demo_config() -> Config:
    """The demo's config, whose schema and engines are asked for."""
    return load_config(JOBS / "demo.yaml")


def read_chunks(path: Path, number: int) -> list[Chunk]:
    """The first chunks of some documents, cut as kgscale cuts them by default."""
    return list(islice(chunks_of(read_corpus(path, Faults(), Notices()), CorpusConfig(path=str(path))), number))


def write_corpus(chunks: Sequence[Chunk], path: Path) -> None:
    """Chunks as a corpus file that kgscale takes as it is."""
    with path.open("w", encoding="utf-8") as file:
        for it in chunks:
            file.write(json.dumps({"chunk_id": it.chunk_id, "doc_id": it.doc_id, "text": it.text}) + "\n")


def worker_environment(engine: VllmEngine, threads: int) -> dict[str, str]:
    """The environment that kgscale gives an LLM worker on cores, for every side."""
    return {**os.environ, **environment(Seat("llm", 1.0, 0.0, threads), engine), "HF_HUB_OFFLINE": "1"}

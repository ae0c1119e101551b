"""Small runs made without any model, for tests that need a run directory."""

from pathlib import Path

from kgscale.config import Config
from kgscale.records import Chunk, Entity, Extraction, Status
from kgscale.runs import Run, Shard, write_chunks
from kgscale.store import Store

CONFIG = {"corpus": {"path": "corpus.jsonl"}}


def make_chunks(texts: list[str]) -> list[Chunk]:
    return [Chunk(f"c{row}", f"d{row // 3}", row, text, len(text.split())) for row, text in enumerate(texts)]


def make_run(path: Path | str, texts: list[str] | int, *, shard: int = 4, stamp: str = "s1", **config: object) -> Run:
    """A run directory with a corpus and no extractions; a number stands for so many chunks."""
    texts = [f"Chunk {row} is about Ada." for row in range(texts)] if isinstance(texts, int) else texts
    write_chunks(Store(path), make_chunks(texts), shard)
    checked = Config.model_validate({**CONFIG, "run": str(path), **config})
    methods = {name: {"stamp": f"{stamp}-{name}"} for name in checked.methods}
    return Run.create(path, checked, {"fingerprint": {"corpus": {"sha256": "0"}, "methods": methods}})


def rows_of(run: Run, shard: Shard, status: Status = Status.OK) -> list[Extraction]:
    """One row per chunk of a shard, each with one entity."""
    return [
        Extraction(it.chunk_id, it.row, it.doc_id, shard.method, status, entities=[Entity("Ada", "person", 0, 3, 0.9)])
        for it in run.read_chunks(shard.start, shard.stop)
    ]

"""GLiNER as kgscale runs it, beside the library's own `inference`: `python benchmarks/entities.py [DOCUMENTS]`.

Both read the same pieces of text, none longer than the model's window (the library would cut them in silence), with the
same labels and threshold, in turns, in one process. The library gets the best of several batch sizes
and runs in float32, its default.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import torch
import yaml
from gliner import GLiNER

from kgscale.config import Config, CorpusConfig, GlinerEngine
from kgscale.corpus.notices import Faults, Notices
from kgscale.corpus.prepare import chunks_of, read_corpus
from kgscale.extract.gliner import GlinerModel
from kgscale.extract.windows import text_windows
from kgscale.formats import load_gold
from kgscale.pretrained import locate
from kgscale.text import word_offsets

JOBS = Path(__file__).resolve().parent.parent / "jobs"
BATCH_SIZES = (1, 4, 8, 16, 32)

Item = tuple[int, str, str]
"""Number of the text, name in lower case, type."""


@dataclass(frozen=True)
class Result:
    model: str
    dtype: str
    texts: int
    words: int
    gliner_batch_size: int
    gliner_texts_per_s: float
    kgscale_texts_per_s: float
    ratio: float
    """Median of the ratios of the pairs."""
    agreement: float | None
    """F1 between what both found."""
    gliner_f1: float
    kgscale_f1: float
    """F1 (name+type) of both on the demo's gold."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="?", default=JOBS / "demo" / "corpus.jsonl", type=Path)
    parser.add_argument("--model", default="gliner-minilm")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="40 texts, one pair")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.texts, arguments.pairs = 40, 1
    labels = list(Config.model_validate(yaml.safe_load((JOBS / "demo.yaml").read_text())).schema_.entity_types)
    ours = GlinerModel(GlinerEngine(model=arguments.model, dtype=arguments.dtype), labels, threads=arguments.threads)
    plain = Plain(arguments.model, ours, labels)
    texts = read(arguments.documents, plain.longest, arguments.texts)
    words = sum(len(it.split()) for it in texts)
    print(f"{platform.platform()}, {os.cpu_count()} cores, {ours.device}, torch {torch.__version__}")
    print(
        f"{arguments.model}: {len(texts)} texts, {words:,} words, {len(labels)} labels, load {os.getloadavg()[0]:.1f}"
    )

    few = texts[:: max(len(texts) // 32, 1)]
    for side in (plain.entities, partial(entities, ours)):
        # The first call of either allocates and compiles what later ones find there.
        side(few[:4])
    plain.batch_size = min(BATCH_SIZES, key=lambda size: seconds(lambda: plain.entities(few, size)))
    pairs = []
    for number in range(arguments.pairs):
        # In turns, so that neither always comes first.
        sides = (lambda: plain.entities(texts), lambda: entities(ours, texts))
        took = [seconds(it) for it in sides[:: 1 if number % 2 == 0 else -1]]
        pairs.append((took[number % 2], took[1 - number % 2]))
    theirs_s, ours_s = (statistics.median(it) for it in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    gold = load_gold(JOBS / "demo" / "gold.json").chunks
    corpus = {it["chunk_id"]: it["text"] for it in map(json.loads, (JOBS / "demo" / "corpus.jsonl").open())}
    demo = [corpus[it.chunk_id] for it in gold]
    truth = {(n, entity.text.lower(), entity.type) for n, it in enumerate(gold) for entity in it.entities}
    result = Result(
        arguments.model,
        str(ours.dtype).removeprefix("torch."),
        len(texts),
        words,
        plain.batch_size,
        len(texts) / theirs_s,
        len(texts) / ours_s,
        ratio,
        f1(plain.entities(texts), entities(ours, texts)),
        f1(truth, plain.entities(demo)) or 0.0,
        f1(truth, entities(ours, demo)) or 0.0,
    )
    print(f"{'':24} {'texts/s':>8} {'demo F1':>8}")
    print(f"{f'library, batches of {plain.batch_size}':24} {result.gliner_texts_per_s:>8.2f} {result.gliner_f1:>8.4f}")
    print(f"{f'kgscale, {result.dtype}':24} {result.kgscale_texts_per_s:>8.2f} {result.kgscale_f1:>8.4f}")
    print(f"{ratio:.2f} times as fast (median of {arguments.pairs} pairs); F1 between both {result.agreement:.3f}")
    print(json.dumps({"benchmark": "entities", **asdict(result)}))


class Plain:
    """The library alone: its own splitter, collator and scorer."""

    def __init__(self, model: str, like: GlinerModel, labels: list[str]) -> None:
        self.model = GLiNER.from_pretrained(str(locate(model, "gliner")), map_location=like.device).eval()
        self.labels = labels
        self.threshold = like.threshold
        self.longest = int(self.model.config.max_len)
        self.batch_size = 8

    def entities(self, texts: Sequence[str], batch_size: int | None = None) -> set[Item]:
        found = self.model.inference(
            list(texts), self.labels, batch_size=batch_size or self.batch_size, threshold=self.threshold
        )
        return {(n, it["text"].lower(), it["label"]) for n, entities in enumerate(found) for it in entities}


def entities(model: GlinerModel, texts: Sequence[str]) -> set[Item]:
    return {(n, it.text.lower(), it.type) for n, found in enumerate(model.extract(texts)) for it in found.entities}


def read(path: Path, longest: int, number: int) -> list[str]:
    """Pieces of the chunks of some documents, none longer than a window by GLiNER's own count of words."""
    config = CorpusConfig(path=str(path))
    chunks = chunks_of(read_corpus(path, Faults(), Notices()), config)
    pieces = (
        piece for chunk in chunks for piece in text_windows(chunk.text, word_offsets(chunk.text), longest * 3 // 4)
    )
    return list(islice(pieces, number))


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def f1(one: set[Item], other: set[Item]) -> float | None:
    both = len(one) + len(other)
    return 2 * len(one & other) / both if both else None


if __name__ == "__main__":
    main()

"""Training a GLiNER as `kgscale finetune gliner` does, beside gliner's own Trainer: `python benchmarks/finetune.py`.

The same base, texts, batch size and number of steps; each side in a process of its own, in turns, from the base anew in
every round. Speed is that of training alone: no loading, evaluating or writing. The library gets the best F1 of the
learning rates named by `--rates`; its threshold is chosen on the same held-out texts as kgscale's. F1 is that of a test
part that neither has seen. The texts are kgscale's own synthetic sentences under made-up type names, which the base has
to learn. The bar is three times the library's speed on two cores, at the same F1 or a better one.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.sides import Child, Side, machine, serve
from kgscale.config import GlinerEngine, SchemaConfig
from kgscale.finetune import synthetic
from kgscale.finetune.examples import Example, ngrams, without

TYPES = {
    "software": "SW", "library": "SW", "os": "SW", "pl": "PL", "corp": "FIRM", "company": "FIRM", "agency": "BODY",
    "university": "BODY", "person": "PER", "city": "TOWN", "country": "LAND", "date": "WHEN", "protocol": "PROT",
    "version": "VER", "hardware": "HW",
}  # fmt: skip
"""What the types of the synthetic sentences are called here; others are not annotated."""
SHOWN_AS = {"gliner": "gliner's Trainer", "kgscale": "kgscale"}


@dataclass(frozen=True)
class Result:
    base: str
    steps: int
    batch: int
    texts: int
    gliner_sentences_per_s: float
    kgscale_sentences_per_s: float
    ratio: float
    """Median of the ratios of the rounds."""
    base_f1: float
    gliner_f1: float
    kgscale_f1: float
    """On the test part; medians."""


def main() -> None:
    arguments = parsed()
    if arguments.child:
        sides: dict[str, Callable[[argparse.Namespace], Side]] = {"gliner": Theirs, "kgscale": Ours}
        serve(partial(sides[arguments.child], arguments))
        return
    print(machine())
    with TemporaryDirectory() as folder:
        write_texts(Path(folder), arguments.texts, arguments.held_out)
        given = [*sys.argv[1:], "--folder", folder]
        environ = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        with (
            Child(__file__, [*given, "--child", "gliner"], environ) as theirs,
            Child(__file__, [*given, "--child", "kgscale"], environ) as ours,
        ):
            ours.started()
            theirs.started()
            base_f1 = float(ours.measure(-1)["f1"])
            rounds = []
            for number in range(arguments.rounds):
                order = (theirs, ours) if number % 2 == 0 else (ours, theirs)
                found = {side: side.measure(number) for side in order}
                rounds.append((found[theirs], found[ours]))
                for name, it in zip(SHOWN_AS, rounds[-1], strict=True):
                    print(f"round {number}: {SHOWN_AS[name]:16} {told(it)}", flush=True)
            memory = [it.memory.stop() for it in (theirs, ours)]
    speeds, scores = (
        [statistics.median(it[side][key] for it in rounds) for side in (0, 1)] for key in ("sentences_per_s", "f1")
    )
    ratio = statistics.median(ours["sentences_per_s"] / theirs["sentences_per_s"] for theirs, ours in rounds)
    print(f"{'':18} {'sentences/s':>11} {'test F1':>8} {'GiB':>6}")
    print(f"{arguments.base[-18:]:18} {'':>11} {base_f1:>8.3f}")
    for name, *cells in zip(SHOWN_AS, speeds, scores, memory, strict=True):
        print(f"{SHOWN_AS[name]:18} {cells[0]:>11.1f} {cells[1]:>8.3f} {cells[2]:>6.1f}")
    print(f"kgscale trains {ratio:.2f} times as fast (median of {len(rounds)} rounds)")
    result = Result(
        arguments.base,
        arguments.steps,
        arguments.batch,
        arguments.texts,
        gliner_sentences_per_s=speeds[0],
        kgscale_sentences_per_s=speeds[1],
        ratio=ratio,
        base_f1=base_f1,
        gliner_f1=scores[0],
        kgscale_f1=scores[1],
    )
    print(json.dumps({"benchmark": "finetune", **asdict(result)}))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="gliner-minilm")
    parser.add_argument("--texts", type=int, default=600, help="to train on")
    parser.add_argument("--held-out", type=int, default=150, help="to evaluate on, and as many to test on")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", type=float, nargs="*", default=[5e-5], help="of the library, tried in every round")
    parser.add_argument("--bf16", action="store_true", help="let the library compute in bfloat16 too")
    parser.add_argument("--full", action="store_true", help="let kgscale train all weights too")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="40 steps, one round, few texts")
    parser.add_argument("--child", choices=SHOWN_AS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.steps, arguments.rounds, arguments.texts, arguments.held_out = 40, 1, 200, 60
    return arguments


def write_texts(folder: Path, texts: int, held_out: int) -> None:
    """Files to train, evaluate and test on, in gliner's training format, of sentences with an entity.

    No sentence to train on shares eight words in a row with the others: kgscale would refuse it.
    """
    known = [it for it in synthetic.sentences(12 * (texts + 2 * held_out), seed=11) if spans(it)]
    distinct = list({it.words: it for it in known}.values())
    apart, rest = distinct[: 2 * held_out], distinct[2 * held_out :]
    forbidden = set[int]().union(*(ngrams(it.words) for it in apart))
    train = list(islice(without(rest, forbidden), texts))
    if len(train) < texts:
        raise SystemExit(f"only {len(train)} sentences could be written")
    for name, part in {"train": train, "eval": apart[:held_out], "test": apart[held_out:]}.items():
        items = [{"tokenized_text": list(it.words), "ner": spans(it)} for it in part]
        (folder / f"{name}.json").write_text(json.dumps(items), encoding="utf-8")


def spans(example: Example) -> list[list[Any]]:
    return [[it.start, it.end, TYPES[it.label]] for it in example.spans if it.label in TYPES]


def told(found: dict[str, Any]) -> str:
    return " ".join(f"{name} {value:.4g}" for name, value in found.items())


class Scorer:
    """Scores a model on the test part as kgscale scores, at the threshold that is best on the part to evaluate on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.schema = SchemaConfig(entity_types=dict.fromkeys(TYPES.values()))

    def __call__(self, model: str, threshold: float | None = None) -> dict[str, float]:
        if threshold is None:
            threshold = self._measure(model, "eval")["threshold"]
        return {"f1": self._measure(model, "test", threshold)["f1"], "threshold": threshold}

    def _measure(self, model: str, part: str, threshold: float | None = None) -> dict[str, float]:
        from kgscale.finetune.gliner_base import find_base
        from kgscale.finetune.gliner_held import HeldOut
        from kgscale.finetune.own import read_own
        from kgscale.finetune.threshold import CANDIDATES

        records = read_own([self.folder / f"{part}.json"], self.schema).records
        candidates = CANDIDATES if threshold is None else (threshold,)
        held = HeldOut(find_base(model, print).open(), GlinerEngine(), self.schema, records, candidates=candidates)
        return held({})


class Theirs:
    """gliner's own `train_model`, with its defaults but for the learning rate."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import torch

        torch.set_num_threads(arguments.threads)
        self.arguments = arguments
        self.score = Scorer(arguments.folder)
        self.train = json.loads((arguments.folder / "train.json").read_text(encoding="utf-8"))

    def measure(self, number: int) -> dict[str, Any]:
        tried = [self._train(rate, number) for rate in self.arguments.rates]
        return max(tried, key=lambda it: float(it["f1"]))

    def _train(self, rate: float, number: int) -> dict[str, Any]:
        import torch

        from kgscale.extract.gliner import load_gliner
        from kgscale.pretrained import locate

        it = self.arguments
        gliner = load_gliner(locate(it.base, "gliner"))
        out = it.folder / f"theirs-{number}-{rate}"
        begun = time.perf_counter()
        gliner.train_model(
            [dict(item) for item in self.train],
            None,
            output_dir=out,
            learning_rate=rate,
            max_steps=it.steps,
            per_device_train_batch_size=it.batch,
            use_cpu=not torch.cuda.is_available(),
            bf16=it.bf16,
            save_strategy="no",
            dataloader_num_workers=0,
            disable_tqdm=True,
            seed=number,
        )
        seconds = time.perf_counter() - begun
        gliner.save_pretrained(str(out), safe_serialization=True)
        speed = it.steps * it.batch / seconds
        return {"seconds": seconds, "sentences_per_s": speed, **self.score(str(out)), "rate": rate}

    def close(self) -> None:
        """Nothing was started."""


class Ours:
    """The job behind `kgscale finetune gliner`."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import torch

        torch.set_num_threads(arguments.threads)
        self.arguments = arguments
        self.score = Scorer(arguments.folder)

    def measure(self, number: int) -> dict[str, Any]:
        from kgscale.finetune.gliner_job import Job, finetune_gliner

        it = self.arguments
        if number < 0:
            return {"seconds": 0.0, **self.score(it.base)}
        train, held, out = it.folder / "train.json", it.folder / "eval.json", it.folder / f"ours-{number}"
        rank = 0 if it.full else 16
        settings = {"steps": it.steps, "batch": it.batch, "patience": 0, "seed": number, "rank": rank}
        job = Job(self.score.schema, GlinerEngine(), [train], [held], [], it.base, out, **settings)
        begun = time.perf_counter()
        finetune_gliner(job, print)
        seconds = time.perf_counter() - begun
        log = out.with_name(f"{out.name}.training") / "log.jsonl"
        rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        speed = [row["sentences_per_second"] for row in rows if "sentences_per_second" in row][-1]
        return {"seconds": seconds, "sentences_per_s": speed, **self.score(str(out), 0.5)}

    def close(self) -> None:
        """Nothing was started."""


if __name__ == "__main__":
    main()

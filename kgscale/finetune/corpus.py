"""Build the training and held-out files of the default GLiNER model out of its sources.

`python -m kgscale.finetune.corpus --data DIR --silver FILE --out DIR [--exclude FILE ...]`, where DIR holds the public
sets under their usual names and `--exclude` names texts that will be scored: nothing that shares eight words with them
is kept.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from kgscale.finetune import sources, synthetic
from kgscale.finetune.examples import WORD, Example, Span, ngrams, read_examples, without, write_examples

SYNTHETIC = 14_000
DEV_EACH = 150
# Small hand-annotated sets count more than once.
REPEATS = {"silver": 1, "synthetic": 1, "re_docred": 2, "re3d": 2, "somesci": 4, "tekgen": 3}
SEED = 7


def joined(examples: Sequence[Example], rng: random.Random, share: float = 0.12) -> Iterator[Example]:
    """Glue runs of two to five examples together, so that the model sees texts longer than a sentence."""
    at = 0
    while at < len(examples):
        count = rng.randint(2, 5) if rng.random() < share else 1
        words: list[str] = []
        spans: list[Span] = []
        for example in examples[at : at + count]:
            spans += [Span(s.start + len(words), s.end + len(words), s.label) for s in example.spans]
            words += example.words
        yield Example(tuple(words), tuple(spans), examples[at].source)
        at += count


def build(data: Path, silver: Path, forbidden: set[int], seed: int = SEED) -> tuple[list[Example], list[Example]]:
    """The examples to train on, shuffled, and the held-out ones (up to 150 of each source)."""
    rng = random.Random(seed)  # noqa: S311
    somesci = list(sources.somesci(data / "somesci", held_out=True))
    kept_apart = forbidden.union(*(ngrams(example.words) for example in somesci))
    found = {
        "silver": read_examples(silver),
        "synthetic": synthetic.sentences(SYNTHETIC, seed),
        "re_docred": sources.re_docred(data / "re_docred" / "dev_200docs.json"),
        "re3d": itertools.chain(sources.re3d(data / "re3d/Wikipedia"), sources.re3d(data / "re3d/UK_Government")),
        "somesci": sources.somesci(data / "somesci", held_out=False),
        "tekgen": sources.tekgen(data / "tekgen"),
    }
    train: list[Example] = []
    dev: list[Example] = []
    for name, examples in found.items():
        # Two in three sentences without any entity are left out: negatives come from the labels.
        clean = [e for e in without(examples, kept_apart) if e.spans or name == "synthetic" or rng.random() < 1 / 3]
        held = {clean[i].words for i in rng.sample(range(len(clean)), min(DEV_EACH, len(clean) // 10))}
        dev += list({example.words: example for example in clean if example.words in held}.values())
        rest = [example for example in clean if example.words not in held]
        for _ in range(REPEATS[name]):
            train += joined(rest, rng)
    rng.shuffle(train)
    return train, dev


def main() -> None:
    """Build from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--silver", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--exclude", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    forbidden: set[int] = set()
    for path in options.exclude:
        # Column files hold a word and its tags in each line, and an empty line between sentences.
        for block in path.read_text(encoding="utf-8", errors="replace").split("\n\n"):
            first = " ".join(line.split()[0] for line in block.splitlines() if line.split())
            forbidden |= ngrams(WORD.findall(first)) | ngrams(WORD.findall(block))
    train, dev = build(options.data, options.silver, forbidden)
    for name, examples in (("train", train), ("dev", dev)):
        write_examples(options.out / f"{name}.jsonl.gz", examples)
        print(name, len(examples), dict(Counter(example.source for example in examples)))


if __name__ == "__main__":
    main()

"""Damaged files of every format, on and on: `python -m tests.formats.fuzz --seconds 600 --seed 1` (`make fuzz`).

Each round damages one file of a good set and converts the set to some other format. It must be read or refused, within
`LIMIT_S` of computing, with nothing left lying about. What fails is kept in a directory that is named, and makes the
exit code 1.
"""

import argparse
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kgscale.errors import KgscaleError
from kgscale.formats import READERS, WRITERS, convert, convert_files
from kgscale.formats.lightrag import CACHE, CHUNKS
from tests.corpus.test_pdf import pdf_of

LIMIT_S = 20.0
"""CPU time: what a busy machine takes away is no fault."""
DEMO_GOLD = Path(__file__).parents[2] / "jobs" / "demo" / "gold.json"
DOCBIN = Path(__file__).with_name("three_docs.spacy")
WRITTEN = ("gliner", "gliner2", "brat", "conll", "label-studio", "graphrag", "lightrag")
"""Formats whose good sets kgscale writes itself."""
PIECES = (
    *(b"null", b"NaN", b"-1", b"1e999", b"\\ud800", b"\xff", b"\0", b"[[[", b"}", b'"', b",", b"99999999999999999999"),
    *(b"<|#|>", b"\xef\xbb\xbf", b"\r\n", b"\t", b"{}", b"[]", b"true", b" ", b"<!DOCTYPE x>"),
)


@dataclass
class Tally:
    """What became of the rounds."""

    rounds: Counter[str] = field(default_factory=Counter)
    """By format."""
    read: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)


class _LateError(Exception):
    """A conversion took too long."""


def main() -> None:
    """Fuzz from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kgscale-fuzz-"))
    tally = fuzz(folder, options.seconds, options.seed, lambda line: print(line, flush=True))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{tally.rounds.total():,} rounds in {options.seconds:.0f} s, seed {options.seed}: {tally.read:,} read, ")
    print(f"{tally.refused:,} refused, {len(tally.faults)} faults; peak {peak_mb} MB; by format: {dict(tally.rounds)}")
    if tally.faults:
        sys.exit(1)
    shutil.rmtree(folder)


def fuzz(folder: Path, seconds: float, seed: int, say: Callable[[str], None]) -> Tally:
    """Damage and convert until the time is up; what fails is kept below `folder`. Only for the main thread."""
    rng = random.Random(seed)
    good = folder / "good"
    write_good(good)
    names = sorted(it.name for it in good.iterdir())
    work, out = folder / "work", folder / "out"
    tally = Tally()
    before = signal.signal(signal.SIGPROF, _late)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            name = rng.choice(names)
            for it in (work, out):
                shutil.rmtree(it, ignore_errors=True)
            shutil.copytree(good / name, work)
            file = rng.choice(sorted(it for it in work.rglob("*") if it.is_file()))
            file.write_bytes(damaged(file.read_bytes(), rng))
            fault = _convert(work, out, name, rng, tally)
            tally.rounds[name] += 1
            left = [str(it.relative_to(folder)) for it in folder.rglob("*.tmp")]
            if fault or left:
                kept = folder / f"fault-{len(tally.faults)}"
                shutil.copytree(work, kept)
                tally.faults.append(f"{name}: {fault or f'left behind: {left}'}; kept in {kept}")
                say(tally.faults[-1])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return tally


def _convert(work: Path, out: Path, name: str, rng: random.Random, tally: Tally) -> str | None:
    fmt = name.partition("+")[0]
    to = rng.choice([*WRITERS, "run"])
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        convert_files(work, out, rng.choice([fmt, fmt, None]), to, say=lambda _: None)
        tally.read += 1
    except KgscaleError as error:
        tally.refused += 1
        return None if error.message.strip() else "a refusal without a reason"
    except _LateError:
        return f"to {to}: more than {LIMIT_S:.0f} s of CPU"
    except Exception as error:  # noqa: BLE001  whatever is not a refusal is what is looked for
        return f"to {to}: {''.join(traceback.format_exception(error)[-3:])}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _late(*_: object) -> None:
    raise _LateError


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with some of them changed, cut, doubled, moved, or mixed with pieces that parsers trip over."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        if not found:
            break
        at, other = rng.randrange(len(found)), rng.randrange(len(found))
        size = rng.choice([1, 5, 50, 500])
        match rng.randrange(7):
            case 0:
                found[at] = rng.randrange(256)
            case 1:
                del found[at:]
            case 2:
                del found[at : at + size]
            case 3:
                found[at:at] = rng.choice(PIECES)
            case 4:
                found[at : at + size] = rng.choice(PIECES)
            case 5:
                found[at:at] = found[at : at + size]
            case _:
                found[at : at + size] = found[other : other + size]
    return bytes(found)


def write_good(folder: Path) -> None:
    """Write a small good set of each format that is read, each in a directory by its name (`+` begins a variant)."""
    chunks = json.loads(DEMO_GOLD.read_text(encoding="utf-8"))["chunks"]
    some = [chunks[0], next(it for it in chunks if not it["text"].isascii()), chunks[-1]]
    _write(folder / "guide" / "gold.json", json.dumps({"chunks": some}, ensure_ascii=False))
    for to in WRITTEN:
        convert(folder / "guide", folder / to, "guide", to=to)
    (folder / "label-studio" / "labels.xml").unlink()
    for name, (file, content) in SMALL.items():
        for each, text in zip(file.split(), content, strict=True):
            _write(folder / name / each, text)
    (folder / "docbin").mkdir()
    shutil.copy(DOCBIN, folder / "docbin")
    (folder / "text" / "c.pdf").write_bytes(pdf_of("Ada.", "Bob."))
    missing = set(READERS) - {it.name.partition("+")[0] for it in folder.iterdir()} - {"run"}
    assert not missing, f"no good set of {missing}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


_TOKENS = ["John", "lives", "in", "Oslo"]
_PUBTATOR = "1|t|Aspirin helps\n1|a|It did.\n1\t0\t7\tAspirin\tChemical\tD1\n1\tBind\tD1\tD1\tNovel\n\n"
_ANSWERS = (
    "entity<|#|>John<|#|>person<|#|>Who lives.\nrelation<|#|>John<|#|>Oslo<|#|>lives<|#|>He does.\n<|COMPLETE|>",
    '("entity"<|>"JOHN"<|>"person"<|>"Who lives")##("relationship"<|>"JOHN"<|>"OSLO"<|>"He does"<|>"lives"<|>9)',
    '{"entities": [{"name": "John", "type": "person"}], "relationships": [{"source": "John", "target": "Oslo"}]}',
)
SMALL: dict[str, tuple[str, list[str]]] = {
    "docred": (
        "a.json",
        [
            json.dumps(
                [
                    {
                        "title": "t",
                        "sents": [_TOKENS, _TOKENS],
                        "vertexSet": [
                            [{"name": name, "pos": [at, at + 1], "sent_id": 0, "type": "PER"}]
                            for name, at in (("John", 0), ("Oslo", 3))
                        ],
                        "labels": [{"h": 0, "t": 1, "r": "P551", "evidence": [0]}],
                    }
                ]
            )
        ],
    ),
    "spert": (
        "a.json",
        [
            json.dumps(
                [
                    {
                        "tokens": _TOKENS,
                        "entities": [{"type": "P", "start": 0, "end": 1}, {"type": "L", "start": 3, "end": 4}],
                        "relations": [{"type": "lives", "head": 0, "tail": 1}],
                        "orig_id": 1,
                    }
                ]
            )
        ],
    ),
    "scierc": (
        "a.json",
        [
            json.dumps(
                {
                    "doc_key": "X",
                    "sentences": [_TOKENS],
                    "ner": [[[0, 0, "P"], [3, 3, "L"]]],
                    "relations": [[[0, 0, 3, 3, "lives"]]],
                    "clusters": [],
                }
            )
        ],
    ),
    "crossre": (
        "a.json",
        [
            json.dumps(
                {
                    "doc_key": "k",
                    "sentence": _TOKENS,
                    "ner": [[0, 0, "P"], [3, 3, "L"]],
                    "relations": [[0, 0, 3, 3, "lives", "", False, False]],
                }
            )
        ],
    ),
    "tekgen": (
        "a.jsonl",
        [
            json.dumps(
                {"id": "i", "sent": "John lives in Oslo", "triples": [{"sub": "John", "rel": "lives", "obj": "Oslo"}]}
            )
        ],
    ),
    "pubtator": ("a.txt", [_PUBTATOR]),
    "re3d": (
        "documents.json entities.json relations.json",
        [
            json.dumps({"_id": "d", "text": "John lives in Oslo"}),
            "\n".join(
                json.dumps({"_id": name, "documentId": "d", "begin": at, "end": at + 4, "type": "P", "value": name})
                for name, at in (("John", 0), ("Oslo", 14))
            ),
            json.dumps({"_id": "r", "documentId": "d", "source": "John", "target": "Oslo", "type": "lives"}),
        ],
    ),
    "lightrag+cache": (
        f"{CHUNKS} {CACHE}",
        [
            json.dumps({f"c{it}": {"content": "John lives in Oslo", "full_doc_id": "d"} for it in range(3)}),
            json.dumps(
                {
                    f"default:extract:{it}": {"return": text, "cache_type": "extract", "chunk_id": f"c{it}"}
                    for it, text in enumerate(_ANSWERS)
                }
            ),
        ],
    ),
    "text": ("a.html b.md", ["<h1>T</h1><p>John lives in Oslo.</p>", "# T\n\nJohn lives in Oslo.\n"]),
}
"""Small good sets of the formats that are only read: the names of the files, and what stands in each."""


if __name__ == "__main__":
    main()

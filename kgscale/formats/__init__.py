"""Other people's files: what is read, by the name that the command line gives it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from kgscale.errors import UserError
from kgscale.formats.brat import read_brat
from kgscale.formats.common import Converted, Record, Report, whole_file
from kgscale.formats.conll import read_conll
from kgscale.formats.crossre import read_crossre
from kgscale.formats.gold import Gold, load_gold, prepare_gold, write_gold
from kgscale.formats.guide import read_guide, write_guide_gold, write_guide_predictions

__all__ = [
    "READERS",
    "Converted",
    "Gold",
    "Record",
    "Report",
    "convert",
    "load_gold",
    "prepare_gold",
    "write_gold",
    "write_guide_predictions",
]

READERS: dict[str, Callable[[Path], Converted]] = {
    "guide": read_guide,
    "crossre": read_crossre,
    "brat": read_brat,
    "conll": read_conll,
}

CORPUS_FILE = "corpus.jsonl"
GOLD_FILE = "gold.json"


def convert(src: Path, dst: Path, fmt: str, *, overwrite: bool = False) -> Report:
    """Read a file or directory in one of the `READERS`' formats; write `corpus.jsonl` and `gold.json` below `dst`.

    One record is in memory at a time (but the reader of `guide` holds its whole file). Raises `UserError` if the format
    is unknown, the source cannot be read or holds nothing, or a file would be written over; then nothing is written.
    """
    if fmt not in READERS:
        raise UserError(f"unknown format {fmt!r}", hint=f"known: {', '.join(READERS)}")
    corpus, gold = dst / CORPUS_FILE, dst / GOLD_FILE
    there = [str(file) for file in (corpus, gold) if file.exists()]
    if there and not overwrite:
        raise UserError(f"{' and '.join(there)} would be written over", hint="name another directory, or remove it")
    result = READERS[fmt](src)
    with whole_file(corpus) as file:

        def passing() -> Iterator[Record]:
            for record in result.records:
                line = {"chunk_id": record.gold.chunk_id, "doc_id": record.doc_id, "text": record.text}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                yield record

        write_guide_gold(gold, passing())
    return result.report

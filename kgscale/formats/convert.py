"""From one format to another: one record in memory at a time, everything that is lost on the way told."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from kgscale.errors import UserError
from kgscale.formats.brat import read_brat, write_brat
from kgscale.formats.common import Converted, Record, Report, forbid_missing, refuse_misfits
from kgscale.formats.conll import read_conll, write_conll
from kgscale.formats.crossre import read_crossre
from kgscale.formats.docbin import read_docbin
from kgscale.formats.docred import read_docred
from kgscale.formats.gliner import read_gliner, write_gliner
from kgscale.formats.gliner2 import read_gliner2, write_gliner2
from kgscale.formats.graphrag import read_graphrag, write_graphrag
from kgscale.formats.guess import guess_format
from kgscale.formats.guide import read_guide, write_guide_gold, write_guide_predictions
from kgscale.formats.labelstudio import read_label_studio, write_label_studio
from kgscale.formats.lightrag import read_lightrag, write_lightrag
from kgscale.formats.output import whole_file
from kgscale.formats.pubtator import read_pubtator
from kgscale.formats.re3d import read_re3d
from kgscale.formats.rundir import extraction_of, import_run, read_run
from kgscale.formats.scierc import read_scierc
from kgscale.formats.spert import read_spert
from kgscale.formats.tekgen import read_tekgen
from kgscale.formats.text import read_text_corpus

READERS: dict[str, Callable[[Path], Converted]] = {
    "guide": read_guide,
    "lightrag": read_lightrag,
    "graphrag": read_graphrag,
    "gliner": read_gliner,
    "gliner2": read_gliner2,
    "docred": read_docred,
    "spert": read_spert,
    "scierc": read_scierc,
    "crossre": read_crossre,
    "tekgen": read_tekgen,
    "pubtator": read_pubtator,
    "brat": read_brat,
    "conll": read_conll,
    "docbin": read_docbin,
    "label-studio": read_label_studio,
    "re3d": read_re3d,
    "text": read_text_corpus,
    "run": read_run,
}
"""What is read, by the name that the command line gives it."""

RUN = "run"
CORPUS_FILE = "corpus.jsonl"
GOLD_FILE = "gold.json"

T = TypeVar("T")
Writer = Callable[[Iterable[Record], Path, Report], None]


@dataclass(frozen=True, slots=True)
class Target:
    """What can be written: how, and to which files in the directory that the user names."""

    write: Writer
    """Takes the records, the file (or directory, where `files` is empty) and the report of what could not be held."""
    files: tuple[str, ...] = ()
    """The first may also be named by the user: a path with its suffix is that file, and the others take its name."""
    alone: bool = False
    """Whether a file that the user names is written without the others."""
    examples: bool = False
    """Whether each text stands there as an example, so that one without annotation would be a false one."""


def _write_guide(records: Iterable[Record], path: Path, _: Report) -> None:
    """The annotation, and beside it, in a directory of its own, the texts as a corpus."""
    if path.name != GOLD_FILE:
        write_guide_gold(path, records)
        return
    with whole_file(path.with_name(CORPUS_FILE)) as file:

        def annotated() -> Iterator[Record]:
            for record in records:
                line = {"chunk_id": record.gold.chunk_id, "doc_id": record.doc_id, "text": record.text}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                if record.annotated:
                    yield record

        if not write_guide_gold(path, annotated()):
            path.unlink()


def _write_predictions(records: Iterable[Record], path: Path, _: Report) -> None:
    """The annotation as what a method found."""
    write_guide_predictions(path, (extraction_of(it, it.gold, row, "") for row, it in enumerate(records)))


WRITERS: dict[str, Target] = {
    "guide": Target(_write_guide, (GOLD_FILE, CORPUS_FILE), alone=True),
    "predictions": Target(_write_predictions, ("predictions.json",)),
    "lightrag": Target(write_lightrag, ("custom_kg.json",)),
    "graphrag": Target(write_graphrag),
    "gliner": Target(write_gliner, ("train.json",), examples=True),
    "gliner2": Target(write_gliner2, ("train.jsonl",), examples=True),
    "brat": Target(write_brat),
    "conll": Target(write_conll, ("gold.conll",), examples=True),
    "label-studio": Target(write_label_studio, ("tasks.json", "labels.xml")),
}
"""What is written, by the name that the command line gives it; a run is written by `import_run`."""


def convert_files(
    src: Path,
    dst: Path,
    fmt: str | None,
    to: str,
    *,
    method: str | None = None,
    gold: Path | None = None,
    strict: bool = False,
    say: Callable[[str], None],
) -> Report:
    """What `kgscale convert` does: `convert`, or `import_run` where `to` is `run`; without `fmt` it is guessed."""
    forbid_missing(src)
    if fmt is None:
        fmt = guess_format(src)
        say(f"reading {src} as {fmt}")
    if to != RUN:
        if method or gold:
            raise UserError("--method and --gold go with --to run")
        return convert(src, dst, fmt, to=to, strict=strict)
    reader = _known(fmt, READERS)

    def read() -> tuple[Report, Iterator[Record]]:
        result = reader(src)
        return result.report, whole(result, strict=strict)

    source = {"format": fmt, "path": str(src.expanduser().absolute()), "files": _signature(src)}
    return import_run(read, dst, method or fmt, source, gold=gold, strict=strict)


def _signature(src: Path) -> str:
    """A hash of the names, sizes and times of the files: what tells that a source has changed."""
    files = sorted(it for it in src.rglob("*") if it.is_file()) if src.is_dir() else [src]
    parts = []
    for file in files:
        stat = file.stat()
        parts.append(f"{file} {stat.st_size} {stat.st_mtime_ns}")
    return sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()


def convert(
    src: Path, dst: Path, fmt: str, *, to: str = "guide", strict: bool = False, overwrite: bool = False
) -> Report:
    """Read a file or directory in one of the `READERS`' formats and write it as one of `WRITERS`.

    `dst` is a directory, or the file itself where the format has one and its suffix fits. With `strict` anything that
    would be left out is an error. Raises `UserError` if a format is unknown, the source cannot be read or holds
    nothing, or a file would be written over; then nothing is written.
    """
    reader = _known(fmt, READERS)
    target = _known(to, WRITERS)
    path, files = _places(dst, target)
    there = sorted(str(file) for file in files if file.exists())
    if there and not overwrite:
        raise UserError(f"{' and '.join(there)} would be written over", hint="name another directory, or remove it")
    result = reader(src)
    target.write(whole(result, strict=strict, examples=target.examples), path, result.report)
    return result.report


def whole(result: Converted, *, strict: bool, examples: bool = False) -> Iterator[Record]:
    """The records, of `examples` only the annotated; with `strict`, a `UserError` at the end if there was a problem."""
    for record in result.records:
        if record.annotated or not examples:
            yield record
        else:
            result.report.skip(record.gold.chunk_id, "not written: a text without annotation")
    if strict:
        refuse_misfits(result.report)


def _known(name: str, table: dict[str, T]) -> T:
    if name not in table:
        raise UserError(f"unknown format {name!r}", hint=f"known: {', '.join(sorted({*table, RUN}))}")
    return table[name]


def _places(dst: Path, target: Target) -> tuple[Path, list[Path]]:
    """What the writer is given, and what must not be there yet."""
    if not target.files:
        return dst, []
    first, *others = target.files
    if dst.suffix == Path(first).suffix and dst.name != first and not dst.is_dir():
        return dst, [dst, *([] if target.alone else [dst.with_suffix(Path(name).suffix) for name in others])]
    if dst.name == first:
        dst = dst.parent
    return dst / first, [dst / name for name in (first, *others)]

"""The files of a gold set: samples (JSON lines) and annotated sets (the guide's JSON, or a run's Parquet)."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgscale.config import SchemaConfig
from kgscale.configfile import load_config
from kgscale.corpus.notices import Faults, Notices
from kgscale.corpus.rows import read_rows
from kgscale.errors import UserError
from kgscale.formats import load_gold
from kgscale.formats.common import Record
from kgscale.formats.guide import read_guide
from kgscale.formats.output import whole_file
from kgscale.records import GoldChunk
from kgscale.runs import RUN_FILE, Run

Say = Callable[[str], None]
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Settings:
    """What a config file or a run says about a gold set; `run` is null where there is none yet."""

    schema: SchemaConfig
    run: Run | None = None


def read_settings(path: str | None) -> Settings:
    """The schema of a config file or a run directory, and the run if there is one; the default schema for null."""
    if path is None:
        return Settings(SchemaConfig())
    if path.endswith((".yaml", ".yml")):
        config = load_config(path)
        return Settings(config.schema_, Run(config.run) if Run.exists(config.run) else None)
    run = Run(path)
    return Settings(run.config.schema_, run)


def is_run(path: str) -> bool:
    """Whether a path is a run directory (and not a file that lies in one)."""
    return not Path(path).is_file() and Run.exists(path)


def read_annotation(path: Path, say: Say) -> list[GoldChunk]:
    """The chunks of a gold file; `say` hears of what could not be read."""
    found = load_gold(path)
    _tell(found.report.problems, say)
    return found.chunks


def read_set(path: Path, say: Say) -> list[Record]:
    """The texts of a sample, or of a gold file with its annotation; `say` hears of what does not fit.

    Raises `UserError` if the file is missing or damaged, holds no text, or an id stands twice.
    """
    if not path.is_file():
        hint = f"name {path / RUN_FILE}'s gold.parquet" if is_run(str(path)) else None
        raise UserError(f"there is no file {path}", hint=hint)
    records = {".jsonl": _sampled, ".parquet": _scored}.get(path.suffix, _annotated)(path, say)
    if not records:
        raise UserError("has no chunk with a text", where=str(path))
    return records


def _sampled(path: Path, say: Say) -> list[Record]:
    faults, notices = Faults(), Notices()
    documents = list(read_rows(path, faults, notices))
    faults.raise_if_any(f"{path} cannot be used as it is", hint="mend or remove what is named")
    _tell(notices, say)
    if any(it.chunk_id is None for it in documents):
        raise UserError("its records have no chunk_id", where=str(path), hint="make it with `kgscale gold sample`")
    return [
        Record(it.doc_id, it.text, GoldChunk(str(it.chunk_id), [], [], text=it.text), annotated=False)
        for it in documents
    ]


def _annotated(path: Path, say: Say) -> list[Record]:
    found = read_guide(path)
    records = list(found.records)
    _tell(found.report.problems, say)
    return records


def _scored(path: Path, say: Say) -> list[Record]:
    found = load_gold(path)
    _tell(found.report.problems, say)
    return [Record(it.chunk_id, it.text, it) for it in found.chunks if it.text is not None]


def _tell(notices: Notices, say: Say) -> None:
    for kind, count in notices.counts.items():
        shown = [it for it in notices.first if it.message.startswith(kind)][:SHOWN]
        for it in shown:
            say(str(it))
        if count > len(shown):
            say(f"… and {count - len(shown):,} more: {kind}")


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write JSON lines, the whole file or none of it."""
    with whole_file(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def refuse_overwriting(path: Path) -> None:
    """Raise `UserError` if there is a file already: hours of someone's work may be in it."""
    if path.exists():
        raise UserError(f"{path} would be written over", hint="name another file, or remove it")


def known_texts(paths: Sequence[Path]) -> Iterator[tuple[Path, str, str | None]]:
    """File, chunk id and text (where the file has it) of everything in samples and gold files."""
    for path in paths:
        if path.suffix == ".jsonl":
            yield from ((path, it.gold.chunk_id, it.text) for it in _sampled(path, lambda _: None))
        else:
            yield from ((path, it.chunk_id, it.text) for it in load_gold(path).chunks)

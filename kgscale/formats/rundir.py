"""Extractions into a run and out of it: what another tool found is scored like any method, without a GPU."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kgscale
from kgscale.config import Config, CorpusConfig, RelationType, SchemaConfig
from kgscale.corpus import prepare_corpus
from kgscale.errors import UserError
from kgscale.formats.common import Converted, Record, Report, converted, grounded, refuse_misfits, with_checked_offsets
from kgscale.formats.gold import load_gold, prepare_gold
from kgscale.formats.output import whole_directory, whole_file
from kgscale.lock import driver_lock
from kgscale.records import Chunk, Entity, Extraction, GoldChunk, GoldEntity, Origin, Status
from kgscale.runs import EXTRACTIONS, Run, Shard
from kgscale.store import Store

CORPUS_FILE = "corpus.jsonl"
LOCKED_BY = "kgscale convert --to run"
USABLE = (Status.OK, Status.TRUNCATED)
MISSING = "missing: the source has no such chunk"
NOBODY = "missing: the source has no annotation of this chunk"
OTHER_TEXT = "was extracted from another text than the run's chunk has"
LACKING = "the source lacks a chunk, whose row has failed"
STRANGE = "left out a chunk that the run does not have"

Read = Callable[[], tuple[Report, Iterator[Record]]]
"""Starts to read the source: its report, and its records."""


def read_run(path: Path) -> Converted:
    """What a method of a run found: of the run's only method, or of the one whose folder is named."""
    report = Report()
    method = path.name if path.parent.name == EXTRACTIONS else None
    run = Run(path.parent.parent if method else path)
    if method is None:
        if len(run.methods) != 1:
            folders = ", ".join(str(path / EXTRACTIONS / it) for it in run.methods)
            raise UserError(f"{path} has several methods", hint=f"name one of them by its folder: {folders}")
        method = run.methods[0]
    run.refuse_faults([method])

    def records() -> Iterator[Record]:
        for start, stop in run.committed(method):
            rows = run.read_rows(Shard(method, start, stop))
            for chunk, row in zip(run.read_chunks(start, stop), rows, strict=True):
                entities = [GoldEntity(it.text, it.type, it.start, it.end) for it in row.entities]
                gold = GoldChunk(chunk.chunk_id, entities, row.relations, Origin.PSEUDO, chunk.text)
                yield Record(chunk.doc_id, chunk.text, gold, row.status, row.error, annotated=row.status in USABLE)

    return converted(path, records(), report)


def import_run(
    read: Read, dst: Path, method: str, source: dict[str, Any], *, gold: Path | None = None, strict: bool = False
) -> Report:
    """Write what a source holds as a method of a run: of a new one, or of one that is there and lacks the method.

    `source` says where it comes from, for the run's fingerprint. The source is read twice, so that nothing is held in
    memory (but chunks that a run that is there has in another order). In a run that is there, its chunks count: those
    that the source lacks become failed rows, those that it has beside are left out and told; with `strict` they are an
    error. Raises `UserError` if the run has such a method already, made from something else.
    """
    if not method or not all(it.isalnum() or it in "-_." for it in method) or method.startswith("."):
        raise UserError(f"the name {method!r}: use letters, digits, `-`, `_` and `.` (it names a directory)")
    stamp = hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()[:16]
    fingerprint = {"stamp": stamp, "imported": source}
    if not Run.exists(dst):
        with whole_directory(dst) as folder:
            run = _create(read, folder, dst, (method, fingerprint), gold)
            with driver_lock(run.store, LOCKED_BY) as token:
                report = _commit(read, run, method, token)
                if strict:
                    refuse_misfits(report)
                return report
    run = Run(dst)
    if method in run.methods and run.fingerprint["methods"][method].get("stamp") != stamp:
        raise UserError(f"the run has a method {method!r} already", where=run.store.uri, hint="name another: --method")
    _refuse_strangers(read, run, strict=strict)
    with driver_lock(run.store, LOCKED_BY) as token:
        if method not in run.methods:
            info = {key: value for key, value in run.info.items() if key != "config"}
            methods = {**run.fingerprint["methods"], method: fingerprint}
            run = Run.create(dst, run.config, {**info, "fingerprint": {**run.fingerprint, "methods": methods}})
        if gold is not None:
            prepare_gold(gold, run.store)
        return _commit(read, run, method, token)


def _refuse_strangers(read: Read, run: Run, *, strict: bool) -> None:
    """Raise `UserError` if no chunk of the source is in the run, or if the source itself is refused.

    With `strict` also if the two have not the same chunks with the same texts.
    """
    texts = {chunk.chunk_id: _digest(chunk.text) for span in run.planned for chunk in run.read_chunks(*span)}
    example = next(iter(texts), None)
    report, records = read()
    common = 0
    for record in records:
        digest = texts.pop(record.gold.chunk_id, None)
        common += digest is not None
        if digest is None:
            report.skip(record.gold.chunk_id, STRANGE)
        elif digest != _digest(record.text):
            report.problems.add(record.gold.chunk_id, OTHER_TEXT)
    if not common:
        raise UserError(
            f"none of the source's chunk ids is in the run, which has for example {example!r}",
            where=run.store.uri,
            hint="methods of a run are joined by chunk_id: let them come from the same chunks, or start another run",
        )
    for chunk_id in texts:
        report.problems.add(chunk_id, LACKING)
    if strict:
        refuse_misfits(report)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _create(read: Read, folder: Path, final: Path, method: tuple[str, dict[str, Any]], gold: Path | None) -> Run:
    """The run in a folder that will have another name: its corpus, its schema from the types that there are."""
    report, records = read()
    with whole_file(folder / CORPUS_FILE) as file:
        for record in records:
            line = {"chunk_id": record.gold.chunk_id, "doc_id": record.doc_id, "text": record.text}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    store = Store(folder)
    summary = prepare_corpus(CorpusConfig(path=str(folder / CORPUS_FILE)), store, say=lambda _: None)
    reports = [report, load_gold(gold).report] if gold else [report]
    symmetric = {it for one in reports for it in one.symmetric_types}
    entity_types = sorted({it for one in reports for it in one.entity_types})
    relation_types = sorted({it for one in reports for it in one.relation_types})
    schema = SchemaConfig(
        entity_types=dict.fromkeys(entity_types) or SchemaConfig().entity_types,
        relation_types={it: RelationType(symmetric=it in symmetric) for it in relation_types},
    )
    place = final.expanduser().absolute()
    config = Config(
        run=str(place),
        corpus=CorpusConfig(path=str(place / CORPUS_FILE)),
        gold=str(gold.expanduser().absolute()) if gold else None,
        schema=schema,
        engines={},
        methods={},
    )
    info = {
        "fingerprint": {
            "corpus": {"sha256": summary.sha256, "chunks": summary.chunks},
            "methods": {method[0]: method[1]},
        },
        "source": "",
        "corpus": {"documents": summary.documents, "words": summary.words, "notices": summary.notice_counts},
        "versions": {"kgscale": kgscale.__version__},
        "hardware": {},
    }
    run = Run.create(folder, config, info)
    if gold is not None:
        prepare_gold(gold, store)
    return run


def _commit(read: Read, run: Run, method: str, token: str) -> Report:
    """Write the rows shard by shard, in the order of the run's chunks."""
    report, records = read()
    waiting: dict[str, Record] = {}
    left = run.remaining(method)
    for shard in left:
        rows = []
        for chunk in run.read_chunks(shard.start, shard.stop):
            record = waiting.pop(chunk.chunk_id, None)
            while record is None and (following := next(records, None)):
                if following.gold.chunk_id == chunk.chunk_id:
                    record = following
                else:
                    waiting[following.gold.chunk_id] = following
            rows.append(_row(chunk, record, method, report))
        run.commit(shard, rows, token)
    if len(left) == len(run.planned):
        for chunk_id in [*waiting, *(it.gold.chunk_id for it in records)]:
            report.skip(chunk_id, STRANGE)
    return report


def _row(chunk: Chunk, record: Record | None, method: str, report: Report) -> Extraction:
    if record is None:
        report.problems.add(chunk.chunk_id, LACKING)
        return Extraction(chunk.chunk_id, chunk.row, chunk.doc_id, method, Status.FAILED, MISSING)
    gold = record.gold
    if record.text != chunk.text:
        report.problems.add(chunk.chunk_id, OTHER_TEXT)
        gold = grounded(with_checked_offsets(gold, chunk.text, chunk.chunk_id, report), chunk.text)
    return extraction_of(record, gold, chunk.row, method)


def extraction_of(record: Record, gold: GoldChunk, row: int, method: str) -> Extraction:
    """A record as a method's row."""
    status, error = record.status, record.error
    if status in USABLE and not record.annotated:
        status, error = Status.FAILED, NOBODY
    entities = [Entity(it.text, it.type, it.start, it.end) for it in gold.entities]
    return Extraction(gold.chunk_id, row, record.doc_id, method, status, error, entities, list(gold.relations))

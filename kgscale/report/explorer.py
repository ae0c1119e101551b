"""The chunk explorer's data: which chunks it shows, read from the run and marked."""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import polars as pl

from kgscale.records import Chunk, Extraction, GoldChunk, GoldEntity, Origin, Relation, extraction_from
from kgscale.report.figures import brief
from kgscale.report.marking import WRONG, EntityRow, Found, KeyTable, Marked, Marker, RelationRow, Span
from kgscale.report.timing import MethodScan
from kgscale.report.view import Focus
from kgscale.runs import CHUNKS_FILE, Run
from kgscale.score.batches import Extractions, find_chunks, to_frame
from kgscale.score.keys import Keys
from kgscale.score.results import Scores
from kgscale.score.tables import PER_CHUNK
from kgscale.talk import visible

MOST_WORST = 240
"""Chunks that are shown because a method did badly on them."""
MOST_SAMPLED = 120
"""Chunks that are shown because chance chose them: the worst alone would paint too dark a picture."""
MOST_CHARACTERS = 6_000
"""Of a chunk's text; the rest is left out, and the page says so."""
MOST_ITEMS = 200
"""Entities of a chunk, and relations, that are listed."""
MOST_BYTES = 3_000_000
"""Of all chunks together, so that the page stays small whatever the corpus is."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A chunk that the explorer shows; the last three have one item per method."""

    chunk: Chunk
    worst: bool
    sampled: bool
    marked: Marked
    statuses: tuple[str, ...]
    """Empty where there is no row."""
    reasons: tuple[str, ...]
    errors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Explorer:
    """What the explorer shows, the most telling chunk first; methods in the order of the report."""

    methods: tuple[str, ...]
    chunks: tuple[Shown, ...]
    total: int
    """Chunks that could have been shown: of the gold, else of the corpus."""
    has_gold: bool

    @property
    def types(self) -> list[str]:
        """The entity and relation types that occur, sorted."""
        entities = {row.type for it in self.chunks for row in it.marked.entities}
        return sorted(entities | {row.type for it in self.chunks for row in it.marked.relations})


def explore(run: Run, scores: Scores, focus: Focus, scans: Sequence[MethodScan], seed: int) -> Explorer:
    """Choose chunks, read them and mark them; with equal files and seed the choice is equal."""
    methods = focus.ordered(it.method for it in scores.methods)
    gold_name = scores.gold.file if scores.gold else None
    candidates: Sequence[int] = _gold_rows(run, gold_name) if gold_name else range(run.rows)
    chosen = random.Random(seed).sample(range(len(candidates)), min(MOST_SAMPLED, len(candidates)))  # noqa: S311
    sample = [int(candidates[it]) for it in chosen]
    by_method = {it.method: it.troubled for it in scans}
    troubled = _in_turn([by_method.get(it, ()) for it in methods])
    ranked = _worst_rows(run, methods, focus) if gold_name else []
    worst = list(dict.fromkeys((*ranked, *troubled)))[:MOST_WORST]
    # If the budget ends early, both kinds lose alike.
    rows = _in_turn([worst[::2], worst[1::2], sample])

    chunks = _read_chunks(run, rows)
    answers = {it: _read_answers(run, it, rows) for it in methods}
    gold = _read_gold(run, gold_name, [it.chunk_id for it in chunks.values()]) if gold_name else {}
    everything = [it for of in answers.values() for it in of.values()]
    marker = Marker(
        KeyTable.of(Keys.of(run.config.schema_), gold.values(), everything),
        entity_types=_all_carry(scores, "entity_types"),
        relation_types=_all_carry(scores, "relation_types"),
    )
    shown, is_worst, is_sampled = [], set(worst), set(sample)
    for row in rows:
        of = [answers[it].get(row) for it in methods]
        marked = marker.mark(gold.get(chunks[row].chunk_id), of)
        shown.append(
            Shown(
                chunk=chunks[row],
                worst=row in is_worst,
                sampled=row in is_sampled,
                marked=marked,
                statuses=tuple(str(it.status) if it else "" for it in of),
                reasons=tuple((it.error or "") if it else "" for it in of),
                errors=tuple(_errors(marked, index) for index in range(len(methods))),
            )
        )
    return Explorer(tuple(methods), tuple(shown), len(candidates), scores.gold is not None)


def to_json(explorer: Explorer) -> tuple[str, int]:
    """The chunks for the page, as many as `MOST_BYTES` allows, and how many those are; safe inside a script element."""
    parts, size = [], 0
    for it in explorer.chunks:
        part = json.dumps(_packed(it), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        size += len(part.encode()) + 1
        if size > MOST_BYTES:
            break
        parts.append(part)
    return f"[{','.join(parts)}]", len(parts)


def _packed(it: Shown) -> dict[str, Any]:
    """One chunk as page.js reads it."""
    text = visible(it.chunk.text[:MOST_CHARACTERS])
    units = _units(text)
    marked = it.marked
    return {
        "id": visible(it.chunk.chunk_id),
        "doc": visible(it.chunk.doc_id),
        "row": it.chunk.row,
        "text": text,
        "cut": len(it.chunk.text) - len(text),
        "worst": it.worst,
        "sampled": it.sampled,
        "statuses": it.statuses,
        "reasons": [visible(reason)[:400] for reason in it.reasons],
        "errors": it.errors,
        "entities": [
            [brief(row.name), brief(row.type), row.grounded, row.in_gold, [_cell(found) for found in row.methods]]
            for row in marked.entities[:MOST_ITEMS]
        ],
        "relations": [
            [*map(brief, (row.source, row.type, row.target)), row.in_gold, [_cell(found) for found in row.methods]]
            for row in marked.relations[:MOST_ITEMS]
        ],
        "left": max(0, len(marked.entities) - MOST_ITEMS) + max(0, len(marked.relations) - MOST_ITEMS),
        "spans": [[_span(span, units) for span in spans if span.start < len(text)] for spans in marked.spans],
    }


def _cell(found: Found) -> list[str]:
    return [found.state.value, brief(found.said)] if found.said else [found.state.value]


def _span(it: Span, units: Sequence[int]) -> list[int | str]:
    start, end = (units[min(max(at, 0), len(units) - 1)] for at in (it.start, it.end))
    return [start, end, brief(it.type), *_cell(it.found)]


def _units(text: str) -> Sequence[int]:
    """Where each character starts in UTF-16, in which JavaScript counts, and where the last one ends."""
    if not text or max(text) <= "\uffff":
        return range(len(text) + 1)
    starts = [0]
    for character in text:
        starts.append(starts[-1] + (2 if character > "\uffff" else 1))
    return starts


def _errors(marked: Marked, method: int) -> int:
    rows: list[EntityRow | RelationRow] = [*marked.entities, *marked.relations]
    return sum(row.methods[method].state in WRONG for row in rows)


def _worst_rows(run: Run, methods: Sequence[str], focus: Focus) -> list[int]:
    """The rows with most false and missing items of each method, in turn."""
    file = run.store.parquet(PER_CHUNK)
    modes = [it for it in (focus.entity_mode, focus.relation_mode) if it]
    errors = (pl.col("fp") + pl.col("fn")).cast(pl.UInt32)
    parts = [pl.DataFrame(schema={"method": pl.Enum(methods), "row": pl.Int64, "errors": pl.UInt32})]
    for group in range(file.num_row_groups):
        frame = to_frame(file.read_row_group(group, ["method", "mode", "row", "fp", "fn"]))
        wanted = frame.filter(pl.col("mode").is_in(modes), pl.col("row") < run.rows, errors > 0)
        parts.append(wanted.select(pl.col("method").cast(pl.Enum(methods)), "row", errors=errors))
    # The modes of a chunk lie in different row groups where there are many chunks.
    by_chunk = pl.concat(parts).group_by("method", "row").agg(pl.col("errors").sum())
    ranked = by_chunk.sort("errors", "row", descending=[True, False])
    worst = [ranked.filter(pl.col("method") == it).head(MOST_WORST)["row"].to_list() for it in methods]
    return _in_turn(worst)


def _gold_rows(run: Run, name: str) -> Any:
    """The corpus rows that have gold, as an array."""
    ids = to_frame(run.store.parquet(name).read(["chunk_id"]))["chunk_id"]
    return find_chunks(run, ids)["row"].to_numpy()


def _read_chunks(run: Run, rows: Iterable[int]) -> dict[int, Chunk]:
    file, wanted = run.store.parquet(CHUNKS_FILE), sorted(rows)
    found: dict[int, Chunk] = {}
    for group, (start, stop) in enumerate(run.planned):
        inside = [row - start for row in wanted if start <= row < stop]
        if inside:
            table = file.read_row_group(group).take(inside)
            found.update({it["row"]: Chunk(**it) for it in table.to_pylist()})
    return found


def _read_answers(run: Run, method: str, rows: Iterable[int]) -> dict[int, Extraction]:
    wanted = sorted(rows)
    found: dict[int, Extraction] = {}
    for shard, (first, last) in Extractions.of(run, method).pieces:
        inside = [row - shard.start for row in wanted if first <= row < last]
        if inside:
            table = run.store.parquet(shard.file).read().take(inside)
            found.update({it["row"]: extraction_from(it) for it in table.to_pylist()})
    return found


def _read_gold(run: Run, name: str, chunk_ids: Sequence[str]) -> dict[str, GoldChunk]:
    file = run.store.parquet(name)
    found: dict[str, GoldChunk] = {}
    for group in range(file.num_row_groups):
        frame = to_frame(file.read_row_group(group, ["chunk_id", "entities", "relations"]))
        for it in frame.filter(pl.col("chunk_id").is_in(chunk_ids)).to_arrow().to_pylist():
            entities = [GoldEntity(**{**entity, "aliases": entity["aliases"] or []}) for entity in it["entities"]]
            relations = [Relation(**relation) for relation in it["relations"]]
            found[it["chunk_id"]] = GoldChunk(it["chunk_id"], entities, relations, Origin.MANUAL)
    return found


def _all_carry(scores: Scores, what: str) -> bool:
    sides = [it.checks.carries for it in scores.methods] + ([scores.gold.carries] if scores.gold else [])
    return all(getattr(it, what) for it in sides)


def _in_turn(lists: Sequence[Sequence[int]]) -> list[int]:
    """One of each list after the other, each number once."""
    return list(dict.fromkeys(it for turn in zip_longest(*lists) for it in turn if it is not None))

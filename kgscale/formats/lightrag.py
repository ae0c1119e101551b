"""LightRAG's working directory: its chunks, and what its LLM said of each: the response cache is a method for nothing.

`kv_store_text_chunks.json` holds the chunks, `kv_store_llm_response_cache.json` every answer (gleaning makes two for a
chunk, which are merged). Where no answer is cached the graph stands in, whose entities have the type of the majority. A
`custom_kg.json`, as `LightRAG.insert_custom_kg` takes it, is read and written; there the type of a relation is its
keywords. Else relations have keywords and no type.

https://github.com/HKUDS/LightRAG
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from kgscale.corpus.values import as_id, as_text
from kgscale.errors import UserError
from kgscale.formats.common import Converted, Record, Report, converted, grounded
from kgscale.formats.jsonfile import json_items, json_members, valid
from kgscale.formats.lightrag_answer import Said, merged, parse_answer
from kgscale.formats.lightrag_graph import read_graph
from kgscale.formats.output import whole_file
from kgscale.records import GoldChunk, GoldEntity, Origin, Relation, Status

CHUNKS = "kv_store_text_chunks.json"
CACHE = "kv_store_llm_response_cache.json"
GRAPH = "graph_chunk_entity_relation.graphml"
CUSTOM = "custom_kg.json"
NO_ANSWER = "no_answer: the cache holds none for this chunk"

_TABLE = "create table said (number integer primary key, key text, chunk text, digest blob, answer text, used integer)"


def read_lightrag(path: Path) -> Converted:
    """The chunks of a working directory (or of the one workspace below it), with what the LLM found in each.

    A chunk without a cached answer has failed; one whose answer lacks its end is truncated.
    """
    report = Report()
    custom = path if path.is_file() else path / CUSTOM
    return converted(path, _custom(custom, report) if custom.is_file() else _records(_folder(path), report), report)


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise UserError(f"there is no directory {path}")
    found = sorted(it.parent for it in path.rglob(CHUNKS))
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"there is no {CHUNKS} at or below {path}", hint="only LightRAG's JSON storage is read")
    names = ", ".join(it.relative_to(path).as_posix() for it in found[:5])
    raise UserError(f"there are several workspaces below {path}", hint=f"name one of them: {names}")


def _records(folder: Path, report: Report) -> Iterator[Record]:
    # All answers together may be larger than the memory, so they wait in a temporary database on the disk.
    with closing(sqlite3.connect("")) as store:
        store.execute(_TABLE)
        if (folder / CACHE).is_file():
            store.executemany(
                "insert into said (key, chunk, digest, answer) values (?, ?, ?, ?)", _cached(folder, report)
            )
        store.execute("create index by_chunk on said (chunk)")
        store.execute("create index by_digest on said (digest)")
        graph: dict[str, Said] | None = None
        if not store.execute("select 1 from said").fetchone():
            report.problems.add(str(folder), "no answer is cached: entities and relations are the graph's")
            graph = read_graph(folder / GRAPH, report)
        for where, key, value in json_members(folder / CHUNKS):
            try:
                chunk = valid(value)
                chunk_id, text = as_id(key), as_text(chunk["content"])
                doc_id = as_id(chunk.get("full_doc_id") or chunk.get("file_path") or key)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                report.skip(where, "skipped a chunk", repr(error))
                continue
            if graph is not None:
                said: Said | None = graph.pop(chunk_id, Said())
            else:
                said = _answer(store, chunk_id, text, chunk.get("llm_cache_list"))
            for line in said.left_out if said else ():
                report.skip(f"{folder / CACHE}, {chunk_id}", "skipped a line of an answer", line)
            yield _record(doc_id, text, chunk_id, said)
        for key, said in (graph or {}).items():
            for _ in range(len(said.entities) + len(said.relations)):
                report.skip(f"{folder / GRAPH}, {key}", "left out what the graph says of a chunk that is not there")
        for (key,) in store.execute("select key from said where used is null"):
            report.skip(f"{folder / CACHE}, {key}", "left out an answer of no chunk, or of an earlier run")


def _cached(folder: Path, report: Report) -> Iterator[tuple[str, str | None, bytes | None, str]]:
    """Key, chunk (or the hash of its text, where the prompt alone tells) and answer of each extraction."""
    # Versions before 2025 have an object for each mode, with the answers in it.
    for where, key, value in json_members(folder / CACHE, inside=lambda key: ":" not in key):
        try:
            entry = valid(value)
            if entry.get("cache_type", "extract") != "extract" or entry.get("return") is None:
                continue
            answer, chunk = as_text(entry["return"]), entry.get("chunk_id")
            # They were also asked whether there is more to find.
            if answer.strip(" \n\"'.").lower() in ("yes", "no"):
                continue
            text = "" if chunk else _text_in(as_text(entry.get("original_prompt") or ""))
            yield as_text(key), as_id(chunk) if chunk else None, _digest(text) if text else None, answer
        except (ValueError, TypeError, AttributeError) as error:
            report.skip(where, "skipped an answer", repr(error))


def _text_in(prompt: str) -> str:
    """The chunk that an older prompt ends in; when gleaning, the first message of the history before it."""
    if prompt.startswith("["):
        try:
            history, _ = json.JSONDecoder().raw_decode(prompt)
            prompt = as_text(history[0]["content"])
        except (ValueError, LookupError, TypeError, RecursionError):
            return ""
    text = prompt.rpartition("-Real Data-")[2].partition("\nText:")[2].strip()
    return text.removesuffix("Output:").rstrip("\n#").strip()


def _digest(text: str) -> bytes:
    return blake2b(text.strip().encode(), digest_size=16).digest()


def _answer(store: sqlite3.Connection, chunk_id: str, text: str, own: Any) -> Said | None:
    """What was said of a chunk; null if nothing. The chunk's own list says which answers are of the last run."""
    query = "select number, key, answer from said where chunk = ? or digest = ? order by number"
    found = store.execute(query, (chunk_id, _digest(text))).fetchall()
    of_last = [it for it in found if isinstance(own, list) and it[1] in own]
    answers = of_last or found
    store.executemany("update said set used = 1 where number = ?", [it[:1] for it in answers])
    return merged(parse_answer(it[2]) for it in answers) if answers else None


def _record(doc_id: str, text: str, chunk_id: str, said: Said | None) -> Record:
    if said is None:
        nothing = GoldChunk(chunk_id, [], [], Origin.PSEUDO, text)
        return Record(doc_id, text, nothing, Status.FAILED, NO_ANSWER, annotated=False)
    entities = [GoldEntity(*it) for it in said.entities]
    relations = [Relation(source, target, "") for source, target in said.relations]
    gold = grounded(GoldChunk(chunk_id, entities, relations, Origin.PSEUDO, text), text)
    return Record(doc_id, text, gold, Status.OK if said.whole else Status.TRUNCATED)


def _custom(file: Path, report: Report) -> Iterator[Record]:
    entities: dict[str, list[GoldEntity]] = defaultdict(list)
    relations: dict[str, list[Relation]] = defaultdict(list)
    for where, value in json_items(file, "entities"):
        try:
            item = valid(value)
            made = GoldEntity(as_text(item["entity_name"]), as_text(item.get("entity_type") or ""))
            entities[as_id(item["source_id"])].append(made)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            report.skip(where, "skipped an entity", repr(error))
    for where, value in json_items(file, "relationships"):
        try:
            item = valid(value)
            kind = as_text(item.get("keywords") or "")
            relation = Relation(as_text(item["src_id"]), as_text(item["tgt_id"]), kind)
            relations[as_id(item["source_id"])].append(relation)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            report.skip(where, "skipped a relation", repr(error))
    for where, value in json_items(file, "chunks"):
        try:
            item = valid(value)
            key, text = as_id(item["source_id"]), as_text(item["content"])
            doc_id = as_id(item.get("file_path") or key)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            report.skip(where, "skipped a chunk", repr(error))
            continue
        gold = GoldChunk(key, entities.pop(key, []), relations.pop(key, []), Origin.PSEUDO, text)
        yield Record(doc_id, text, grounded(gold, text))
    for found in (entities, relations):
        for key, items in found.items():
            for _ in items:
                report.skip(f"{file}, {key}", "left out what belongs to no chunk")


def write_lightrag(records: Iterable[Record], path: Path, report: Report) -> None:
    """Write a custom KG: `json.load` it and give it to `LightRAG.insert_custom_kg`.

    Entities and relations stand once for each chunk. LightRAG takes no relation of an entity with itself: those are
    left out and told.
    """
    orders: dict[str, int] = defaultdict(int)
    with (
        TemporaryFile("w+", encoding="utf-8") as entities,
        TemporaryFile("w+", encoding="utf-8") as relations,
        whole_file(path) as file,
    ):
        file.write('{"chunks": [')
        for number, record in enumerate(records):
            gold, source = record.gold, {"source_id": record.gold.chunk_id, "file_path": record.doc_id}
            chunk = {"content": record.text, "chunk_order_index": orders[record.doc_id], **source}
            orders[record.doc_id] += 1
            file.write((",\n" if number else "\n") + json.dumps(chunk, ensure_ascii=False))
            for name, kind in dict.fromkeys((it.text, it.type) for it in gold.entities):
                entity = {"entity_name": name, "entity_type": kind, "description": "", **source}
                entities.write(json.dumps(entity, ensure_ascii=False) + "\n")
            for it in gold.relations:
                if it.source.split() == it.target.split():
                    report.skip(gold.chunk_id, "not written: a relation of an entity with itself", it.source[:80])
                    continue
                ends = {"src_id": it.source, "tgt_id": it.target, "keywords": it.type, "description": ""}
                relations.write(json.dumps({**ends, "weight": 1.0, **source}, ensure_ascii=False) + "\n")
        for key, waiting in (("entities", entities), ("relationships", relations)):
            file.write(f'\n],\n"{key}": [')
            waiting.seek(0)
            for number, line in enumerate(waiting):
                file.write((",\n" if number else "\n") + line.rstrip("\n"))
        file.write("\n]}\n")

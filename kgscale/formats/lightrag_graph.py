"""LightRAG's graph as GraphML, read event by event; a document type, where XML hides its bombs, is refused."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

from kgscale.errors import UserError
from kgscale.formats.common import Report
from kgscale.formats.jsonfile import json_members
from kgscale.formats.lightrag_answer import Said

SEPARATOR = "<SEP>"
ENTITY_CHUNKS, RELATION_CHUNKS = "kv_store_entity_chunks.json", "kv_store_relation_chunks.json"


def read_graph(path: Path, report: Report) -> dict[str, Said]:
    """What the graph says of each chunk; the lists of chunks that newer versions keep go before its own, cut at 200."""
    if not path.is_file():
        raise UserError(f"there is neither an answer in the cache nor a graph {path.name}", where=str(path.parent))
    chunks: dict[str, Said] = defaultdict(Said)
    entities = _full_lists(path.with_name(ENTITY_CHUNKS), report)
    relations = _full_lists(path.with_name(RELATION_CHUNKS), report)
    for ends, data in _elements(path):
        sources = data.get("source_id", "").split(SEPARATOR)
        if len(ends) == 1:
            name = data.get("entity_id") or ends[0]
            for chunk in entities.get(name, sources):
                chunks[chunk].add_entity(name, data.get("entity_type", ""), name)
        else:
            key = SEPARATOR.join(sorted(ends))
            for chunk in relations.get(key, sources):
                chunks[chunk].add_relation(ends[0], ends[1], key)
    return chunks


def _full_lists(path: Path, report: Report) -> dict[str, list[str]]:
    found = {}
    for where, key, value in json_members(path) if path.is_file() else ():
        ids = value.get("chunk_ids") if isinstance(value, dict) else None
        if isinstance(ids, list):
            found[key] = [str(it) for it in ids]
        else:
            report.problems.add(where, "cannot be read as a list of chunks")
    return found


def _elements(path: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The ends (one for a node) and the named data of each node and edge."""
    found: list[tuple[list[str], dict[str, str]]] = []
    names: dict[str, str] = {}
    state: dict[str, Any] = {"ends": [], "data": {}, "key": None, "text": []}

    def start(tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        if tag == "key":
            names[attributes.get("id", "")] = attributes.get("attr.name", "")
        elif tag == "node":
            state.update(ends=[attributes.get("id", "")], data={})
        elif tag == "edge":
            state.update(ends=[attributes.get("source", ""), attributes.get("target", "")], data={})
        elif tag == "data":
            state.update(key=attributes.get("key"), text=[])

    def end(tag: str) -> None:
        tag = tag.rpartition(":")[2]
        if tag == "data":
            state["data"][names.get(state["key"], state["key"])] = "".join(state["text"])
            state["key"] = None
        elif tag in ("node", "edge"):
            found.append((state["ends"], state["data"]))

    def text(data: str) -> None:
        if state["key"] is not None:
            state["text"].append(data)

    def refuse(*_: Any) -> None:
        raise UserError("has a document type, which GraphML does not need and kgscale does not read", where=str(path))

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = refuse
    yield from _fed(path, parser.Parse, found)


def _fed(path: Path, parse: Callable[[bytes, bool], int], found: list[Any]) -> Iterator[Any]:
    try:
        with path.open("rb") as file:
            while True:
                data = file.read(2**16)
                parse(data, not data)
                yield from found
                found.clear()
                if not data:
                    return
    except expat.ExpatError as error:
        raise UserError(f"broken XML: {error}", where=f"{path}:{error.lineno}") from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror or error}", where=str(path)) from None

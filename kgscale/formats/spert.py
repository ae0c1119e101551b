"""SpERT's JSON (CoNLL04, ADE, SciERC): tokenised sentences, entities by token number, `end` exclusive.

`{"tokens", "entities": [{"type", "start", "end"}], "relations": [{"type", "head", "tail"}], "orig_id"}`, where head and
tail count the entities. A record is a chunk, and a document for itself unless `orig_id` says which it belongs to.
"""

from pathlib import Path
from typing import Any

from kgscale.corpus.values import as_id, as_text
from kgscale.formats.common import Converted, Record, Report, is_whole, join_tokens
from kgscale.formats.jsonfile import json_records, list_under, text_list
from kgscale.formats.spans import relation_between
from kgscale.records import GoldChunk, GoldEntity


def read_spert(path: Path) -> Converted:
    """The records of a file, or of the .json and .jsonl files below a directory."""
    report = Report()

    def record(value: Any, where: str, name: str) -> Record:
        text, spans = join_tokens(text_list(value, "tokens"))
        entities: list[GoldEntity | None] = []
        for item in list_under(value, "entities"):
            match item:
                case {"type": str(kind), "start": int(first), "end": int(stop)} if is_whole(first, stop) and (
                    0 <= first < stop <= len(spans)
                ):
                    start, end = spans[first][0], spans[stop - 1][1]
                    entities.append(GoldEntity(text[start:end], as_text(kind), start, end))
                case _:
                    entities.append(None)
                    report.skip(where, "skipped an entity", f"{str(item)[:80]} does not fit the tokens")
        relations = []
        for item in list_under(value, "relations"):
            match item:
                case {"type": str(kind), "head": int(head), "tail": int(tail)} if found := relation_between(
                    entities, head, tail, as_text(kind)
                ):
                    relations.append(found)
                case _:
                    report.skip(where, "skipped a relation", f"{str(item)[:80]} does not lead to two entities")
        doc_id = name if value.get("orig_id") is None else as_id(value["orig_id"])
        return Record(doc_id, text, GoldChunk(name, [it for it in entities if it], relations, text=text))

    return json_records(path, record, report)

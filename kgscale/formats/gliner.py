"""GLiNER's training JSON: words, entities by word number (both ends inclusive), relations between the entities.

`{"tokenized_text", "ner": [[first, last, type]…], "relations": [[entity, entity, type]…], "ner_negatives",
"rel_negatives"}`, in a list or as JSON lines. A record is a chunk and a document; there are no ids. Negatives, the
types that a text has nothing of, are what keeps a fine-tuned model from finding everything everywhere.
"""

import json
import random
from collections.abc import Iterable, Set
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from kgscale.corpus.values import as_text
from kgscale.formats.common import Converted, Record, Report, are_tokens, join_tokens
from kgscale.formats.jsonfile import json_records, list_under, text_list
from kgscale.formats.output import whole_file
from kgscale.formats.spans import Words, links_of, mentions_of, relation_between, word_spans
from kgscale.records import GoldChunk, GoldEntity

MOST_TYPES = 25
"""Types of one record, negatives included: of more, GLiNER's training (`max_types`) would draw some by chance."""


def read_gliner(path: Path) -> Converted:
    """The records of a file, or of the .json and .jsonl files below a directory."""
    report = Report()

    def record(value: Any, where: str, name: str) -> Record:
        text, spans = join_tokens(text_list(value, "tokenized_text"))
        entities: list[GoldEntity | None] = []
        for item in list_under(value, "ner"):
            match item:
                case [int(first), int(last), str(kind), *_] if are_tokens(first, last, spans):
                    start, end = spans[first][0], spans[last][1]
                    entities.append(GoldEntity(text[start:end], as_text(kind), start, end))
                case _:
                    entities.append(None)
                    report.skip(where, "skipped an entity", f"{str(item)[:80]} does not fit the words")
        relations = []
        for item in list_under(value, "relations"):
            match item:
                case [int(head), int(tail), str(kind), *_] if found := relation_between(
                    entities, head, tail, as_text(kind)
                ):
                    relations.append(found)
                case _:
                    report.skip(where, "skipped a relation", f"{str(item)[:80]} does not lead to two entities")
        return Record(name, text, GoldChunk(name, [it for it in entities if it], relations, text=text))

    return json_records(path, record, report)


def write_gliner(records: Iterable[Record], path: Path, report: Report, *, seed: int = 0) -> None:
    """Write a list of training records, one per chunk, each with other types as negatives, up to 25 in all.

    Which types there are is known at the end only, so the records wait in a temporary file until then.
    """
    kinds: set[str] = set()
    relation_kinds: set[str] = set()
    with TemporaryFile("w+", encoding="utf-8") as waiting:
        for record in records:
            words = Words.of(record.text)
            mentions, spans = word_spans(record, mentions_of(record, report), words, report)
            links = links_of(record, mentions, report)
            kinds |= {it.entity.type for it in mentions}
            relation_kinds |= {it.type for it in links}
            value = {
                "tokenized_text": words.words,
                "ner": [[*span, mention.entity.type] for span, mention in zip(spans, mentions, strict=True)],
                "relations": [[it.head, it.tail, it.type] for it in links],
            }
            waiting.write(json.dumps(value) + "\n")
        waiting.seek(0)
        rng = random.Random(seed)  # noqa: S311  which negatives are drawn is no secret
        with whole_file(path) as file:
            file.write("[")
            for number, line in enumerate(waiting):
                value = json.loads(line)
                value["ner_negatives"] = negatives(kinds, {it[-1] for it in value["ner"]}, rng)
                value["rel_negatives"] = negatives(relation_kinds, {it[-1] for it in value["relations"]}, rng)
                file.write((",\n" if number else "\n") + json.dumps(value, ensure_ascii=False))
            file.write("\n]\n")


def negatives(kinds: Set[str], found: Set[str], rng: random.Random) -> list[str]:
    """Some of the types that a text has nothing of, sorted: as many as leave it `MOST_TYPES` in all."""
    others = sorted(kinds - found)
    return sorted(rng.sample(others, min(max(0, MOST_TYPES - len(found)), len(others))))

"""DocRED and Re-DocRED: documents whose entities are clusters of mentions, and relations between the clusters.

`{"title", "sents": [[token…]…], "vertexSet": [[{"name", "sent_id", "pos": [first, stop], "type"}…]…], "labels": [{"h",
"t", "r", "evidence"}]}`. A document is a chunk; the other names in a cluster are the aliases of each of its mentions,
and relations name the first mention. `rel_info.json` or `pid2name*.json` beside the file names the Wikidata properties.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgscale.corpus.values import as_text
from kgscale.errors import UserError
from kgscale.formats.common import Converted, Record, Report, is_whole, join_tokens
from kgscale.formats.jsonfile import json_records, list_under, texts
from kgscale.records import GoldChunk, GoldEntity, Relation

NAME_FILES = ("rel_info*.json", "pid2name*.json")


def read_docred(path: Path) -> Converted:
    """The documents of a file, or of the .json files below a directory; without labels they have no relations."""
    report = Report()
    names = _property_names(path if path.is_dir() else path.parent, report)
    seen: set[str] = set()

    def record(value: Any, where: str, name: str) -> Record:
        sentences = [texts(sentence) for sentence in list_under(value, "sents")]
        if not sentences or not isinstance(value.get("vertexSet"), list):
            raise ValueError("it has no `sents` and `vertexSet`")
        title = as_text(value.get("title"))
        # Titles are what identifies a document there; one that comes again gets its number.
        key = title if title.strip() and title not in seen else name
        seen.add(key)
        text, spans = join_tokens([token for sentence in sentences for token in sentence])
        starts = [sum(map(len, sentences[:index])) for index in range(len(sentences))]
        clusters = []
        for cluster in value["vertexSet"]:
            mentions = []
            for it in cluster if isinstance(cluster, list) else [cluster]:
                mention = _mention(it, sentences, starts, spans, text)
                if mention is None:
                    report.skip(where, "skipped an entity", f"{str(it)[:80]} does not fit the document ({key})")
                else:
                    mentions.append(mention)
            clusters.append(_with_aliases(mentions))
        relations = []
        for item in list_under(value, "labels"):
            match item:
                case {"h": int(h), "t": int(t), "r": str(kind)} if _both(clusters, h, t):
                    if names and kind not in names:
                        report.problems.add(where, "a property has no name, and keeps its id", kind)
                    relations.append(Relation(clusters[h][0].text, clusters[t][0].text, names.get(kind, as_text(kind))))
                case _:
                    report.skip(where, "skipped a relation", f"{str(item)[:80]} does not lead to two entities ({key})")
        gold = GoldChunk(key, [mention for cluster in clusters for mention in cluster], relations, text=text)
        return Record(key, text, gold)

    skipped = {file for pattern in NAME_FILES for file in path.rglob(pattern)} if path.is_dir() else set()
    return json_records(path, record, report, "document", without=skipped)


def _both(clusters: Sequence[Sequence[GoldEntity]], h: int, t: int) -> bool:
    return is_whole(h, t) and min(h, t) >= 0 and max(h, t) < len(clusters) and bool(clusters[h]) and bool(clusters[t])


def _mention(
    item: Any, sentences: list[list[str]], starts: list[int], spans: list[tuple[int, int]], text: str
) -> GoldEntity | None:
    match item:
        case {"sent_id": int(sentence), "pos": [int(first), int(stop)], "type": str(kind)} if (
            is_whole(sentence, first, stop)
            and 0 <= sentence < len(sentences)
            and 0 <= first < stop <= len(sentences[sentence])
        ):
            start, end = spans[starts[sentence] + first][0], spans[starts[sentence] + stop - 1][1]
            return GoldEntity(text[start:end], as_text(kind), start, end)
    return None


def _with_aliases(mentions: list[GoldEntity]) -> list[GoldEntity]:
    names = list(dict.fromkeys(it.text for it in mentions))
    return [
        GoldEntity(it.text, it.type, it.start, it.end, [name for name in names if name != it.text]) for it in mentions
    ]


def _property_names(folder: Path, report: Report) -> dict[str, str]:
    names: dict[str, str] = {}
    for file in sorted(file for pattern in NAME_FILES for file in folder.glob(pattern)):
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            names |= {key: as_text(it[0] if isinstance(it, list) else it) for key, it in found.items()}
        except (OSError, ValueError, AttributeError, IndexError, UserError) as error:
            report.problems.add(str(file), "cannot be read as names of relations", str(error))
    return names

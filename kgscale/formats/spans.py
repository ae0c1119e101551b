"""For formats that point into the text: where each entity stands, and which mentions a relation joins."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from kgscale.formats.common import Record, Report, grounded, is_whole
from kgscale.records import GoldEntity, Relation
from kgscale.text import split_words


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity at its place in the text; `end` is exclusive."""

    start: int
    end: int
    entity: GoldEntity


@dataclass(frozen=True, slots=True)
class Link:
    """A relation between two mentions, by their numbers."""

    head: int
    tail: int
    type: str


def relation_between(entities: Sequence[GoldEntity | None], head: int, tail: int, kind: str) -> Relation | None:
    """The relation of two entities by their numbers; null where one is out of range, or an entity left out."""
    if not is_whole(head, tail) or min(head, tail) < 0 or max(head, tail) >= len(entities):
        return None
    source, target = entities[head], entities[tail]
    return Relation(source.text, target.text, kind) if source and target else None


def mentions_of(record: Record, report: Report) -> list[Mention]:
    """The entities in the order of the record; one without offsets stands where its name first occurs.

    What is not in the text is left out and told.
    """
    mentions = []
    for entity in grounded(record.gold, record.text).entities:
        if entity.start is None or entity.end is None:
            report.skip(record.gold.chunk_id, "not written: an entity that is not in the text", entity.text[:80])
        else:
            mentions.append(Mention(entity.start, entity.end, entity))
    return mentions


def links_of(record: Record, mentions: Sequence[Mention], report: Report) -> list[Link]:
    """The relations of the record between the nearest two mentions of their ends; the others are left out and told."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, mention in enumerate(mentions):
        for name in {mention.entity.text, *mention.entity.aliases}:
            numbers[name].append(number)
    links = []
    for relation in record.gold.relations:
        pairs = [(a, b) for a in numbers[relation.source] for b in numbers[relation.target]]
        if not pairs:
            told = f"{relation.source} {relation.type} {relation.target}"[:80]
            report.skip(record.gold.chunk_id, "not written: a relation whose ends are no entities in the text", told)
            continue
        apart = [pair for pair in pairs if pair[0] != pair[1]]
        head, tail = min(apart or pairs, key=lambda it: (abs(mentions[it[0]].start - mentions[it[1]].start), it))
        links.append(Link(head, tail, relation.type))
    return links


@dataclass(frozen=True, slots=True)
class Words:
    """A text cut into the words of GLiNER's splitter, and where each begins and ends."""

    words: list[str]
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, text: str) -> "Words":
        """Cut a text."""
        found = list(split_words(text))
        return cls(*([it[column] for it in found] for column in range(3)))  # type: ignore[arg-type]

    def span(self, mention: Mention) -> tuple[int, int] | None:
        """First and last word (inclusive) of a mention; null if its borders are not those of words."""
        first, last = bisect_left(self.starts, mention.start), bisect_left(self.ends, mention.end)
        fits = first <= last < len(self.ends) and self.starts[first] == mention.start and self.ends[last] == mention.end
        return (first, last) if fits else None


def word_spans(
    record: Record, mentions: Sequence[Mention], words: Words, report: Report
) -> tuple[list[Mention], list[tuple[int, int]]]:
    """The mentions that begin and end with a word, and their first and last words; the others are left out and told."""
    kept, spans = [], []
    for mention in mentions:
        span = words.span(mention)
        if span is None:
            told = f"{mention.entity.text!r}"[:80]
            report.skip(record.gold.chunk_id, "not written: an entity that begins or ends inside a word", told)
        else:
            kept.append(mention)
            spans.append(span)
    return kept, spans

"""One's own annotated texts as what a GLiNER is trained on: the windows that extraction reads, with spans of words."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgscale.config import SchemaConfig
from kgscale.extract.gliner import GlinerModel
from kgscale.finetune.examples import Example, Span
from kgscale.finetune.labels import SCHEMES, Scheme, View
from kgscale.finetune.own import OWN, entity_kinds
from kgscale.finetune.sampling import Sampler, fine_counts
from kgscale.finetune.silver import FINE
from kgscale.formats.common import Record
from kgscale.formats.spans import Mention, Words
from kgscale.records import GoldEntity
from kgscale.text import normal_form, split_words

LONGEST_DESCRIPTION = 12
"""Words; a longer description is for people, and would take the text's place in the encoder."""
NEGATIVES = (3, 8)


@dataclass
class OwnExamples:
    """The windows of some texts; `left_out` counts, by reason, the annotations that cannot be learnt."""

    examples: list[Example] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """What each window takes of the encoder's input without labels."""
    left_out: Counter[str] = field(default_factory=Counter)
    further: Counter[str] = field(default_factory=Counter)
    """Annotations by type of what the schema does not have, which are learnt as types beside it."""

    @property
    def entities(self) -> int:
        """How many mentions there are to learn."""
        return sum(len(it.spans) for it in self.examples)


def windows_of(records: Iterable[Record], schema: SchemaConfig, reader: GlinerModel, widest: int | None) -> OwnExamples:
    """Cut texts into the windows that `reader` would read them in; `widest` is the longest entity that can be learnt.

    An entity without offsets is meant wherever its name stands in the text, unless inside a longer one's.
    """
    own, kinds = OwnExamples(), entity_kinds(schema)
    for record in records:
        cut = list(reader.words(record.text))
        words = Words([it[0] for it in cut], [it[1] for it in cut], [it[2] for it in cut])
        spans = list(_spans(record, words, kinds, own))
        seen: set[Span] = set()
        for piece in reader.pieces(0, record.text):
            inside = [i for i, (_, start, stop) in enumerate(cut) if piece.start <= start and stop <= piece.stop]
            first, last = inside[0], inside[-1]
            whole = [it for it in spans if first <= it.start and it.end <= last]
            seen.update(whole)
            fits = [it for it in whole if widest is None or it.end - it.start < widest]
            moved = tuple(Span(it.start - first, it.end - first, it.label) for it in fits)
            own.examples.append(Example(tuple(words.words[first : last + 1]), moved, OWN))
            own.tokens.append(piece.tokens - reader.frame)
        own.left_out["longer than the model's window"] += len(set(spans) - seen)
        if widest is not None:
            wide = sum(it.end - it.start >= widest for it in seen)
            own.left_out[f"longer than the {widest} words that the model's spans may have"] += wide
    own.left_out = +own.left_out
    return own


def _spans(record: Record, words: Words, kinds: Mapping[str, str], own: OwnExamples) -> Iterator[Span]:
    """The spans of a text's entities in words, each once, in order."""
    found: set[Span] = set()
    named: list[tuple[GoldEntity, str]] = []
    for it in record.gold.entities:
        if not it.type:
            own.left_out["without a type"] += 1
            continue
        label = kinds.get(normal_form(it.type))
        if label is None:
            label = FINE + it.type
            own.further[it.type] += 1
        if it.start is None or it.end is None:
            named.append((it, label))
        elif span := words.span(Mention(it.start, it.end, it)):
            found.add(Span(*span, label))
        else:
            own.left_out["that begin or end inside a word"] += 1
    taken = {place for it in found for place in range(it.start, it.end + 1)}
    for it, label in sorted(named, key=lambda pair: -len(pair[0].text)):
        places = _places(it.text, words.words)
        if not places:
            own.left_out["whose name is not in the text as whole words"] += 1
        for start, end in places:
            # The same name may have two types, but a shorter name inside a longer one's place is no entity.
            if Span(start, end, label) in found or any(it.start == start and it.end == end for it in found):
                found.add(Span(start, end, label))
            elif taken.isdisjoint(range(start, end + 1)):
                found.add(Span(start, end, label))
                taken.update(range(start, end + 1))
    yield from sorted(found, key=lambda it: (it.start, it.end, it.label))


def _places(name: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """First and last words of the places of a name among words: as it is spelled, or else in any case."""
    wanted = [word for word, _, _ in split_words(name)]
    for change in (str, str.lower):
        have, want = [change(it) for it in words], [change(it) for it in wanted]
        size = len(want)
        if found := [(at, at + size - 1) for at in range(len(have) - size + 1) if have[at : at + size] == want]:
            return found
    return []


def scheme_of(schema: SchemaConfig, asked: Mapping[str, str]) -> Scheme:
    """The label scheme of one's own texts: each type as extraction asks for it half of the time, else by a synonym.

    Synonyms are the type's aliases, its description, and what `labels.txt` knows for a type of this name; none that
    could mean another type of the schema.
    """
    others: dict[str, list[str]] = {}
    for name, description in schema.entity_types.items():
        wordings = [name, name.replace("_", " ").lower()]
        wordings += [alias for alias, kind in schema.aliases.entity_types.items() if kind == name]
        if description and len(description.split()) <= LONGEST_DESCRIPTION:
            wordings += [description, f"{name}: {description}"]
        others[name] = [*wordings, *_known_synonyms(name)]
    claims = Counter(word for wordings in others.values() for word in {it.lower() for it in wordings})
    claims.update(it.lower() for it in (*schema.entity_types, *asked.values()))
    views = []
    for name, wordings in others.items():
        first = asked.get(name, name)
        mine = {name.lower(), first.lower()}
        clear = [it for it in dict.fromkeys(wordings) if claims[it.lower()] == 1 or it.lower() in mine]
        rest = [it for it in clear if it != first]
        views.append(View(frozenset({name}), frozenset(), (first,) * max(1, len(rest)) + tuple(rest)))
    return Scheme(tuple(views), ())


def _known_synonyms(name: str) -> Iterator[str]:
    plain = name.replace("_", " ").lower()
    for scheme in SCHEMES.values():
        for view in scheme.views:
            if view.wordings[0] == plain:
                yield from view.wordings


class OwnLabels:
    """Draws the labels that a window is asked for in a step; no more of them than leave room for the window."""

    def __init__(self, own: OwnExamples, scheme: Scheme, reader: GlinerModel, most: int) -> None:
        self._own, self._reader, self._most = own, reader, most
        self._sampler = Sampler(fine_counts(own.examples), negatives=NEGATIVES, schemes={OWN: scheme})
        self._costs: dict[str, int] = {}

    def __call__(self, number: int, rng: random.Random) -> dict[str, Any]:
        """The window of this number in the training format of gliner."""
        item = self._sampler.draw(self._own.examples[number], rng)
        room = self._reader.limit - 3 - self._own.tokens[number]
        kept: list[str] = []
        for label in item["ner_labels"]:
            cost = self._costs.setdefault(label, self._reader.label_cost(label))
            if cost <= room and len(kept) < self._most:
                room -= cost
                kept.append(label)
        asked = set(kept)
        return {**item, "ner_labels": kept, "ner": [it for it in item["ner"] if it[2] in asked]}

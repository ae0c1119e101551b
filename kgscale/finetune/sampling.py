"""From annotated examples to what the model sees in a step: labels worded, dropped, shuffled, and given negatives."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgscale.finetune.examples import Example, Span
from kgscale.finetune.labels import SCHEMES, Scheme, View
from kgscale.finetune.silver import FINE


@dataclass(frozen=True)
class Sampler:
    """Draws the labels of an example.

    `fine_types` are the types that texts themselves give, with their counts: in an example that has such types, others
    of them serve as negatives. `keep` is the probability of asking for a type that is present; `negatives` bounds how
    many absent types are asked for beside. `schemes` holds the label scheme of each source.
    """

    fine_types: dict[str, int]
    keep: float = 0.85
    negatives: tuple[int, int] = (4, 9)
    schemes: Mapping[str, Scheme] = field(default_factory=lambda: SCHEMES)
    _names: list[str] = field(init=False, repr=False)
    _weights: list[float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", list(self.fine_types))
        # The square root keeps "film" from being every second negative.
        object.__setattr__(self, "_weights", [count**0.5 for count in self.fine_types.values()])

    def draw(self, example: Example, rng: random.Random) -> dict[str, Any]:
        """The example in the training format of gliner: `tokenized_text`, `ner` (inclusive ends), `ner_labels`."""
        wanted: dict[str, list[Span]] = {}
        present = {span.label for span in example.spans}
        absent: list[View] = []
        scheme = self.schemes[example.source]
        for view in rng.sample(scheme.views, len(scheme.views)):
            if view.unsure & present:
                continue
            if not view.covers & present:
                absent.append(view)
            elif rng.random() < self.keep:
                label = _word(view, rng)
                if label not in wanted:
                    wanted[label] = [span for span in example.spans if span.label in view.covers]
        fine = sorted(label for label in present if label.startswith(FINE))
        for kind in fine:
            if rng.random() < self.keep:
                wanted[kind.removeprefix(FINE)] = [span for span in example.spans if span.label == kind]
        for label in self._absent(scheme, absent, fine, rng):
            wanted.setdefault(label, [])
        labels = list(wanted)
        rng.shuffle(labels)
        ner = [[span.start, span.end, label] for label in labels for span in wanted[label]]
        return {"tokenized_text": list(example.words), "ner": ner, "ner_labels": labels}

    def _absent(self, scheme: Scheme, views: Sequence[View], fine: Sequence[str], rng: random.Random) -> list[str]:
        """Labels that nothing in the example carries."""
        count = rng.randint(*self.negatives)
        others = rng.choices(self._names, self._weights, k=count // 2) if fine and self._names else []
        # "director" is no negative where "film director" is present.
        others = [name for name in others if not any(name in kind or kind.removeprefix(FINE) in name for kind in fine)]
        aliens = rng.sample(scheme.aliens, min(len(scheme.aliens), rng.randint(0, 2)))
        own = [_word(view, rng) for view in views[: max(1, count - len(others) - len(aliens))]]
        return [*own, *others, *aliens]


def fine_counts(examples: Sequence[Example]) -> dict[str, int]:
    """How often each type that a text itself gives occurs."""
    counts = Counter(span.label.removeprefix(FINE) for e in examples for span in e.spans if span.label.startswith(FINE))
    return dict(sorted(counts.items()))


def fixed(example: Example) -> dict[str, Any]:
    """The example with every label of its scheme in its first wording, to choose a threshold on; no fine types."""
    wanted: dict[str, list[Span]] = {}
    present = {span.label for span in example.spans}
    for view in SCHEMES[example.source].views:
        if view.wordings[0] not in wanted and not view.unsure & present:
            wanted[view.wordings[0]] = [span for span in example.spans if span.label in view.covers]
    ner = [[span.start, span.end, label] for label, spans in wanted.items() for span in spans]
    return {"tokenized_text": list(example.words), "ner": ner, "ner_labels": list(wanted)}


def _word(view: View, rng: random.Random) -> str:
    """One of the view's wordings, now and then with underscores instead of spaces."""
    label = rng.choice(view.wordings)
    return label.replace(" ", "_") if rng.random() < 0.03 else label

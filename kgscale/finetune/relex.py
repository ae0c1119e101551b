"""Train a GLiNER that finds relations: documents with relations as training items, and the loss on pairs of names.

A document says between which names a relation holds, not between which of their mentions. So a pair of names scores
what the best pair of their mentions scores, in training as in extraction.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgscale.extract.gliner_faster import pair_scores, without_pairs
from kgscale.extract.gliner_prompts import relation_wording
from kgscale.finetune import lora
from kgscale.finetune.adapter import SCALE
from kgscale.finetune.asking import ask
from kgscale.finetune.contamination import Apart
from kgscale.finetune.facts import Document, document
from kgscale.finetune.gliner_training import Training
from kgscale.text import split_words, words

if TYPE_CHECKING:
    from torch import Tensor

MAX_WORDS = 170
MIN_WORDS = 8
LONG = 80
"""Words from which on a written document is always taken: chunks are longer than most of them."""
HEAD_RANK = 16
"""Of the adapters on the layers that begin as ones that change nothing."""
STILL = ("prompt_rep_layer.", "span_rep_layer.", "scorer.")
ADAPTED = ("prompt_rep_layer", "span_rep_layer")
LEARNS = "scorer.out_mlp.3."
STRANGERS = 2
"""Runs of words that are no entity, which training pairs with the entities: extraction finds such, too."""
WEIGHT = 2.0
"""Of a pair's loss, where a word's is one."""


def written(count: int, seed: int, apart: Apart) -> Iterator[Document]:
    """Documents of kgscale's grammar, short ones less often, none that shares a run of words with texts `apart`."""
    rng = random.Random(seed)  # noqa: S311
    while count:
        one = document(rng)
        size = words(one.text)
        if MIN_WORDS <= size <= MAX_WORDS and rng.random() < size / LONG and apart.behind(one.text) is None:
            count -= 1
            yield one


def item(it: Document, rng: random.Random) -> dict[str, Any]:
    """A document asked for some of its types and some others, in the training format of gliner.

    `names` holds the first and last word of each mention and the number of the name that it mentions, `gold` the pairs
    of such numbers with the relation that holds between them. Names that no run of words spells are left out.
    """
    asked = ask([it], rng)
    cut = [word for word, _, _ in split_words(it.text)]
    kinds = {name: asked.entities[kind] for name, kind in it.entities if kind in asked.entities}
    # A relation's ends may be entities of which the schema does not ask: they are none here.
    places = _places(cut, [name for name, _ in it.entities])
    found = {name: spans for name in kinds if (spans := places.get(name))}
    number = {name: i for i, name in enumerate(found)}
    mentions = sorted((start, end, number[name], kinds[name]) for name, spans in found.items() for start, end in spans)
    gold = set()
    for source, kind, target in it.relations:
        if kind in asked.relations and source in number and target in number and source != target:
            label, turned = asked.relations[kind]
            ends = (number[target], number[source]) if turned else (number[source], number[target])
            gold.add((*ends, relation_wording(label)))
            if asked.schema.relation_types[label].symmetric:
                gold.add((ends[1], ends[0], relation_wording(label)))
    taken = {place for spans in places.values() for start, end in spans for place in range(start, end + 1)}
    names = [(start, end, name) for start, end, name, _ in mentions]
    names += [(*span, len(number) + i) for i, span in enumerate(_strangers(cut, taken, rng))]
    return {
        "tokenized_text": cut,
        "ner": [[start, end, kind] for start, end, _, kind in mentions],
        "ner_labels": list(asked.schema.entity_types),
        "relations": [],
        "rel_labels": list(dict.fromkeys(map(relation_wording, asked.schema.relation_types))),
        "names": names,
        "gold": sorted(gold),
    }


def _places(cut: Sequence[str], names: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """First and last words of each name's mentions; what lies inside a longer name's mention is none."""
    at: dict[str, list[int]] = {}
    for i, word in enumerate(cut):
        at.setdefault(word, []).append(i)
    places: dict[str, list[tuple[int, int]]] = {}
    taken: set[int] = set()
    for name in sorted(set(names), key=lambda name: (-len(name), name)):
        wanted = [word for word, _, _ in split_words(name)]
        for start in at.get(wanted[0], ()):
            place = range(start, start + len(wanted))
            if list(cut[start : place.stop]) == wanted and taken.isdisjoint(place):
                taken.update(place)
                places.setdefault(name, []).append((start, place.stop - 1))
    return places


def _strangers(cut: Sequence[str], taken: set[int], rng: random.Random) -> Iterator[tuple[int, int]]:
    for _ in range(STRANGERS):
        start = rng.randrange(len(cut))
        end = min(start + rng.randrange(3), len(cut) - 1)
        if taken.isdisjoint(range(start, end + 1)):
            yield start, end


def relation_loss(model: Any, output: Any, items: Sequence[Mapping[str, Any]]) -> Tensor:
    """The summed loss over each text's pairs of names and the relations it is asked for."""
    import torch
    from torch.nn import functional

    device = output.logits.device
    ends = [[name[:2] for name in it["names"]] for it in items]
    spans = [torch.tensor(it, dtype=torch.long, device=device).view(-1, 2) for it in ends]
    scored = pair_scores(model, output.words_embedding, spans, output.rel_prompts_embedding)
    total: Tensor = output.logits.new_zeros((), dtype=torch.float32)
    for it, scores in zip(items, scored, strict=True):
        if len(it["names"]) < 2:
            continue
        labels = {label: i for i, label in enumerate(it["rel_labels"])}
        named = torch.tensor([name for _, _, name in it["names"]], device=scores.device)
        count = int(named.max()) + 1
        best = _best(scores.float()[..., : len(labels)], named, count)
        wanted = torch.zeros_like(best)
        for source, target, label in it["gold"]:
            wanted[source, target, labels[label]] = 1.0
        losses = functional.binary_cross_entropy_with_logits(best, wanted, reduction="none")
        total = total + losses[~torch.eye(count, dtype=torch.bool, device=losses.device)].sum()
    return total


def _best(scores: Tensor, named: Tensor, count: int) -> Tensor:
    """Scores of pairs of mentions (E, E, C) to those of pairs of names (N, N, C): of each pair's the best."""
    import torch

    flat = scores.flatten(0, 1)
    group = (named.unsqueeze(1) * count + named.unsqueeze(0)).flatten()
    best = torch.full((count * count, flat.shape[1]), -torch.inf, device=flat.device)
    best = torch.scatter_reduce(best, 0, group.unsqueeze(1).expand_as(flat), flat, "amax")
    return best.view(count, count, -1)


class RelexTraining(Training):
    """A training run of a relation model, for items as `item` makes them."""

    def _speed_up(self) -> None:
        super()._speed_up()
        self.collator = self._collated
        without_pairs(self.model)
        for name, parameter in self.model.named_parameters():
            if name.startswith(STILL) and not name.startswith(LEARNS):
                parameter.requires_grad = False
        import torch

        layers = [
            name for name, it in self.model.named_modules() if name.startswith(ADAPTED) and type(it) is torch.nn.Linear
        ]
        lora.adapt(self.model, layers, HEAD_RANK, SCALE)
        if self.recipe.bf16:
            for name in layers:
                self.model.get_submodule(f"{name}.layer").to(torch.bfloat16)

    def _collated(self, items: list[dict[str, Any]]) -> dict[str, Any]:
        gliner = self.gliner
        collator: Callable[..., dict[str, Any]] = gliner.data_collator_class(
            gliner.config, data_processor=gliner.data_processor
        )
        inputs = collator(items)
        # The original's labels are of pairs of mentions.
        return {name: it for name, it in inputs.items() if name != "rel_matrix"} | {"items": items}

    def loss_of(self, inputs: dict[str, Any]) -> Any:
        """The loss of a batch, summed: on words and on pairs."""
        items = inputs.pop("items")
        output = self.forward(**inputs, reduction="sum")
        return output.loss + WEIGHT * relation_loss(self.model, output, items)

"""How good a GLiNER is on held-out texts: read by the very code of extraction, and counted as kgscale scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kgscale.config import GlinerEngine, SchemaConfig
from kgscale.extract.gliner import GlinerModel
from kgscale.finetune.own import entity_kinds
from kgscale.finetune.threshold import CANDIDATES, best_threshold
from kgscale.formats.common import Record
from kgscale.pretrained.assemble import merged
from kgscale.score.keys import normals
from kgscale.text import normal_form


class HeldOut:
    """Texts with gold, and a model that takes on whatever weights are to be measured."""

    def __init__(
        self,
        gliner: Any,
        engine: GlinerEngine,
        schema: SchemaConfig,
        records: Sequence[Record],
        *,
        candidates: Sequence[float] = CANDIDATES,
    ) -> None:
        """Take over `gliner`, the base, which may change its number format."""
        self._candidates = candidates
        self._plain = {name: it.detach().float().clone() for name, it in gliner.model.named_parameters()}
        asked = engine.model_copy(update={"threshold": min(candidates)})
        self.reader = GlinerModel(asked, list(schema.entity_types), loaded=gliner)
        self._parameters = dict(gliner.model.named_parameters())
        self._texts = [it.text for it in records]
        self._names = {normal_form(alias): normal_form(name) for alias, name in schema.aliases.names.items()}
        kinds = entity_kinds(schema)
        self._known: list[dict[str, str]] = []
        """Of each text, the names that gold says mean another."""
        self._gold: list[set[tuple[str, str]]] = []
        for record in records:
            names = [self._keys([it.text, *it.aliases]) for it in record.gold.entities]
            known = {name: min(them) for them in names if len(them) > 1 for name in them}
            typed = zip(names, record.gold.entities, strict=True)
            self._known.append(known)
            self._gold.append(
                {(known.get(them[0], them[0]), kind) for them, it in typed if (kind := kinds.get(normal_form(it.type)))}
            )

    def __call__(self, weights: Mapping[str, Any]) -> dict[str, float]:
        """The best threshold for these learnt weights, and precision, recall and F1 there.

        Micro-averaged over distinct pairs of name and type in each text, types of the schema only.
        """
        import torch

        with torch.no_grad():
            for name, weight in merged(self._plain, weights):
                self._parameters[name].copy_(weight)
        scores: list[tuple[float, bool]] = []
        for found, gold, known in zip(self.reader.extract(self._texts), self._gold, self._known, strict=True):
            best: dict[tuple[str, str], float] = {}
            for it, name in zip(found.entities, self._keys([it.text for it in found.entities]), strict=True):
                item = (known.get(name, name), it.type)
                best[item] = max(best.get(item, 0.0), it.score or 0.0)
            scores += [(score, item in gold) for item, score in best.items()]
        return asdict(best_threshold(scores, sum(map(len, self._gold)), self._candidates))

    def _keys(self, names: Sequence[str]) -> list[str]:
        return [self._names.get(it, it) for it in normals(names)]

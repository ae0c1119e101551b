"""What an LLM sees in a training step: examples that share one instruction, written by the extraction's prompt book."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgscale.config import VllmEngine
from kgscale.extract.framing import encode, frame
from kgscale.extract.prompt import Task, prompt_book
from kgscale.finetune.asking import Asked, ask, given_entities
from kgscale.finetune.contamination import Apart
from kgscale.finetune.facts import LONGER, WRITTEN, Document, document

ENGINE = VllmEngine()
"""The form of prompt and answer: that of a local engine by default."""
POOL = 12
"""Documents drawn for each one used, so that those of a batch are alike in length."""
SHARES = {WRITTEN: 0.9, "re_docred": 0.05, "somesci": 0.05}
PLAIN = 0.6
"""Share of the schemas in plain words, for documents written for the purpose."""


@dataclass(frozen=True)
class Batch:
    """Token ids: the instruction, then for each example the rest of its prompt, and its answer with the end mark."""

    prefix: list[int]
    prompts: list[list[int]]
    answers: list[list[int]]

    @property
    def tokens(self) -> int:
        """How many tokens are computed."""
        return len(self.prefix) + sum(map(len, self.prompts)) + sum(map(len, self.answers))


def tokenised(
    tokenizer: Any, asked: Asked, task: Task, documents: Sequence[Document], rng: random.Random, limit: int
) -> Batch:
    """The batch that asks `task` about documents; those of more than `limit` tokens are left out."""
    book = prompt_book(asked.schema, ENGINE, task)
    around = frame(tokenizer, book.system)
    batch = Batch(around.before, [], [])
    for it in documents:
        given = given_entities(it, asked, rng) if task is Task.RELATIONS else None
        prompt = [*encode(tokenizer, book.ask(it.text, given or ()).user), *around.after]
        answer = [*encode(tokenizer, asked.answer(it, given)), tokenizer.eos_token_id]
        if len(prompt) + len(answer) <= limit:
            batch.prompts.append(prompt)
            batch.answers.append(answer)
    return batch


class Mixture:
    """Batches of documents written on the spot and of annotated ones; the same for the same seed and number."""

    def __init__(
        self,
        tokenizer: Any,
        annotated: Mapping[str, Sequence[Document]],
        *,
        size: int,
        limit: int,
        apart: Apart | None = None,
    ) -> None:
        """Take annotated documents by source; nothing is written that shares a run of words with texts `apart`."""
        self._tokenizer = tokenizer
        self._annotated = {name: sorted(them, key=lambda it: len(it.text)) for name, them in annotated.items() if them}
        self._size = size
        self._limit = limit
        self._apart = apart or Apart(())

    def draw(self, rng: random.Random, task: Task, source: str | None = None) -> Batch:
        """One batch for a task, from one source: by the shares, or the one named."""
        known = [WRITTEN, *self._annotated]
        while True:
            name = source or rng.choices(known, [SHARES.get(it, 0.1) for it in known])[0]
            documents = self._alike(name, rng)
            asked = ask(documents, rng, PLAIN)
            batch = tokenised(self._tokenizer, asked, task, documents, rng, self._limit)
            if batch.prompts:
                return batch

    def _alike(self, source: str, rng: random.Random) -> list[Document]:
        """Documents of like length."""
        if source != WRITTEN:
            them = self._annotated[source]
            first = rng.randrange(max(1, len(them) - 2 * self._size))
            return rng.sample(them[first : first + 2 * self._size], min(self._size, len(them)))
        written = (document(rng, LONGER) for _ in range(POOL * self._size))
        pool = sorted((it for it in written if self._apart.behind(it.text) is None), key=lambda it: len(it.text))
        first = rng.randrange(len(pool) - self._size + 1)
        return pool[first : first + self._size]


Draw = Callable[[random.Random, Task], Batch]

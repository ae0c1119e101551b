"""One chunk through an LLM: prompts out, answers in, one row."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kgscale.extract.llm import Completion, EngineBrokenError, Llm
from kgscale.extract.methods import Step
from kgscale.extract.parse import Answer, parse_answer
from kgscale.extract.prompt import PromptBook, Task
from kgscale.ground import Grounding
from kgscale.records import Chunk, Entity, Extraction, Relation, Status

LEAST_NAMES = 2
"""Nothing can be related to nothing: with fewer names the LLM is not asked for relations."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """One piece of a chunk with its answer; `problem` is null where the answer is whole."""

    completion: Completion | None
    answer: Answer | None
    problem: str | None


@dataclass(frozen=True)
class LlmExtractor:
    """Turns chunks into rows for the steps of one engine."""

    llm: Llm
    books: Mapping[Task, PromptBook]
    keep_raw: bool

    async def extract(self, step: Step, chunk: Chunk, given: Extraction | None) -> Extraction:
        """The row of a chunk; `given` is the upstream method's row where the step builds on one.

        Raises `EngineBrokenError`; whatever else goes wrong is told in the row.
        """
        row = Extraction(chunk.chunk_id, chunk.row, chunk.doc_id, step.method, Status.OK, device=self.llm.device)
        if given is None:
            return await self._ask(row, step, step.task, chunk, [])
        if given.status in (Status.FAILED, Status.DEAD):
            return replace(row, status=Status.FAILED, error=f"entities: {given.error or given.status}")
        if chunk.text.strip() and is_uncertain(step, given):
            return _with_upstream_cost(await self._ask(row, step, Task.BOTH, chunk, []), given)
        row = replace(row, entities=given.entities, entities_by=given.entities_by)
        names = list(dict.fromkeys((it.text, it.type) for it in given.entities))
        if len({name for name, _ in names}) >= LEAST_NAMES:
            row = await self._ask(row, step, Task.RELATIONS, chunk, names)
        if given.status is Status.TRUNCATED and row.status is Status.OK:
            # Where entities are missing, so are their relations.
            row = replace(row, status=Status.TRUNCATED, error=f"entities: {given.error}")
        return _with_upstream_cost(row, given)

    async def _ask(
        self, row: Extraction, step: Step, task: Task, chunk: Chunk, names: Sequence[tuple[str, str]]
    ) -> Extraction:
        if not chunk.text.strip():
            return replace(row, entities_by=row.entities_by or step.engine)
        book = self.books[task]
        try:
            texts = self.llm.pieces(chunk.text, book, book.ask("", names).user)
        except Exception as error:  # noqa: BLE001  # a text that the tokenizer chokes on is that chunk's failure
            return replace(row, status=Status.FAILED, error=_reason(error))
        asked = [(text, _names_in(text, names) if len(texts) > 1 else names) for text in texts]
        if task is Task.RELATIONS:
            asked = [(text, given) for text, given in asked if len({name for name, _ in given}) >= LEAST_NAMES]
        pieces = await asyncio.gather(*(self._piece(book, task, text, given) for text, given in asked))
        return replace(self._row(row, step, task, chunk, pieces), windows=len(texts))

    async def _piece(self, book: PromptBook, task: Task, text: str, names: Sequence[tuple[str, str]]) -> _Piece:
        try:
            completion = await self.llm.complete(book, book.ask(text, names))
        except EngineBrokenError:
            raise
        except Exception as error:  # noqa: BLE001  # any other error belongs to this prompt alone
            return _Piece(None, None, _reason(error))
        answer = parse_answer(completion.text, task)
        if answer is None or (answer.empty and not answer.whole):
            return _Piece(completion, None, _no_answer(completion))
        if answer.empty and answer.malformed:
            return _Piece(completion, None, f"malformed: {answer.malformed} items left out, no other there")
        if completion.finish_reason != "stop":
            return _Piece(
                completion, answer, f"{completion.finish_reason}: cut after {completion.output_tokens} tokens"
            )
        if not answer.whole:
            return _Piece(completion, answer, "broken: the answer is no complete JSON object")
        if answer.malformed:
            return _Piece(completion, answer, f"malformed: {answer.malformed} items left out")
        return _Piece(completion, answer, None)

    def _row(self, row: Extraction, step: Step, task: Task, chunk: Chunk, pieces: Sequence[_Piece]) -> Extraction:
        answers = [it.answer for it in pieces if it.answer is not None]
        problems = [it.problem for it in pieces if it.problem is not None]
        error = problems[0] if problems else None
        if error and len(pieces) > 1:
            error = f"{error} ({len(problems)} of {len(pieces)} windows)"
        status = Status.OK if not problems else Status.TRUNCATED if answers else Status.FAILED
        entities, by = row.entities, row.entities_by
        if task is not Task.RELATIONS:
            grounding = Grounding(chunk.text)
            found = dict.fromkeys(pair for it in answers for pair in it.entities)
            entities, by = [_located(grounding, *pair) for pair in found], step.engine
        triples = dict.fromkeys(triple for it in answers for triple in it.relations)
        done = [it.completion for it in pieces if it.completion is not None]
        return replace(
            row,
            status=status,
            error=error,
            # Entities that were given stand in the row even when the relations failed; a failed row never counts.
            entities=entities,
            entities_by=by,
            relations=[Relation(source, target, kind) for source, kind, target in triples],
            queue_ms=_sum(it.queue_ms for it in done),
            service_ms=_sum(it.service_ms for it in done),
            prefill_ms=_sum(it.prefill_ms for it in done),
            decode_ms=_sum(it.decode_ms for it in done),
            batch_ms=_sum(it.batch_ms for it in done),
            batch_size=_shared([(it.batch_ms, it.batch_size) for it in done]),
            prompt_tokens=_count(it.prompt_tokens for it in done),
            cached_tokens=_count(it.cached_tokens for it in done),
            output_tokens=_count(it.output_tokens for it in done),
            finish_reason=next((it.finish_reason for it in done if it.finish_reason != "stop"), "stop")
            if done
            else None,
            raw="\n".join(it.text for it in done) if self.keep_raw else None,
        )


def is_uncertain(step: Step, given: Extraction) -> bool:
    """Whether the entities of `given` are so doubtful that the step's fallback takes over."""
    if step.fallback is None:
        return False
    scores = [it.score for it in given.entities if it.score is not None]
    doubts = {
        "empty": not given.entities,
        "low_score": bool(scores) and sum(scores) / len(scores) < step.fallback.min_score,
        "truncated": given.status is Status.TRUNCATED,
    }
    return any(doubts[name] for name in step.fallback.when)


def _with_upstream_cost(row: Extraction, given: Extraction) -> Extraction:
    """Add what finding the entities took, so that the row's times stand for the whole method."""
    return replace(
        row,
        queue_ms=_sum((row.queue_ms, given.queue_ms)),
        service_ms=_sum((row.service_ms, given.service_ms)),
        batch_ms=_sum((row.batch_ms, given.batch_ms)),
        batch_size=_shared([(row.batch_ms, row.batch_size), (given.batch_ms, given.batch_size)]),
    )


def _names_in(text: str, names: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [it for it in names if it[0] in text]


def _located(grounding: Grounding, name: str, kind: str) -> Entity:
    span = grounding.find(name)
    return Entity(name, kind, *span) if span else Entity(name, kind)


def _shared(batches: list[tuple[float | None, float | None]]) -> float | None:
    """The batch size that keeps the amortised cost (time over size) of several stays together."""
    known = [(stay, size) for stay, size in batches if stay is not None and size]
    own = sum(stay / size for stay, size in known)
    return sum(stay for stay, _ in known) / own if own > 0 else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _count(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _no_answer(completion: Completion) -> str:
    start = " ".join(completion.text[:80].split())
    if completion.finish_reason != "stop":
        return f"{completion.finish_reason}: nothing complete in {completion.output_tokens} tokens: {start!r}"
    return f"not-json: {start!r}"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"

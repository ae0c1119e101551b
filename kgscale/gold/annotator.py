"""The model that annotates: an OpenAI-compatible endpoint, asked in a form that it accepts."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from pydantic import ValidationError

from kgscale.config import OpenAIEngine, SchemaConfig
from kgscale.errors import UserError, WorkError
from kgscale.extract.llm import EngineBrokenError
from kgscale.extract.llm_extract import LlmExtractor
from kgscale.extract.llm_openai import OpenAILlm
from kgscale.extract.methods import Step
from kgscale.extract.prompt import PromptBook, Task, prompt_book
from kgscale.formats.common import Record
from kgscale.gold.answers import Answer, Answers, Key, text_hash
from kgscale.gold.sets import Say
from kgscale.records import Chunk, Extraction, Status
from kgscale.text import words

TRIES = 3
"""Times that a text is asked about when the answer cannot be used."""
MOST_ITEMS = 100
"""Entities, and relations, in one answer."""
FORMS = ("json_schema", "json_object", "none")
"""How an endpoint is asked for JSON, the strictest first."""
REFUSED = (400, 422)
BROKEN = ("JSONDecodeError", "APIResponseValidationError", "ValueError")
"""What an error of the client begins with when the reply itself is no JSON, or has no answer in it."""
SAY_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Annotator:
    """One model with its prices in dollars per million tokens, null where they are not known."""

    engine: OpenAIEngine
    book: PromptBook
    price_in: float | None = None
    price_out: float | None = None

    @classmethod
    def of(cls, engine: OpenAIEngine, schema: SchemaConfig, prices: tuple[float | None, float | None]) -> "Annotator":
        """An annotator that is asked as the `llm` method asks, for all that the schema has.

        Raises `UserError` if a price is none.
        """
        for price in prices:
            if price is not None and not 0 <= price < inf:
                raise UserError(f"{engine.model} cannot have a price of {price} dollars")
        task = Task.BOTH if schema.relation_types else Task.ENTITIES
        return cls(engine, prompt_book(schema, engine, task), *prices)

    def unanswered(self, records: Sequence[Record], answers: Answers) -> list[Record]:
        """The texts that this annotator has no usable answer to yet; those that failed before come last."""
        good, asked = answers.good(), {it.key for it in answers.all}
        left = [it for it in records if self.key(it) not in good]
        return sorted(left, key=lambda it: self.key(it) in asked)

    def key(self, record: Record) -> Key:
        """What an answer to a text is known by."""
        return record.gold.chunk_id, text_hash(record.text), self.engine.model, self.book.sha256


def annotating_engine(model: str, endpoint: str | None, key_env: str | None, settings: dict[str, Any]) -> OpenAIEngine:
    """The engine of a model at an endpoint (by default OpenAI's own).

    The key comes from the environment variable `key_env`. Only OpenAI's endpoint is given OPENAI_API_KEY unasked: a key
    must not go to whoever else serves a model.
    """
    values: dict[str, Any] = {"model": model, "max_entities": MOST_ITEMS, "max_relations": MOST_ITEMS, **settings}
    if endpoint is not None:
        values |= {"base_url": endpoint, "api_key_env": None}
    if key_env is not None:
        values["api_key_env"] = None if key_env == "none" else key_env
    try:
        return OpenAIEngine.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{'.'.join(map(str, first['loc']))}: {first['msg']} (it is {first['input']!r})") from None


async def annotate(annotator: Annotator, records: Sequence[Record], answers: Answers, seed: int, say: Say) -> None:
    """Ask about every text and write each answer as soon as it is there.

    Raises `WorkError` if the endpoint does not answer at all; what fails for one text is told in its answer.
    """
    llm = await _opened(annotator, seed, say)
    extractor = LlmExtractor(llm, {annotator.book.task: annotator.book}, keep_raw=False)
    progress = _Progress(len(records), annotator.engine.model, say)

    async def one(record: Record) -> None:
        answers.add(await _answer(annotator, extractor, record))
        progress.step()

    tasks = [asyncio.create_task(one(it)) for it in records]
    try:
        await asyncio.gather(*tasks)
    except EngineBrokenError as error:
        raise WorkError(
            f"the endpoint is gone: {error}",
            where=annotator.engine.base_url,
            hint=f"{len(answers.good()):,} answers are kept in {answers.path}; run the same command to go on",
        ) from None
    finally:
        for it in tasks:
            it.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await llm.stop()


async def _opened(annotator: Annotator, seed: int, say: Say) -> OpenAILlm:
    """The endpoint, ready; what it refuses of the request is left out or asked for in another way."""
    engine = annotator.engine
    while True:
        llm = OpenAILlm(engine, seed=seed)
        try:
            await llm.start([annotator.book])
        except WorkError as error:
            await llm.stop()
            other = _adapted(engine, error.__context__)
            if other is None:
                raise
            say(f"{engine.base_url} refuses a part of the request, and is asked without it: {error.message}"[:500])
            engine = other
        else:
            return llm


def _adapted(engine: OpenAIEngine, refusal: BaseException | None) -> OpenAIEngine | None:
    """The engine without what the endpoint refuses; null if there is nothing more to leave out."""
    if getattr(refusal, "status_code", None) not in REFUSED:
        return None
    told = str(refusal)
    request = dict(engine.request)
    if "max_tokens" in told and "max_tokens" not in request:
        request |= {"max_tokens": None, "max_completion_tokens": engine.max_tokens}
    elif name := next((it for it in ("temperature", "seed") if it in told and it not in request), None):
        request[name] = None
    elif engine.response_format == FORMS[-1]:
        return None
    else:
        form = FORMS[FORMS.index(engine.response_format) + 1]
        return engine.model_copy(update={"response_format": form})
    return engine.model_copy(update={"request": request})


async def _answer(annotator: Annotator, extractor: LlmExtractor, record: Record) -> Answer:
    """The usable answer, or the last of `TRIES`; the tokens of all tries are counted."""
    gold = record.gold
    chunk = Chunk(gold.chunk_id, record.doc_id, 0, record.text, words(record.text))
    step = Step("annotator", "annotator", annotator.book.task)
    chunk_id, text, model, prompt = annotator.key(record)
    answer = Answer(chunk_id, text, model, prompt, Status.FAILED)
    for tries in range(1, TRIES + 1):
        row = await extractor.extract(step, chunk, None)
        answer = replace(
            answer,
            # Gold that is cut is none: half an answer would count the other half as wrong.
            status=Status.OK if row.status is Status.OK else Status.FAILED,
            error=row.error,
            entities=[(it.text, it.type) for it in row.entities],
            relations=[(it.source, it.type, it.target) for it in row.relations],
            prompt_tokens=answer.prompt_tokens + (row.prompt_tokens or 0),
            output_tokens=answer.output_tokens + (row.output_tokens or 0),
            tries=tries,
        )
        if row.status is Status.OK or not _worth_another_try(row):
            break
    return answer


def _worth_another_try(row: Extraction) -> bool:
    """Whether the answer was broken; the client has tried again already where there was none, and a cut stays one."""
    return row.finish_reason == "stop" or (row.error or "").startswith(BROKEN)


class _Progress:
    def __init__(self, total: int, model: str, say: Say) -> None:
        self._total, self._model, self._say = total, model, say
        self._done = 0
        self._said_at = time.monotonic()

    def step(self) -> None:
        self._done += 1
        if time.monotonic() - self._said_at > SAY_EVERY_S:
            self._said_at = time.monotonic()
            self._say(f"{self._model}: {self._done:,} of {self._total:,} texts")

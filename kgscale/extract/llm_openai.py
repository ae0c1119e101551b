"""An LLM behind an OpenAI-compatible HTTP endpoint: hosted, vLLM, Ollama, MLX and others."""

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

from kgscale.config import OpenAIEngine
from kgscale.errors import WorkError
from kgscale.extract.llm import Completion, EngineBrokenError
from kgscale.extract.meter import Meter
from kgscale.extract.prompt import Prompt, PromptBook
from kgscale.extract.windows import text_windows
from kgscale.text import word_offsets

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAILlm:
    """Sends prompts over HTTP; the client library retries 408, 409, 429, 5xx and broken connections, ever slower."""

    def __init__(self, engine: OpenAIEngine, *, seed: int) -> None:
        self.device = engine.base_url
        self._engine = engine
        self._seed = seed
        self._meter = Meter()
        self._slots = asyncio.Semaphore(engine.concurrency)
        self._client: AsyncOpenAI | None = None
        self._key = ""

    async def start(self, books: list[PromptBook]) -> None:
        """Answer one prompt, so that a wrong address, key or model name stops the job and not each chunk."""
        from openai import AsyncOpenAI, OpenAIError

        if self._engine.api_key_env is not None:
            self._key = os.environ.get(self._engine.api_key_env, "").strip()
            if not self._key:
                raise WorkError(
                    f"the environment variable {self._engine.api_key_env} is not set for {self._engine.base_url}",
                    hint="set it to the endpoint's key; if it needs none: `api_key_env: null`, or `--api-key-env none`",
                )
        self._client = AsyncOpenAI(
            base_url=self._engine.base_url,
            api_key=self._key or "none",
            max_retries=self._engine.retries,
            timeout=self._engine.timeout_s,
        )
        try:
            await self._complete(books[0], books[0].ask("Nothing is said here."))
        except (OpenAIError, ValueError) as error:
            raise WorkError(f"the endpoint does not answer: {error}", where=self._engine.base_url) from None

    async def complete(self, book: PromptBook, prompt: Prompt) -> Completion:
        """Answer one prompt; raises the client library's error when all retries failed.

        Where the endpoint itself is gone (no connection, key refused, model unknown) that is `EngineBrokenError`.
        """
        from openai import APIConnectionError, APITimeoutError, AuthenticationError, NotFoundError

        try:
            return await self._complete(book, prompt)
        except APITimeoutError:
            raise
        except (APIConnectionError, AuthenticationError, NotFoundError) as error:
            raise EngineBrokenError(str(error)) from error

    async def _complete(self, book: PromptBook, prompt: Prompt) -> Completion:
        assert self._client is not None, "start() comes first"
        queued = time.perf_counter()
        async with self._slots:
            begun = time.perf_counter()
            entered = self._meter.enter(begun)
            try:
                response = await self._client.chat.completions.create(
                    model=self._engine.model,
                    messages=[{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
                    **self._fields(book),
                )
            except Exception as error:
                # Endpoints have been seen to quote the request's headers.
                error.args = tuple(self._without_key(it) for it in error.args)
                raise
            finally:
                ended = time.perf_counter()
                share = self._meter.leave(entered, ended)
        choices = getattr(response, "choices", None)
        if not choices or choices[0].message is None:
            raise ValueError(f"the endpoint sent no answer but {self._without_key(str(response))[:200]!r}")
        choice, usage = choices[0], response.usage
        details = usage.prompt_tokens_details if usage else None
        return Completion(
            text=self._without_key(_text(choice.message)),
            finish_reason=choice.finish_reason or "stop",
            prompt_tokens=usage.prompt_tokens if usage else None,
            cached_tokens=details.cached_tokens if details else None,
            output_tokens=usage.completion_tokens if usage else None,
            queue_ms=(begun - queued) * 1e3,
            service_ms=(ended - begun) * 1e3,
            batch_ms=share.stay_ms,
            batch_size=share.batch_size,
        )

    def pieces(self, text: str, book: PromptBook, extra: str = "") -> list[str]:  # noqa: ARG002  # no tokens to count
        """Cut by words: the endpoint's tokenizer is not known here."""
        return text_windows(text, word_offsets(text), self._engine.max_chunk_words)

    async def stop(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    def _without_key(self, value: Any) -> Any:
        return value.replace(self._key, "***") if self._key and isinstance(value, str) else value

    def _fields(self, book: PromptBook) -> dict[str, Any]:
        """The request beside model and messages; what the config says of its fields goes before our own."""
        fields = {
            "max_tokens": self._engine.max_tokens,
            "temperature": self._engine.temperature,
            "seed": self._seed,
            **self._format(book),
        }
        other = {key: value for key, value in self._engine.request.items() if value is not None}
        ours = {key: value for key, value in fields.items() if key not in self._engine.request}
        return {**ours, "extra_body": other} if other else ours

    def _format(self, book: PromptBook) -> dict[str, Any]:
        match self._engine.response_format:
            case "json_schema":
                schema = {"name": f"kgscale_{book.task}", "schema": book.answer_schema, "strict": True}
                return {"response_format": {"type": "json_schema", "json_schema": schema}}
            case "json_object":
                return {"response_format": {"type": "json_object"}}
            case _:
                return {}


def _text(message: Any) -> str:
    # Some servers put a constrained answer beside the content when a model can think aloud.
    text = message.content or getattr(message, "reasoning_content", None) or ""
    # Half of a character, which JSON can spell, fits into no file.
    return str(text).encode(errors="replace").decode()

"""The interface of LLM engines, and the choice between them."""

from dataclasses import dataclass
from typing import Protocol

from kgscale.config import LlmEngine, VllmEngine
from kgscale.extract.prompt import Prompt, PromptBook


class EngineBrokenError(Exception):
    """The engine cannot answer anything any more; its worker must be replaced."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An engine's answer to one prompt; times in milliseconds, null where the engine does not tell."""

    text: str
    finish_reason: str
    """`stop`, `length`, `repetition`, or what else the engine says."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    queue_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    service_ms: float | None = None
    batch_ms: float | None = None
    batch_size: float | None = None


class Llm(Protocol):
    """An engine that completes prompts, many at once."""

    device: str

    async def start(self, books: list[PromptBook]) -> None:
        """Load the model and answer once per task, so that the first chunk finds caches and grammars ready."""

    async def complete(self, book: PromptBook, prompt: Prompt) -> Completion:
        """Answer one prompt; `EngineBrokenError` means that the engine is gone, any other error is this prompt's."""

    def pieces(self, text: str, book: PromptBook, extra: str = "") -> list[str]:
        """Cut a text that is too long for the engine, with overlap; `extra` is what else the prompt will carry."""

    async def stop(self) -> None:
        """Free what the engine holds."""


def make_llm(engine: LlmEngine, *, gpu_share: float | None, seed: int) -> Llm:
    """Build the engine that a config names, without starting it."""
    if isinstance(engine, VllmEngine):
        from kgscale.extract.llm_vllm import VllmLlm

        return VllmLlm(engine, gpu_share=gpu_share, seed=seed)
    from kgscale.extract.llm_openai import OpenAILlm

    return OpenAILlm(engine, seed=seed)

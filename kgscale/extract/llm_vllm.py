"""A local LLM served by vLLM's asynchronous engine inside the worker."""

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kgscale.config import VllmEngine
from kgscale.errors import UserError
from kgscale.extract.framing import Frame, encode, frame, offsets
from kgscale.extract.llm import Completion, EngineBrokenError
from kgscale.extract.meter import Meter
from kgscale.extract.placement import at_once
from kgscale.extract.prompt import Prompt, PromptBook
from kgscale.extract.windows import text_windows
from kgscale.pretrained import locate

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.v1.engine.async_llm import AsyncLLM

LEAST_TEXT_TOKENS = 128
"""A prompt that leaves less room than this for the text cannot work."""


class VllmLlm:
    """Keeps many chunks in one engine; the shared instruction comes first and is tokenised and computed once."""

    def __init__(self, engine: VllmEngine, *, gpu_share: float | None, seed: int) -> None:
        import torch

        self._engine = engine
        self._gpu_share = gpu_share
        self._seed = seed
        self._cpu = not torch.cuda.is_available()
        self.device = "cpu" if self._cpu else torch.cuda.get_device_name(0)
        self._meter = Meter()
        self._frames: dict[str, Frame] = {}
        self._llm: AsyncLLM | None = None
        self._tokenizer: Any = None

    async def start(self, books: list[PromptBook]) -> None:
        """Load the model and send one prompt per task; raises what vLLM raises, `UserError` for a prompt too long."""
        import asyncio
        import time

        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = AsyncEngineArgs(**self.settings(books))
        # Told nothing, the asynchronous engine computes 2,048 tokens in a step; a batch job is to have what `LLM` has.
        self._llm = await asyncio.to_thread(AsyncLLM.from_engine_args, arguments, usage_context=UsageContext.LLM_CLASS)
        for book in books:
            await self._generate(book, book.ask("Nothing is said here."), max_tokens=8, now=time.perf_counter)

    def settings(self, books: list[PromptBook]) -> dict[str, Any]:
        """Load the tokenizer, prepare the prompts of `books`, and say with what settings vLLM is started.

        Raises `UserError` for a prompt that leaves no room for a text.
        """
        from transformers import AutoTokenizer

        model = str(locate(self._engine.model, "llm"))
        self._tokenizer = AutoTokenizer.from_pretrained(
            model, revision=self._engine.revision, trust_remote_code=self._engine.trust_remote_code
        )
        for book in books:
            self._frames[book.system] = frame(self._tokenizer, book.system)
            self._room(book)
        settings: dict[str, Any] = {
            "model": model,
            "revision": self._engine.revision,
            "dtype": self._engine.dtype,
            "seed": self._seed,
            "max_model_len": self._engine.max_model_len,
            "max_num_seqs": at_once(self._engine, not self._cpu),
            **self._memory(),
            "trust_remote_code": self._engine.trust_remote_code,
            # Compiling takes minutes on a CPU and gains little there.
            "enforce_eager": self._cpu,
            # The model's own sampling defaults would make the config's temperature a lie.
            "generation_config": "vllm",
            # White space in JSON is where small models loop; only the engine-wide switch is heard, and only with a
            # named backend.
            "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
            "disable_log_stats": False,
        }
        return settings | self._engine.engine_args

    def tokens(self, book: PromptBook, prompt: Prompt) -> list[int]:
        """A prompt as vLLM gets it; what comes before the text is the same for every text."""
        around = self._frames[book.system]
        return [*around.before, *self._encode(prompt.user), *around.after]

    def sampling(self, book: PromptBook, max_tokens: int) -> "SamplingParams":
        """How an answer is sampled: JSON by schema, its text made once at the end."""
        from vllm import SamplingParams
        from vllm.sampling_params import RepetitionDetectionParams, RequestOutputKind, StructuredOutputsParams

        return SamplingParams(
            temperature=self._engine.temperature,
            max_tokens=max_tokens,
            seed=self._seed if self._engine.temperature > 0 else None,
            # Anything but the final output would be made anew for every token.
            output_kind=RequestOutputKind.FINAL_ONLY,
            detokenize=False,
            structured_outputs=StructuredOutputsParams(json=json.dumps(book.answer_schema)),
            repetition_detection=RepetitionDetectionParams(max_pattern_size=64, min_pattern_size=4, min_count=4),
        )

    async def complete(self, book: PromptBook, prompt: Prompt) -> Completion:
        """Answer one prompt; raises `EngineBrokenError` when the engine is dead."""
        import time

        return await self._generate(book, prompt, self._engine.max_tokens, time.perf_counter)

    def pieces(self, text: str, book: PromptBook, extra: str = "") -> list[str]:
        """Cut by tokens, so that each piece fits beside the instruction and the answer."""
        room = self._room(book)
        # A piece is asked with its own names only: where all of them leave too little, they get twice its length.
        budget = max(room - len(self._encode(extra)), room // 3)
        budget = min(budget, self._engine.max_chunk_tokens or budget)
        return text_windows(text, offsets(self._tokenizer, text), budget)

    async def stop(self) -> None:
        """End the engine's processes and let go of it: vLLM's own clean-up fails once Python is on its way out."""
        llm, self._llm = self._llm, None
        if llm is not None:
            llm.shutdown()

    async def _generate(self, book: PromptBook, prompt: Prompt, max_tokens: int, now: Any) -> Completion:
        from vllm.v1.engine.exceptions import EngineDeadError

        assert self._llm is not None, "start() comes first"
        tokens, sampling = self.tokens(book, prompt), self.sampling(book, max_tokens)
        entered = self._meter.enter(now())
        output = None
        try:
            async for final in self._llm.generate({"prompt_token_ids": tokens}, sampling, request_id=uuid4().hex):
                output = final
        except EngineDeadError as error:
            raise EngineBrokenError(str(error)) from error
        finally:
            share = self._meter.leave(entered, now())
        if output is None:
            raise EngineBrokenError("the engine ended a request without an answer")
        answer, times = output.outputs[0], output.metrics
        return Completion(
            text=self._tokenizer.decode(answer.token_ids, skip_special_tokens=True),
            finish_reason=str(answer.finish_reason or "stop"),
            prompt_tokens=len(tokens),
            cached_tokens=output.num_cached_tokens,
            output_tokens=len(answer.token_ids),
            # All four are readings of the engine's own monotonic clock; its arrival time is not, and is left out.
            queue_ms=(times.scheduled_ts - times.queued_ts) * 1e3,
            prefill_ms=(times.first_token_ts - times.scheduled_ts) * 1e3,
            decode_ms=(times.last_token_ts - times.first_token_ts) * 1e3,
            service_ms=(times.last_token_ts - times.scheduled_ts) * 1e3,
            batch_ms=share.stay_ms,
            batch_size=share.batch_size,
        )

    def _memory(self) -> dict[str, Any]:
        """On a GPU that is shared, no more than was booked; a fixed cache size also skips vLLM's memory profiling."""
        if self._cpu:
            return {}
        fixed = (
            {"kv_cache_memory_bytes": int(self._engine.kv_cache_gib * (1 << 30))} if self._engine.kv_cache_gib else {}
        )
        return {"gpu_memory_utilization": self._gpu_share or 0.9, **fixed}

    def _encode(self, text: str) -> list[int]:
        return encode(self._tokenizer, text)

    def _room(self, book: PromptBook) -> int:
        """Tokens that instruction and answer leave; raises `UserError` where that is too little for a text."""
        around = self._frames[book.system]
        # A dozen tokens for the words around the text.
        taken = len(around.before) + len(around.after) + 12
        room = self._engine.max_model_len - self._engine.max_tokens - taken
        if room < LEAST_TEXT_TOKENS:
            raise UserError(
                f"the prompt for {book.task} takes {taken} tokens, which leaves {max(room, 0)} of "
                f"{self._engine.max_model_len} for the text",
                hint="raise the engine's `max_model_len`, lower its `max_tokens`, or use fewer or shorter types",
            )
        return room

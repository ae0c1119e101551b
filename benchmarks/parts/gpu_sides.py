"""The engines that benchmarks/gpu.py measures, each in a process of its own."""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.parts.random_models import LABELS, make_gliner, make_llm, text

INSTRUCTION, TEXT, ANSWER = 700, 540, 185
"""Tokens of a chunk's prompt, of which the first are the same for all, and of its answer."""
WORDS = 384
SHARE_OF_LLM = 0.8

Row = dict[str, Any]


class Gliner:
    """kgscale's GLiNER on made-up texts; a negative number loads it for batches of so many tokens, else a round."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import torch

        if torch.cuda.is_available():
            torch.cuda.set_per_process_memory_fraction(arguments.share)
        self._folder = make_gliner(arguments.size, Path(arguments.models))
        self._texts = [text(WORDS, seed) for seed in range(arguments.chunks)]

    def measure(self, number: int) -> Row:
        from kgscale.config import GlinerEngine
        from kgscale.extract.gliner import GlinerModel

        if number < 0:
            engine = GlinerEngine(model=str(self._folder), threshold=0.99, batch_tokens=-number)
            self._model = GlinerModel(engine, list(LABELS), threads=1)
            self._model.extract(self._texts[: max(8, len(self._texts) // 8)])
            return {"seconds": 0.0, "chunks": 0}
        begun = time.perf_counter()
        found = self._model.extract(self._texts)
        problems = {it.error for it in found if it.error}
        assert not problems, problems
        return {"seconds": time.perf_counter() - begun, "chunks": len(self._texts)}

    def close(self) -> None:
        """Nothing is left."""


class Llm:
    """vLLM with dummy weights; a round asks so many chunks at once, and with a grammar where the number is negative."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from vllm import LLM

        model = make_llm(arguments.size, Path(arguments.models))
        on_cpu = arguments.device == "cpu"
        self._llm = LLM(
            model=str(model),
            load_format="dummy",
            kv_cache_dtype=arguments.kv,
            max_model_len=2048,
            max_num_seqs=arguments.most,
            gpu_memory_utilization=SHARE_OF_LLM,
            enforce_eager=on_cpu,
            structured_outputs_config={"backend": "xgrammar", "disable_any_whitespace": True},
        )
        self._answer = 16 if on_cpu else ANSWER
        self._vocabulary = 4000 if on_cpu else 150_000
        self._round = 0
        for number in (2, -2):
            self.measure(number)

    def measure(self, number: int) -> Row:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        self._round += 1
        prompts = [
            {"prompt_token_ids": [*_tokens(INSTRUCTION, 0, self._vocabulary), *_tokens(TEXT, seed, self._vocabulary)]}
            for seed in range(1_000 * self._round, 1_000 * self._round + abs(number))
        ]
        grammar = StructuredOutputsParams(json=json.dumps(_schema())) if number < 0 else None
        sampling = SamplingParams(
            temperature=0.0,
            max_tokens=self._answer,
            # An answer that ends early would be another workload.
            ignore_eos=grammar is None,
            detokenize=False,
            structured_outputs=grammar,
        )
        begun = time.perf_counter()
        found = self._llm.generate(prompts, sampling, use_tqdm=False)
        seconds = time.perf_counter() - begun
        return {"seconds": seconds, "chunks": len(found), "tokens": sum(len(it.outputs[0].token_ids) for it in found)}

    def close(self) -> None:
        """The engine ends with the process."""


def _tokens(number: int, seed: int, vocabulary: int) -> Iterator[int]:
    """Made-up token ids; the same seed gives the same ones."""
    at = seed * 7919 + 12345
    for _ in range(number):
        at = (at * 1_103_515_245 + 12_345) % (1 << 31)
        yield 300 + at % (vocabulary - 300)


def _schema() -> Row:
    """Like kgscale's: entities of a name and one of ten types; long enough for a whole answer."""
    name = {"type": "string", "minLength": 1, "maxLength": 100}
    item = {
        "type": "array",
        "prefixItems": [name, {"type": "string", "enum": list(LABELS)}],
        "items": False,
        "minItems": 2,
        "maxItems": 2,
    }
    entities = {"type": "array", "items": item, "minItems": 40, "maxItems": 40}
    return {"type": "object", "properties": {"entities": entities}, "required": ["entities"]}

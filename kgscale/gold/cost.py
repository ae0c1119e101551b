"""What annotating costs: estimated before, added up after."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kgscale.formats.common import Record
from kgscale.gold.annotator import Annotator
from kgscale.gold.answers import Answer
from kgscale.text import words

TOKENS_PER_WORD = 1.35
"""Tokens of today's tokenizers in a word as kgscale counts it: English 1.2 to 1.4, Chinese 0.7 to 1.2 a character."""
ANSWER_SHARE = 0.8
"""Tokens of an answer (with names and types of all entities and relations) for each token of text."""
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens of one annotator, and dollars (null without prices)."""

    model: str
    answers: int
    prompt_tokens: int
    output_tokens: int
    dollars: float | None

    def __str__(self) -> str:
        money = "" if self.dollars is None else f", ${self.dollars:,.4f}"
        tokens = f"{self.prompt_tokens:,} tokens in, {self.output_tokens:,} out"
        return f"{self.model}: {self.answers:,} answers, {tokens}{money}"


def estimate(annotator: Annotator, records: Sequence[Record]) -> tuple[Cost, Cost]:
    """What asking about these texts will take, roughly; and at most, if every answer is as long as it may be."""
    instruction = words(annotator.book.system) + words(annotator.book.ask("").user)
    texts = sum(words(it.text) for it in records)
    prompt = round(TOKENS_PER_WORD * (instruction * len(records) + texts))
    longest = annotator.engine.max_tokens * len(records)
    likely = min(longest, round(TOKENS_PER_WORD * ANSWER_SHARE * texts))
    return _cost(annotator, len(records), prompt, likely), _cost(annotator, len(records), prompt, longest)


def spent(annotator: Annotator, answers: Iterable[Answer]) -> Cost:
    """What the answers of an annotator took, the unusable ones included; 0 tokens where the endpoint tells none."""
    model, prompt = annotator.engine.model, annotator.book.sha256
    own = [it for it in answers if (it.model, it.prompt) == (model, prompt)]
    prompt_tokens, output_tokens = sum(it.prompt_tokens for it in own), sum(it.output_tokens for it in own)
    return _cost(annotator, len(own), prompt_tokens, output_tokens)


def _cost(annotator: Annotator, texts: int, prompt_tokens: int, output_tokens: int) -> Cost:
    dollars = None
    if annotator.price_in is not None or annotator.price_out is not None:
        dollars = (prompt_tokens * (annotator.price_in or 0) + output_tokens * (annotator.price_out or 0)) / MILLION
    return Cost(annotator.engine.model, texts, prompt_tokens, output_tokens, dollars)

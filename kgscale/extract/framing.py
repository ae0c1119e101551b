"""From a prompt to tokens: the model's chat template around it, and text that cannot pass for a template's tokens."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_MARK = "\u241eTEXT\u241e"


@dataclass(frozen=True)
class Frame:
    """The tokens before and after the variable part of a prompt."""

    before: list[int]
    after: list[int]


def frame(tokenizer: Any, system: str) -> Frame:
    """The tokens around the user's part of a prompt with this system part; plain lines where there is no template."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": _MARK}]
    options = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}
    if tokenizer.chat_template is None:
        whole = f"{system}\n\n{_MARK}\n\n"
    else:
        try:
            whole = tokenizer.apply_chat_template(messages, **options)
        except Exception:  # noqa: BLE001  # templates without a system role raise an error of their own making
            merged = [{"role": "user", "content": f"{system}\n\n{_MARK}"}]
            whole = tokenizer.apply_chat_template(merged, **options)
    before, _, after = whole.partition(_MARK)
    return Frame(
        tokenizer.encode(before, add_special_tokens=tokenizer.chat_template is None),
        tokenizer.encode(after, add_special_tokens=False),
    )


def encode(tokenizer: Any, text: str) -> list[int]:
    """Tokens of a text from the corpus: what looks like a chat template's token is only letters."""
    parts = (it for _, it in _parts(tokenizer, text))
    options = {"add_special_tokens": False, "split_special_tokens": True}
    return [token for part in parts for token in tokenizer.encode(part, **options)]


def offsets(tokenizer: Any, text: str) -> list[tuple[int, int]]:
    """Where in a text each of those tokens begins and ends."""
    options = {"add_special_tokens": False, "split_special_tokens": True, "return_offsets_mapping": True}
    return [
        (at + start, at + stop)
        for at, part in _parts(tokenizer, text)
        for start, stop in tokenizer(part, **options)["offset_mapping"]
    ]


def _parts(tokenizer: Any, text: str) -> Iterator[tuple[int, str]]:
    """A text and where it begins, cut inside whatever is spelt like a token that the tokenizer has been given.

    Some of these are not called special, so that no switch splits them: `<think>` and `<tool_call>` of Qwen are two.
    """
    at = 0
    given = _given(tokenizer)
    for found in given.finditer(text) if given else ():
        yield at, text[at : found.start() + 1]
        at = found.start() + 1
    if at < len(text) or not text:
        yield at, text[at:]


@lru_cache(maxsize=16)
def _given(tokenizer: Any) -> re.Pattern[str] | None:
    """What matches the added tokens that are not special; those of white space alone stand for nothing else."""
    names = {it.content for it in tokenizer.added_tokens_decoder.values() if not it.special and it.content.strip()}
    # A single character cannot be cut, and a longer name that begins like another is met at the same place.
    return re.compile("|".join(re.escape(it) for it in sorted(names) if len(it) > 1)) if names else None

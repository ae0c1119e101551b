"""From a prompt to tokens: the model's chat template around it, and text that cannot pass for a template's tokens."""

from dataclasses import dataclass
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
    return list(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))

"""What is said on a terminal and written to logs: no character of foreign text may act there, only be seen."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Controls become the Unicode pictures of themselves. What embeds or overrides the direction of text could make it read
# as something else, so it is shown as a replacement character; direction marks, which real texts need, stay. Half of a
# surrogate pair, which file names can hold, fits into no encoding.
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}
_OVERRIDES = (*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFFFE, 0xFFFF)
_VISIBLE = _PICTURES | dict.fromkeys((*_OVERRIDES, *range(0xD800, 0xE000)), 0xFFFD) | {0x0D: 0x20}
# JSON itself escapes the controls below the space.
_ESCAPED = {code: f"\\u{code:04x}" for code in (0x7F, *_OVERRIDES, *range(0xD800, 0xE000))}


def visible(text: str) -> str:
    """The text with every control character made visible, as long as before, so that offsets stay right."""
    return text.translate(_VISIBLE)


def json_line(value: Any) -> str:
    """A value as JSON on one line, in which no character acts on a terminal; what JSON has not becomes its text."""
    return json.dumps(value, ensure_ascii=False, default=str).translate(_ESCAPED)


def console(*, stderr: bool = False) -> "Console":
    """A console for tables and bars, in which foreign text is `visible`."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class VisibleConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for it in super().render(renderable, options):
                yield it if it.control else Segment(visible(it.text), it.style)

    return VisibleConsole(stderr=stderr)

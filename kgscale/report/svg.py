"""Drawing charts by hand: a canvas that escapes what it writes, axes, and markers that differ in shape."""

import math
from dataclasses import dataclass, field
from typing import Literal

from markupsafe import Markup, escape

from kgscale.talk import visible

MARKER = 5.5
"""Radius of a marker in pixels."""
Anchor = Literal["start", "middle", "end"]
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from values to pixels, linear or by powers of ten."""

    low: float
    high: float
    start: float
    """The pixel of `low`."""
    stop: float
    log: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value; one outside the axis is put on its end."""
        low, high, it = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, it = math.log10(low), math.log10(high), math.log10(it)
        return self.start + (it - low) / (high - low) * (self.stop - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values along the axis."""
        if self.log:
            decades = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            every = math.ceil(len(decades) / most) if decades else 1
            return [10.0**it for it in decades][::every]
        step = next((it for it in _STEPS if (self.high - self.low) / it <= most), self.high - self.low)
        first = math.ceil(self.low / step - 1e-9)
        return [it * step for it in range(first, math.floor(self.high / step + 1e-9) + 1)]


def log_axis(values: list[float], start: float, stop: float) -> Axis:
    """A logarithmic axis over positive values, from round number to round number."""
    steps = (1, 2, 5, 10)
    low, high = min(values) / 1.1, max(values) * 1.1
    decade = 10.0 ** math.floor(math.log10(low))
    below = max(it * decade for it in steps if it * decade <= low)
    decade = 10.0 ** math.floor(math.log10(high))
    above = min(it * decade for it in steps if it * decade >= high)
    return Axis(below, above, start, stop, log=True)


@dataclass
class Canvas:
    """An SVG picture that grows by its methods; colours and fonts come from the page's style sheet, by class."""

    width: float
    height: float
    _parts: list[str] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self._parts.append(f'<path class="{kind}" d="M{_at(x1, y1)}L{_at(x2, y2)}"/>')

    def lines(self, points: list[tuple[float, float]], kind: str) -> None:
        """A line through points, or a filled shape where `kind` is styled so."""
        if points:
            self._parts.append(f'<path class="{kind}" d="M{"L".join(_at(x, y) for x, y in points)}"/>')

    def box(self, x: float, y: float, width: float, height: float, kind: str, title: str = "") -> None:
        """A rectangle."""
        tip = f"<title>{escape(visible(title))}</title>" if title else ""
        size = f'width="{max(width, 0):.1f}" height="{height:.1f}"'
        self._parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size}>{tip}</rect>')

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: Anchor = "start") -> None:
        """Words; `y` is their base line."""
        words = str(escape(visible(words)))
        self._parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>')

    def marker(self, x: float, y: float, shape: int, kind: str, title: str = "") -> None:
        """A marker whose shape (circle, diamond, square, triangle, in turn) tells series apart without colour."""
        r = MARKER
        paths = (
            f"M{_at(x - r, y)}a{r},{r} 0 1 0 {2 * r},0a{r},{r} 0 1 0 {-2 * r},0z",
            f"M{_at(x, y - r - 1.5)}l{r + 1.5},{r + 1.5}l{-r - 1.5},{r + 1.5}l{-r - 1.5},{-r - 1.5}z",
            f"M{_at(x - r + 0.5, y - r + 0.5)}h{2 * r - 1}v{2 * r - 1}h{1 - 2 * r}z",
            f"M{_at(x, y - r - 0.5)}l{r + 0.5},{2 * r}h{-2 * r - 1}z",
        )
        tip = f"<title>{escape(visible(title))}</title>" if title else ""
        self._parts.append(f'<path class="{kind}" d="{paths[shape % len(paths)]}">{tip}</path>')

    def drawn(self, name: str, title: str, description: str) -> Markup:
        """The picture; `name` must be unique in the page."""
        title, description = escape(visible(title)), escape(visible(description))
        head = f'<title id="{name}-t">{title}</title><desc id="{name}-d">{description}</desc>'
        size = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        opened = f'<svg class="chart" role="img" aria-labelledby="{name}-t" aria-describedby="{name}-d" {size}>'
        # Everything in the parts is a number or was escaped on its way in.
        return Markup(f"{opened}{head}{''.join(self._parts)}</svg>")  # noqa: S704


def _at(x: float, y: float) -> str:
    return f"{x:.1f},{y:.1f}"

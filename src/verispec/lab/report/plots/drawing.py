"""A drawing of lines, marks and labels. All text is escaped; colours come from the page's style by class names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from verispec.lab.report.text import shown

SHAPES = ("circle", "square", "diamond", "triangle", "cross")
SIZE = 4.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, wanted: int = 6) -> list[float]:
        """Round numbers (1, 2 or 5 times a power of ten) within the scale, about ``wanted`` of them."""
        rough = (self.high - self.low) / wanted
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(one * power for one in (1, 2, 5, 10) if one * power >= rough)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [one * step for one in range(first, last + 1)]


def scale_over(values: Iterable[float], start: float, end: float, room: float = 0.06) -> Scale:
    """A scale that holds all ``values`` with some ``room`` (a share of their span) on both sides."""
    known = [one for one in values if math.isfinite(one)] or [0.0]
    low, high = min(known), max(known)
    span = (high - low) or abs(high) * 0.1 or 1.0
    return Scale(low - room * span, high + room * span, start, end)


def arm_class(arm: int) -> str:
    """The style's class of an arm's colour."""
    return f"arm-{arm % len(SHAPES)}"


def tick_text(value: float) -> str:
    """A tick's number without needless digits."""
    return f"{value:.6g}" if abs(value) > 1e-12 else "0"


class Drawing:
    """``width`` and ``height`` in pixels; the page may show it smaller. ``title`` is what a screen reader says."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._head = Markup(
            '<svg class="plot" role="img" viewBox="0 0 {} {}" width="{}" height="{}" '
            'xmlns="http://www.w3.org/2000/svg"><title>{}</title>'
        ).format(_px(width), _px(height), _px(width), _px(height), shown(title))
        self._parts: list[Markup] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """``kind`` is a class of the page's style, here and below."""
        self._add('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>', *map(_px, (x1, y1, x2, y2)), kind)

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        self._add(
            '<rect x="{}" y="{}" width="{}" height="{}" class="{}"/>', *map(_px, (x, y, width, height)), kind
        )

    def path(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        """A line through points."""
        self._add('<polyline points="{}" class="{}"/>', _points(points), kind)

    def text(self, x: float, y: float, text: str, kind: str = "label", anchor: str = "start") -> None:
        self._add(
            '<text x="{}" y="{}" text-anchor="{}" class="{}">{}</text>',
            *(_px(x), _px(y), anchor, kind, shown(text)),
        )

    def mark(self, x: float, y: float, arm: int, kind: str, says: str) -> None:
        """A mark whose shape and colour are those of an arm (0: the control); ``says`` shows when it is pointed at."""
        classes = f"{kind} {arm_class(arm)}"
        shape = SHAPES[arm % len(SHAPES)]
        if shape == "circle":
            head = Markup('<circle cx="{}" cy="{}" r="{}" class="{}">').format(
                _px(x), _px(y), _px(SIZE - 0.5), classes
            )
            end = Markup("</circle>")
        else:
            head = Markup('<polygon points="{}" class="{}">').format(_points(_outline(shape, x, y)), classes)
            end = Markup("</polygon>")
        self._parts.append(head + Markup("<title>{}</title>").format(shown(says)) + end)

    def across(self, scale: Scale, top: float, bottom: float, label: str) -> None:
        """The horizontal axis with a grid from ``top`` to ``bottom``."""
        for value in scale.ticks():
            x = scale(value)
            self.line(x, top, x, bottom, "grid")
            self.text(x, bottom + 16, tick_text(value), "tick", "middle")
        self.text((scale.start + scale.end) / 2, bottom + 34, label, "axis", "middle")

    def upright(self, scale: Scale, left: float, right: float, label: str) -> None:
        """The vertical axis with a grid from ``left`` to ``right``; its label stands above it."""
        for value in scale.ticks():
            y = scale(value)
            self.line(left, y, right, y, "grid")
            self.text(left - 6, y + 4, tick_text(value), "tick", "end")
        self.text(left - 60, min(scale.start, scale.end) - 18, label, "axis")

    def svg(self) -> Markup:
        """The whole element."""
        return self._head + Markup("").join(self._parts) + Markup("</svg>")

    def _add(self, template: str, *values: object) -> None:
        self._parts.append(Markup(template).format(*values))


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{_px(x)},{_px(y)}" for x, y in points)


def _outline(shape: str, x: float, y: float) -> list[tuple[float, float]]:
    size = SIZE
    if shape == "square":
        size -= 0.7
        return [(x - size, y - size), (x + size, y - size), (x + size, y + size), (x - size, y + size)]
    if shape == "diamond":
        size += 1
        return [(x, y - size), (x + size, y), (x, y + size), (x - size, y)]
    if shape == "triangle":
        return [(x, y - size), (x + size, y + size), (x - size, y + size)]
    thin = size / 2.5
    corners = ((-thin, -size), (thin, -size), (thin, -thin), (size, -thin), (size, thin), (thin, thin), (thin, size),
               (-thin, size), (-thin, thin), (-size, thin), (-size, -thin), (-thin, -thin))  # fmt: skip
    return [(x + right, y + down) for right, down in corners]

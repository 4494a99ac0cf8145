"""Estimates with their intervals, one row a candidate: the measured one, the shrunken one, zero and the margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from verispec.lab.report.plots.drawing import Drawing, scale_over
from verispec.lab.report.text import interval, signed

WIDTH, LEFT, RIGHT, ROW = 940.0, 190.0, 20.0, 44.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Changes in percent. An end of ``ends`` that is None has not been ruled out on its side."""

    name: str
    measured: float
    shrunken: float | None
    ends: tuple[float | None, float | None]
    described: tuple[float | None, float | None] | None


def plot_intervals(estimates: Sequence[Estimate], margin: float, label: str) -> Markup:
    """``margin`` in percent is drawn as a band around zero."""
    bottom = 12 + ROW * len(estimates)
    drawing = Drawing(WIDTH, bottom + 44, f"{label}: estimates and always-valid intervals")
    values = [0.0, margin, -margin]
    for one in estimates:
        values += [
            end for end in (one.measured, one.shrunken, *one.ends, *(one.described or ())) if end is not None
        ]
    scale = scale_over(values, LEFT, WIDTH - RIGHT)
    drawing.box(scale(-margin), 8, scale(margin) - scale(-margin), bottom - 8, "margin")
    drawing.across(scale, 8, bottom, label)
    drawing.line(scale(0), 8, scale(0), bottom, "zero")
    for place, one in enumerate(estimates):
        y = 12 + ROW * (place + 0.5)
        low, high = (
            scale.low if one.ends[0] is None else one.ends[0],
            scale.high if one.ends[1] is None else one.ends[1],
        )
        drawing.line(scale(low), y, scale(high), y, "interval")
        for end, x in zip(one.ends, (low, high), strict=True):
            if end is not None:
                drawing.line(scale(x), y - 6, scale(x), y + 6, "interval")
        if one.described is not None and None not in one.described:
            start, stop = (scale(end or 0.0) for end in one.described)
            drawing.line(start, y + 10, stop, y + 10, "described")
        said = f"{one.name}: measured {signed(one.measured)}, {interval(list(one.ends))}"
        drawing.mark(scale(one.measured), y, place + 1, "estimate", said)
        if one.shrunken is not None:
            drawing.mark(
                scale(one.shrunken),
                y - 11,
                place + 1,
                "shrunken",
                f"{one.name}: shrunken {signed(one.shrunken)}",
            )
        drawing.text(LEFT - 10, y + 4, short(one.name), "label", "end")
    return drawing.svg()


def short(name: str, most: int = 24) -> str:
    """A label that fits beside a plot."""
    return name if len(name) <= most else f"{name[: most - 1]}…"

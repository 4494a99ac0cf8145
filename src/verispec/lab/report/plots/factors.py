"""The two factors of the speed: each lane at its seconds per pass and tokens per pass, with intervals over prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from verispec.lab.report.lane_facts import LaneFacts
from verispec.lab.report.plots.drawing import Drawing, Scale, arm_class, scale_over, tick_text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 940.0, 420.0, 70.0, 30.0, 40.0, 370.0


@dataclass(frozen=True, slots=True)
class FactorPoint:
    """A lane's means over its prompts with their 95% intervals; seconds in milliseconds."""

    lane: str
    arm: str
    tokens: float
    tokens_ends: tuple[float, float]
    milliseconds: float
    milliseconds_ends: tuple[float, float]


def factor_points(lanes: Sequence[LaneFacts]) -> list[FactorPoint]:
    """Of the valid lanes whose servers count passes."""
    points = []
    for lane in lanes:
        tokens, seconds = (
            lane.record["summary"].get(name) for name in ("tokens_per_pass", "seconds_per_pass")
        )
        if lane.valid and tokens and seconds:
            low, high = seconds["mean_interval"]
            points.append(
                FactorPoint(
                    lane=lane.name,
                    arm=str(lane.record["arm"]),
                    tokens=tokens["mean"],
                    tokens_ends=tuple(tokens["mean_interval"]),
                    milliseconds=1000 * seconds["mean"],
                    milliseconds_ends=(1000 * low, 1000 * high),
                )
            )
    return points


def plot_factors(points: Sequence[FactorPoint], arms: Sequence[str]) -> Markup:
    """Lines of equal speed run through the plot: up and to the left is faster."""
    drawing = Drawing(
        WIDTH, HEIGHT, "Tokens per pass against milliseconds per pass, with 95% intervals over prompts"
    )
    across = scale_over(
        [value for one in points for value in (one.milliseconds, *one.milliseconds_ends)],
        LEFT,
        WIDTH - RIGHT,
        0.1,
    )
    upright = scale_over(
        [value for one in points for value in (one.tokens, *one.tokens_ends)], BOTTOM, TOP, 0.1
    )
    drawing.across(across, TOP, BOTTOM, "milliseconds per pass")
    drawing.upright(upright, LEFT, WIDTH - RIGHT, "tokens per pass")
    _draw_speeds(drawing, across, upright)
    for one in points:
        arm = arms.index(one.arm) if one.arm in arms else len(arms)
        x, y = across(one.milliseconds), upright(one.tokens)
        drawing.line(
            across(one.milliseconds_ends[0]),
            y,
            across(one.milliseconds_ends[1]),
            y,
            f"spread {arm_class(arm)}",
        )
        drawing.line(
            x, upright(one.tokens_ends[0]), x, upright(one.tokens_ends[1]), f"spread {arm_class(arm)}"
        )
        said = f"{one.arm} {one.lane}: {one.tokens:.3f} tokens per pass, {one.milliseconds:.3f} ms per pass"
        drawing.mark(x, y, arm, "estimate", said)
    return drawing.svg()


def _draw_speeds(drawing: Drawing, across: Scale, upright: Scale) -> None:
    """Straight lines through the origin of the two factors: tokens per pass = speed x seconds per pass."""
    slowest = upright.low / max(across.high, 1e-9)
    fastest = upright.high / max(across.low, across.high / 100)
    for speed in Scale(max(slowest, 0.0) * 1000, fastest * 1000, 0, 1).ticks(7):
        if speed <= 0:
            continue
        left = max(across.low, 1000 * max(upright.low, 0.0) / speed)
        right = min(across.high, 1000 * upright.high / speed)
        if left < right:
            ends = [(across(x), upright(speed * x / 1000)) for x in (left, right)]
            drawing.path(ends, "speed")
            if ends[1][0] > LEFT + 90:
                drawing.text(ends[1][0] - 4, ends[1][1] + 12, f"{tick_text(speed)} tokens/s", "tick", "end")

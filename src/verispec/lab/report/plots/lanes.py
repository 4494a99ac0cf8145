"""Lanes as distributions: one row a lane with a dot a prompt, the median and the p10."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from verispec.lab.report.lane_facts import LaneFacts
from verispec.lab.report.plots.drawing import Drawing, Scale, arm_class, scale_over
from verispec.lab.report.plots.intervals import short

WIDTH, LEFT, RIGHT, ROW, GAP = 940.0, 250.0, 20.0, 20.0, 12.0


def plot_lanes(lanes: Sequence[LaneFacts], arms: Sequence[str], metric: str, label: str) -> Markup:
    """The lanes of one stage, an arm's together, in the order in which they ran. Invalid ones are drawn faint."""
    groups = [[lane for lane in lanes if lane.record["arm"] == arm] for arm in arms]
    groups = [group for group in groups if group]
    bottom = 12 + ROW * sum(map(len, groups)) + GAP * max(0, len(groups) - 1)
    drawing = Drawing(WIDTH, bottom + 44, f"{label}: every lane, prompt by prompt")
    values = [value for lane in lanes for value in lane.numbers(metric)]
    scale = scale_over(values, LEFT, WIDTH - RIGHT)
    drawing.across(scale, 8, bottom, label)
    y = 12 + ROW / 2
    for group in groups:
        for lane in group:
            _draw_lane(drawing, lane, arms.index(lane.record["arm"]), metric, scale, y)
            y += ROW
        y += GAP
    return drawing.svg()


def _draw_lane(drawing: Drawing, lane: LaneFacts, arm: int, metric: str, scale: Scale, y: float) -> None:
    faint = "" if lane.valid else " invalid"
    said = "" if lane.valid else ", invalid"
    drawing.text(
        LEFT - 10,
        y + 4,
        f"{short(str(lane.record['arm']), 20)} {lane.name[:6]}{said}",
        f"label{faint}",
        "end",
    )
    for one in lane.prompts:
        value = one.value(metric)
        if value is not None:
            drawing.mark(scale(value), y, arm, f"dot{faint}", f"{one.prompt}: {value:.2f}")
    for name, kind in (("median", "median"), ("p10", "tail")):
        found = lane.statistic(metric, name)
        if found is not None:
            drawing.line(scale(found), y - 8, scale(found), y + 8, f"{kind}{faint} {arm_class(arm)}")

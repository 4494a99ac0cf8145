"""The history of records as a plot: each measurement with its interval, and the record as a line of steps."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from verispec.lab.dashboard.history import Measurement
from verispec.lab.experiment.spec import CONTROL
from verispec.lab.report.plots.drawing import Drawing, arm_class, scale_over
from verispec.lab.report.text import moment

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 940.0, 330.0, 70.0, 20.0, 40.0, 290.0


def plot_history(measured: Sequence[Measurement]) -> Markup:
    """In order of time, evenly spaced. Controls and candidates differ in shape and colour."""
    drawing = Drawing(WIDTH, HEIGHT, "Rates over time with 95% intervals over lanes, and the record")
    upright = scale_over([value for one in measured for value in (one.rate, *(one.ends or ()))], BOTTOM, TOP)
    drawing.upright(upright, LEFT, WIDTH - RIGHT, "tokens/s, rate 1-100")
    step = (WIDTH - RIGHT - LEFT) / len(measured)
    record: list[tuple[float, float]] = []
    for place, one in enumerate(measured):
        x, y = LEFT + step * (place + 0.5), upright(one.rate)
        arm = 0 if one.arm == CONTROL else 1
        if one.ends is not None:
            drawing.line(x, upright(one.ends[0]), x, upright(one.ends[1]), f"spread {arm_class(arm)}")
        drawing.mark(
            x, y, arm, "estimate", f"{one.arm}, {one.stage}, {moment(one.began)}: {one.rate:.2f} tokens/s"
        )
        if one.standing == "record":
            record += [(x, record[-1][1]), (x, y)] if record else [(x, y)]
    if record:
        drawing.path([*record, (WIDTH - RIGHT, record[-1][1])], "step")
    drawing.text(LEFT, BOTTOM + 18, moment(measured[0].began), "tick")
    drawing.text(WIDTH - RIGHT, BOTTOM + 18, moment(measured[-1].began), "tick", "end")
    return drawing.svg()

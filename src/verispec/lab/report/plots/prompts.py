"""Paired differences: one row a prompt, a dot for each block, a bar for what the decision counts."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from verispec.lab.report.candidate_facts import PromptAudit
from verispec.lab.report.plots.drawing import Drawing, arm_class, scale_over
from verispec.lab.report.plots.intervals import short
from verispec.lab.report.text import signed

WIDTH, LEFT, RIGHT, ROW = 940.0, 220.0, 20.0, 20.0


def plot_prompts(prompts: Sequence[PromptAudit], arm: int, margin: float, label: str) -> Markup:
    """``arm`` is the candidate's place among the arms, ``margin`` in percent. The largest loss stands first."""
    paired = sorted((one for one in prompts if one.blocks), key=lambda one: one.change_percent or 0.0)
    bottom = 12 + ROW * len(paired)
    drawing = Drawing(WIDTH, bottom + 44, f"{label}, prompt by prompt")
    values = [0.0, margin, -margin, *(value for one in paired for value in one.blocks)]
    scale = scale_over(values, LEFT, WIDTH - RIGHT)
    drawing.box(scale(-margin), 8, scale(margin) - scale(-margin), bottom - 8, "margin")
    drawing.across(scale, 8, bottom, label)
    drawing.line(scale(0), 8, scale(0), bottom, "zero")
    for place, one in enumerate(paired):
        y = 12 + ROW * (place + 0.5)
        drawing.text(LEFT - 10, y + 4, short(one.prompt, 28), "label", "end")
        for value in one.blocks:
            drawing.mark(scale(value), y, arm, "dot", f"{one.prompt}: {signed(value)}")
        if one.change_percent is not None:
            x = scale(one.change_percent)
            drawing.line(x, y - 8, x, y + 8, f"median {arm_class(arm)}")
    return drawing.svg()

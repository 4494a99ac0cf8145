"""What the terminal says of numbers: one lane is no lanes, and an interval that is not known rules nothing out."""

from __future__ import annotations

import pytest

from verispec.cli.lab.watching import TerminalObserver
from verispec.cli.lab.wording import decided_interval, interval_text
from verispec.lab.decision import Decision, Verdict
from verispec.lab.wording import counted


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([-1.0, 2.5], "-1.00% to +2.50%"),
        ([None, None], "nothing ruled out"),
        ([1.0, None], "+1.00% or more"),
        ([None, 1.0], "+1.00% or less"),
    ],
)
def test_an_interval_says_what_it_rules_out(ends: list[float | None], said: str) -> None:
    assert interval_text(ends) == said
    assert decided_interval({"effect_percent": 1.0, "interval_percent": ends}) == said
    assert decided_interval({"effect_percent": None, "interval_percent": [None, None]}) == "-"


def test_one_is_not_many() -> None:
    assert [counted(number, "lane") for number in (0, 1, 2)] == ["0 lanes", "1 lane", "2 lanes"]
    assert [counted(number, "canary", "canaries") for number in (1, 4)] == ["1 canary", "4 canaries"]


def test_a_stage_and_a_first_decision_read_as_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    watching = TerminalObserver()
    watching.stage("build, patched", 0)
    watching.stage("screen", 1)
    watching.decided("screen", "a", Decision(Verdict.CANNOT_TELL, (), effect=0.0, lanes_needed=6))
    assert capsys.readouterr().out == (
        "build, patched\nscreen: 1 lane at most\n  a: cannot tell (needs 6 more lanes), +0.00% (nothing ruled out)\n"
    )

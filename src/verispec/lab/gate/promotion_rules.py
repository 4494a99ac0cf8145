"""What a promotion needs of its lanes beyond validity; the decision's own needs are elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from verispec.lab.decision.promotion import FEWEST_CLASSES, FEWEST_PROMPTS
from verispec.lab.gate.rules import Lane, Rows, RuleResult
from verispec.lab.metrics.rates import WINDOW

CAP = 512


def judge_for_promotion(lane: Lane, rows: Rows, reuse: Sequence[Sequence[str]]) -> list[RuleResult]:
    """Every rule on one valid lane of a candidate or its control. ``reuse`` are flags as in ``Profile.reuse``."""
    results = []
    for name, rule in PROMOTION_RULES.items():
        wrong = rule(lane, rows)
        results.append(RuleResult(name, wrong is None, wrong or ""))
    reused = _reuse(lane, reuse)
    return [*results, RuleResult("no-reuse", reused is None, reused or "")]


def _whole_suite(lane: Lane, rows: Rows) -> str | None:
    prompts = {row["prompt"] for row in rows}
    classes = {row["class"] for row in rows}
    if len(prompts) < FEWEST_PROMPTS:
        return f"expected at least {FEWEST_PROMPTS} prompts, found {len(prompts)}"
    if len(classes) < FEWEST_CLASSES:
        return f"expected at least {FEWEST_CLASSES} classes, found {len(classes)}"
    return None


def _cap(lane: Lane, rows: Rows) -> str | None:
    other = sorted({row["request"].get("max_tokens") for row in rows} - {CAP}, key=str)
    return f"expected a cap of exactly {CAP} tokens, found {other}" if other or not rows else None


def _greedy(lane: Lane, rows: Rows) -> str | None:
    other = sorted({row["request"].get("temperature") for row in rows} - {0}, key=str)
    return f"expected temperature 0, found {other}" if other or not rows else None


def _window(lane: Lane, rows: Rows) -> str | None:
    return (
        None if lane.get("window") == WINDOW else f"expected a window of {WINDOW}, found {lane.get('window')}"
    )


def _own_ending(lane: Lane, rows: Rows) -> str | None:
    ignoring = any(row["request"].get("ignore_eos") for row in rows)
    flagged = "--ignore-eos" in (lane["target"] or {}).get("arguments", ())
    return "ignore_eos was set" if ignoring or flagged else None


def _nothing_waived(lane: Lane, rows: Rows) -> str | None:
    waived = [one["knob"] for one in lane["activation"] if one["state"] == "waived"]
    return f"nothing shows that these are read: {', '.join(waived)}" if waived else None


def _reuse(lane: Lane, reuse: Sequence[Sequence[str]]) -> str | None:
    """No history, n-gram or response of one request serves another."""
    arguments = list((lane["target"] or {}).get("arguments", ()))
    used = [" ".join(flags) for flags in reuse if _holds(arguments, list(flags))]
    return f"reuse across requests: {', '.join(used)}" if used else None


def _holds(arguments: list[Any], flags: list[str]) -> bool:
    """The flag stands there; with a value, that value stands behind it or in its list."""
    for index, argument in enumerate(arguments):
        name, equals, joined = str(argument).partition("=")
        if name != flags[0]:
            continue
        value = joined if equals else str(arguments[index + 1]) if index + 1 < len(arguments) else ""
        if len(flags) == 1 or flags[1] in value.split(","):
            return True
    return False


PROMOTION_RULES: Mapping[str, Callable[[Lane, Rows], str | None]] = {
    "whole-suite": _whole_suite,
    "cap-512": _cap,
    "temperature-0": _greedy,
    "window-100": _window,
    "no-ignore-eos": _own_ending,
    "nothing-waived": _nothing_waived,
}

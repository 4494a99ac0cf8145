"""Two arms on the same tasks: who is right more often, who answers the same, who writes the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from verispec.lab.metrics.outputs import DIFFERS, compare_lanes, exactness
from verispec.lab.quality.task_scores import TaskScore, usually
from verispec.lab.statistics.mcnemar import exact_mcnemar
from verispec.lab.statistics.proportions import Proportion

Passes = Sequence[Sequence[TaskScore]]
Rows = Sequence[Mapping[str, Any]]


def compare_scores(control: Passes, candidate: Passes, name: str, alpha: float) -> dict[str, Any]:
    """The paired exact test on ``name`` (strict or lenient), a task counting once however often it was asked.

    ``lost`` is tasks that only the control got right, with the share that may at most be lost in truth.
    """
    first, second = usually(control, name), usually(candidate, name)
    tasks = [task for task in first if task in second]
    pairs = exact_mcnemar([first[task] for task in tasks], [second[task] for task in tasks])
    return {
        **asdict(pairs),
        "tasks": len(tasks),
        "lost": Proportion(pairs.only_control, len(tasks)).as_dict() if tasks else None,
        "lost_tasks": [task for task in tasks if first[task] and not second[task]],
        "gained_tasks": [task for task in tasks if second[task] and not first[task]],
        "verdict": _verdict(pairs.only_control, pairs.only_candidate, pairs.p_value, alpha),
    }


def compare_answers(control: Passes, candidate: Passes) -> dict[str, Any]:
    """Answer parity: the same answer was read, right or wrong, pass by pass."""
    same = total = 0
    differing: dict[str, list[str]] = {}
    for first, second in zip(control, candidate, strict=True):
        others = {one.task: one.read for one in second}
        for one in first:
            if one.task in others:
                total += 1
                same += one.read == others[one.task]
                if one.read != others[one.task]:
                    differing.setdefault(one.task, [one.read, others[one.task]])
    return {"same": same, "compared": total, "differing": differing}


def compare_outputs(control: Sequence[Rows], candidate: Sequence[Rows]) -> dict[str, Any]:
    """Whole-output parity, pass by pass: token by token where the server gives tokens."""
    found = [
        one for first, second in zip(control, candidate, strict=True) for one in compare_lanes(first, second)
    ]
    outcomes = [one.outcome for one in found]
    return {
        "exactness": exactness(found),
        "compared": len(found),
        "counts": {name: outcomes.count(name) for name in sorted(set(outcomes))},
        "differing": [one.record() for one in found if one.outcome == DIFFERS][:24],
    }


def _verdict(only_control: int, only_candidate: int, p_value: float, alpha: float) -> str:
    if p_value >= alpha:
        return "no difference shown"
    return "worse" if only_control > only_candidate else "better"

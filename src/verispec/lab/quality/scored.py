"""What a quality matrix comes to, derived from the raw rows of its lanes, and derivable again by anyone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verispec.lab.experiment.spec import CONTROL
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.quality.figures import request_wide_figure
from verispec.lab.quality.paired import compare_answers, compare_outputs, compare_scores
from verispec.lab.quality.task_scores import score_lane, score_summary, unsteady
from verispec.lab.suites.tasks import Task

Record = Mapping[str, Any]
CALIBRATION, MATRIX = "calibration", "matrix"


def derived_quality(ledger: Ledger, record: Record) -> dict[str, Any]:
    """Scores of each arm, comparisons with the control, and the verdict, from a record's tasks and lanes."""
    tasks = [Task(**{**one, "choices": tuple(one["choices"])}) for one in record["tasks"]["tasks"]]
    calibration = [task for task in tasks if task.calibration]
    lanes = {
        stage: {arm: [ledger.get(digest) for digest in digests] for arm, digests in arms.items()}
        for stage, arms in record["lanes"].items()
    }
    level = record["alpha"] / len(record["candidates"])
    compared = {}
    if not record["invalid"]:
        for arm in record["candidates"]:
            matrix = lanes[MATRIX]
            compared[arm] = _compare(ledger, tasks, matrix[CONTROL], matrix[arm], level)
    return {
        CALIBRATION: {arm: _arm(ledger, calibration, found) for arm, found in lanes[CALIBRATION].items()},
        "arms": {arm: _arm(ledger, tasks, found) for arm, found in lanes[MATRIX].items()},
        "compared": compared,
        "verdict": "; ".join(f"{arm}: {one['verdict']}" for arm, one in compared.items()) or "invalid",
    }


def _arm(ledger: Ledger, tasks: Sequence[Task], lanes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Scores pass by pass; the request-wide rate of each is of the same tasks, so they may stand together."""
    passes = [score_lane(tasks, ledger.rows(lane)) for lane in lanes]
    rates = [request_wide_figure(lane) for lane in lanes]
    return {
        "passes": [score_summary(scores) for scores in passes],
        "unsteady": unsteady(passes),
        "rates": [None if rate is None else rate.record() for rate in rates],
    }


def _compare(
    ledger: Ledger,
    tasks: Sequence[Task],
    control: Sequence[dict[str, Any]],
    candidate: Sequence[dict[str, Any]],
    level: float,
) -> dict[str, Any]:
    """A candidate against the control. The strict score decides; a loss in either is told."""
    rows = [[ledger.rows(lane) for lane in lanes] for lanes in (control, candidate)]
    first, second = ([score_lane(tasks, one) for one in lanes] for lanes in rows)
    strict = compare_scores(first, second, "strict", level)
    lenient = compare_scores(first, second, "lenient", level)
    outputs = compare_outputs(*rows)
    return {
        "strict": strict,
        "lenient": lenient,
        "answers": compare_answers(first, second),
        "outputs": outputs,
        "verdict": _verdict(strict, lenient, outputs),
    }


def _verdict(strict: Record, lenient: Record, outputs: Record) -> str:
    if outputs["exactness"] == "token-exact":
        return "identical output"
    worse = [name for name, one in (("strict", strict), ("lenient", lenient)) if one["verdict"] == "worse"]
    if worse:
        return f"worse ({', '.join(worse)} score)"
    if strict["verdict"] == "better":
        return "better (strict score)"
    most = 100 * strict["lost"]["upper_95"]
    return f"no difference shown (at most {most:.1f}% of tasks lost)"

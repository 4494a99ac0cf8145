"""Tasks as lanes, and answers as scores: strict, lenient, cut off, unread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from verispec.bench.suites import Suite, SuitePrompt
from verispec.lab.suites.scoring import score
from verispec.lab.suites.tasks import Task

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskScore:
    """One task in one lane. ``read`` is the answer that was found in it, "" when none was; ``truncated``: the cap on
    tokens cut it off."""

    task: str
    category: str
    strict: bool
    lenient: bool
    read: str
    truncated: bool
    tokens: int

    def record(self) -> dict[str, Any]:
        return asdict(self)


def task_suite(name: str, tasks: Sequence[Task], cap: int, start: int = 0) -> Suite:
    """The tasks as prompts, asked from the one at ``start`` on and around: each lane begins elsewhere, so that what an
    early task leaves in a server does not always meet the same late one."""
    start %= len(tasks)
    turned = [*tasks[start:], *tasks[:start]]
    return Suite(name, 1, cap, tuple(SuitePrompt(one.id, one.category, one.prompt) for one in turned))


def rotation(tasks: int, passes: int, number: int) -> int:
    """Where pass ``number`` of ``passes`` begins: evenly around."""
    return number * tasks // passes


def score_lane(tasks: Sequence[Task], rows: Sequence[Row]) -> list[TaskScore]:
    """The scores of the tasks that have a sound row, in the order of ``tasks``. What the model thought aloud in a field
    of its own is no answer."""
    by_task = {row["prompt"]: row for row in rows if row["fault"] is None}
    return [_score(task, by_task[task.id]) for task in tasks if task.id in by_task]


def _score(task: Task, row: Row) -> TaskScore:
    found = score(task, "".join(event[3] for event in row["events"]))
    tokens = int((row["usage"] or {}).get("completion_tokens", 0))
    truncated = row["finish_reason"] == "length"
    return TaskScore(task.id, task.category, found.strict, found.lenient, found.read, truncated, tokens)


def score_summary(scores: Sequence[TaskScore]) -> dict[str, Any]:
    """Counts over tasks, and by category."""
    return {**_counts(scores), "by_category": _by_category(scores)}


def _by_category(scores: Sequence[TaskScore]) -> dict[str, dict[str, int]]:
    names = dict.fromkeys(one.category for one in scores)
    return {name: _counts([one for one in scores if one.category == name]) for name in names}


def _counts(scores: Sequence[TaskScore]) -> dict[str, int]:
    return {
        "tasks": len(scores),
        "strict": sum(one.strict for one in scores),
        "lenient": sum(one.lenient for one in scores),
        "truncated": sum(one.truncated for one in scores),
        "unread": sum(not one.read for one in scores),
    }


def usually(passes: Sequence[Sequence[TaskScore]], name: str) -> dict[str, bool]:
    """Each task once: whether ``name`` (strict or lenient) held in more than half of the passes."""
    counts: dict[str, list[bool]] = {}
    for scores in passes:
        for one in scores:
            counts.setdefault(one.task, []).append(getattr(one, name))
    return {task: 2 * sum(held) > len(held) for task, held in counts.items()}


def unsteady(passes: Sequence[Sequence[TaskScore]]) -> list[str]:
    """Tasks whose answer was not the same in every pass: with greedy decoding the order of asking should not matter."""
    read: dict[str, set[str]] = {}
    for scores in passes:
        for one in scores:
            read.setdefault(one.task, set()).add(one.read)
    return [task for task, answers in read.items() if len(answers) > 1]

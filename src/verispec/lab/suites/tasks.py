"""Task suites: questions with exact answers, as JSON lines that anyone can write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from verispec.errors import OptionError
from verispec.lab.settings import check_fields
from verispec.lab.suites.location import suite_text

LETTERS = "ABCDEFGHIJ"
KINDS = ("choice", "number", "text")
NEEDED = ("id", "category", "kind", "question", "answer")
HINTS = {
    **dict.fromkeys(NEEDED[:4], str),
    "answer": str | int | float,
    "choices": tuple[str | int | float, ...],
    "calibration": bool,
}
"""The keys of a line, and those that every line has."""


@dataclass(frozen=True, slots=True)
class Task:
    """One question.

    ``kind`` says how the answer is read: a letter of ``choices``, a number, or a text that must be the same. ``answer``
    is that letter, number or text. ``calibration`` marks the few that are asked first, to see whether the rest is
    worth asking.
    """

    id: str
    category: str
    kind: str
    question: str
    answer: str
    choices: tuple[str, ...] = ()
    calibration: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise OptionError(
                f"task {self.id}: kind: expected one of {', '.join(KINDS)}, found {self.kind!r}"
            )
        if self.kind == "choice" and self.answer not in LETTERS[: len(self.choices)]:
            raise OptionError(
                f"task {self.id}: answer: expected the letter of a choice, found {self.answer!r}"
            )
        if not self.question or not self.answer:
            raise OptionError(f"task {self.id}: expected a question and an answer, found an empty one")

    @property
    def prompt(self) -> str:
        """What is asked: the question, the choices under their letters, and the form of the answer."""
        lines = [self.question]
        lines += [f"{letter}. {choice}" for letter, choice in zip(LETTERS, self.choices, strict=False)]
        form = {"choice": "the letter of the right choice", "number": "the number", "text": "the answer"}
        lines.append(f'End with one line that says "Answer: " and {form[self.kind]}, and nothing behind it.')
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class TaskSuite:
    name: str
    tasks: tuple[Task, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of everything that is asked and expected."""
        content = json.dumps([asdict(task) for task in self.tasks], ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def calibration(self) -> tuple[Task, ...]:
        """The tasks that are asked first."""
        return tuple(task for task in self.tasks if task.calibration)


def load_tasks(name: str, home: Path | None = None) -> TaskSuite:
    """The task suite ``name``, or a JSONL file. OptionError names the line and the key that are malformed."""
    text, where = suite_text(name, ".jsonl", home)
    lines = enumerate(text.splitlines(), 1)
    tasks = [_task(line, f"{where}, line {number}") for number, line in lines if line.strip()]
    return suite_of(Path(name).stem, tasks)


def suite_of(name: str, tasks: Iterable[Task]) -> TaskSuite:
    """The suite of ``tasks``, which must be some, each id and each question once."""
    suite = TaskSuite(name, tuple(tasks))
    if not suite.tasks:
        raise OptionError(f"suite {name}: expected tasks, found none")
    questions = [(task.question, task.choices) for task in suite.tasks]
    for what, values in (("id", [task.id for task in suite.tasks]), ("question", questions)):
        if len(set(values)) < len(values):
            twice = next(one for one in values if values.count(one) > 1)  # type: ignore[arg-type]
            raise OptionError(f"suite {name}: expected every {what} once, found {twice!r} twice")
    return suite


def _task(line: str, where: str) -> Task:
    try:
        content = json.loads(line)
    except ValueError as error:
        raise OptionError(f"{where}: expected a JSON object, found {error}") from error
    check_fields(content, HINTS, where, NEEDED)
    choices = tuple(str(choice) for choice in content.get("choices", ()))
    try:
        return Task(**{**content, "answer": str(content["answer"]), "choices": choices})
    except OptionError as error:
        raise OptionError(f"{where}: {error}") from error

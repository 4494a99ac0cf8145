"""Whether an answer is right: strictly, in the form that was asked for, and leniently, if it can be found at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from verispec.lab.suites.tasks import LETTERS, Task

MARK = re.compile(r"^\W*answer\W*:\W*(.*?)\W*$", re.IGNORECASE)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Score:
    """``strict`` implies ``lenient``. ``read`` is the answer that was found, "" when none was."""

    strict: bool
    lenient: bool
    read: str


def score(task: Task, answer: str) -> Score:
    """The score of one answer.

    Strict: the last line is ``Answer: X`` and X is the answer alone. Lenient: the last such line anywhere, or else the
    last number or the last lone letter, or for a text the answer as a whole line.
    """
    lines = [line.strip() for line in answer.strip().splitlines() if line.strip()]
    last = re.fullmatch(r"answer: (.+)", lines[-1], re.IGNORECASE) if lines else None
    strict = last is not None and _same(task, last.group(1).strip(), exactly=True)
    read = _find(task, answer, lines)
    return Score(strict, strict or _same(task, read, exactly=False), read)


def _find(task: Task, answer: str, lines: list[str]) -> str:
    marked = [match.group(1) for line in lines if (match := MARK.match(line))]
    if marked and marked[-1]:
        return marked[-1]
    if task.kind == "number":
        numbers = NUMBER.findall(answer)
        return numbers[-1] if numbers else ""
    if task.kind == "choice":
        letters = re.findall(rf"\b([{LETTERS[: len(task.choices)]}])\b", answer)
        return letters[-1] if letters else ""
    return next((line for line in lines if line.lower() == task.answer.lower()), "")


def _same(task: Task, found: str, exactly: bool) -> bool:
    if task.kind == "number":
        numbers = NUMBER.findall(found)
        if exactly and (len(numbers) != 1 or numbers[0] != found):
            return False
        return bool(numbers) and _value(numbers[-1]) == _value(task.answer)
    if task.kind == "choice" and not exactly:
        return found[:1].upper() == task.answer and not found[1:2].isalnum()
    return found == task.answer if exactly else found.strip().lower() == task.answer.lower()


def _value(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None

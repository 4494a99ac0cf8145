"""Task files of others, in the forms in which they are published: MMLU, GSM8K and C-Eval.

MMLU: CSV without a heading, question, four choices, letter; or JSON lines with ``question``, ``choices`` and the index
``answer``. GSM8K: JSON lines whose ``answer`` ends in ``#### NUMBER``. C-Eval: CSV with the heading ``id, question, A,
B, C, D, answer`` and maybe ``explanation``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from verispec.errors import OptionError
from verispec.lab.suites.tasks import LETTERS, Task, TaskSuite, suite_of


def load_published_tasks(form: str, path: Path) -> TaskSuite:
    """The tasks of a file in the form ``mmlu``, ``gsm8k`` or ``ceval``.

    A question that the file holds twice is kept once. Raises OptionError when it is not in that form, with the line.
    """
    if form not in FORMS:
        raise OptionError(f"form: expected one of {', '.join(FORMS)}, found {form!r}")
    lines, task = FORMS[form]
    tasks = []
    for index, (number, row) in enumerate(_read(path, lines)):
        try:
            tasks.append(task(path, index, row))
        except KeyError as error:
            raise OptionError(
                f"{path}, line {number}: {error.args[0]}: expected the key of {form}, found none"
            ) from error
        except (ValueError, IndexError, TypeError, OptionError) as error:
            raise OptionError(f"{path}, line {number}: expected a task of {form}, found {error}") from error
    once = {(task.question, task.choices): task for task in reversed(tasks)}
    return suite_of(f"{form}:{path.stem}", reversed(once.values()))


def _read(path: Path, lines: Callable[[Path], Iterator[tuple[int, Any]]]) -> Iterator[tuple[int, Any]]:
    try:
        yield from lines(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise OptionError(f"{path}: expected a file of tasks, found {error}") from error


def _mmlu(path: Path, index: int, row: Any) -> Task:
    subject = _subject(path)
    if isinstance(row, Mapping):
        choices = tuple(str(choice) for choice in row["choices"])
        letter = LETTERS[int(row["answer"])]
        return _choice_task(
            f"{subject}-{index}", row.get("subject", subject), row["question"], choices, letter
        )
    if len(row) < 4:
        raise ValueError(f"{len(row)} columns where question, choices and a letter should be")
    return _choice_task(f"{subject}-{index}", subject, row[0], tuple(row[1:-1]), row[-1])


def _ceval(path: Path, index: int, row: Mapping[str, str]) -> Task:
    subject = _subject(path)
    choices = tuple(row[letter] for letter in "ABCD")
    return _choice_task(f"{subject}-{row['id']}", subject, row["question"], choices, row["answer"])


def _gsm8k(path: Path, index: int, row: Mapping[str, Any]) -> Task:
    _, mark, number = row["answer"].rpartition("####")
    if not mark:
        raise ValueError("an answer without ####")
    answer = number.strip().replace(",", "")
    return Task(f"gsm8k-{index}", "gsm8k", "number", row["question"], answer)


def _subject(path: Path) -> str:
    return path.stem.removesuffix("_test").removesuffix("_dev").removesuffix("_val")


def _choice_task(name: str, category: str, question: str, choices: tuple[str, ...], letter: str) -> Task:
    return Task(name, category, "choice", question, letter.strip(), choices)


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise OptionError(f"{path}, line {number}: expected a JSON object, found {error}") from error


def _csv_rows(path: Path) -> Iterator[tuple[int, Sequence[str]]]:
    reader = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    for row in reader:
        yield reader.line_num, row


def _csv_tables(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")))
    for row in reader:
        yield reader.line_num, row


def _lines_or_rows(path: Path) -> Iterator[tuple[int, Any]]:
    return _json_lines(path) if path.suffix == ".jsonl" else _csv_rows(path)


FORMS: Mapping[str, tuple[Callable[[Path], Iterator[tuple[int, Any]]], Callable[[Path, int, Any], Task]]] = {
    "mmlu": (_lines_or_rows, _mmlu),
    "gsm8k": (_json_lines, _gsm8k),
    "ceval": (_csv_tables, _ceval),
}
"""How a file is read, line by line, and how a line is a task."""

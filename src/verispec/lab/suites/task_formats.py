"""Task files of others, in the forms in which they are published: MMLU, GSM8K and C-Eval.

MMLU: CSV without a heading, question, four choices, letter; or JSON lines with ``question``, ``choices`` and the index
``answer``. GSM8K: JSON lines whose ``answer`` ends in ``#### NUMBER``. C-Eval: CSV with the heading ``id, question, A,
B, C, D, answer`` and maybe ``explanation``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from verispec.errors import OptionError
from verispec.lab.suites.tasks import LETTERS, Task, TaskSuite, suite_of


def load_published_tasks(form: str, path: Path) -> TaskSuite:
    """The tasks of a file in the form ``mmlu``, ``gsm8k`` or ``ceval``.

    A question that the file holds twice is kept once. Raises OptionError when it is not in that form.
    """
    if form not in FORMS:
        raise OptionError(f"form: expected one of {', '.join(FORMS)}, found {form!r}")
    try:
        tasks = list(FORMS[form](path))
    except (ValueError, KeyError, IndexError, TypeError, csv.Error) as error:
        raise OptionError(f"{path}: expected tasks in the form of {form}, found {error!r}") from error
    once = {(task.question, task.choices): task for task in reversed(tasks)}
    return suite_of(f"{form}:{path.stem}", reversed(once.values()))


def _mmlu(path: Path) -> Iterator[Task]:
    subject = path.stem.removesuffix("_test").removesuffix("_dev").removesuffix("_val")
    if path.suffix == ".jsonl":
        for index, content in enumerate(_json_lines(path)):
            choices = tuple(str(choice) for choice in content["choices"])
            letter = LETTERS[int(content["answer"])]
            yield _choice_task(
                f"{subject}-{index}", content.get("subject", subject), content["question"], choices, letter
            )
        return
    for index, row in enumerate(csv.reader(io.StringIO(path.read_text(encoding="utf-8")))):
        question, letter = row[0], row[-1]
        yield _choice_task(f"{subject}-{index}", subject, question, tuple(row[1:-1]), letter)


def _ceval(path: Path) -> Iterator[Task]:
    subject = path.stem.removesuffix("_val").removesuffix("_dev").removesuffix("_test")
    for row in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"))):
        choices = tuple(row[letter] for letter in "ABCD")
        yield _choice_task(f"{subject}-{row['id']}", subject, row["question"], choices, row["answer"])


def _gsm8k(path: Path) -> Iterator[Task]:
    for index, content in enumerate(_json_lines(path)):
        _, mark, number = content["answer"].rpartition("####")
        if not mark:
            raise ValueError("an answer without ####")
        answer = number.strip().replace(",", "")
        yield Task(f"gsm8k-{index}", "gsm8k", "number", content["question"], answer)


def _choice_task(name: str, category: str, question: str, choices: tuple[str, ...], letter: str) -> Task:
    return Task(name, category, "choice", question, letter.strip(), choices)


def _json_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


FORMS: Mapping[str, Callable[[Path], Iterator[Task]]] = {"mmlu": _mmlu, "gsm8k": _gsm8k, "ceval": _ceval}

"""Suites are versioned, hashed and one's own to extend; canaries and tasks have exact answers; published files load."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from pathlib import Path

import pytest

from verispec.errors import OptionError
from verispec.lab.suites.canaries import load_canaries
from verispec.lab.suites.prompts import load_prompts, prompt_suite_names
from verispec.lab.suites.scoring import score
from verispec.lab.suites.task_formats import load_published_tasks
from verispec.lab.suites.tasks import Task, load_tasks

DOCS = Path(__file__).parent.parent / "docs"
THEMES = {
    "incident-retrospective", "code-review", "customer-email", "sql-debugging", "release-plan", "benchmark-analysis",
    "architecture-trade-off", "bug-report-synthesis", "technical-guide", "risk-register", "performance-hypotheses",
    "decision-memo",
}  # fmt: skip


def test_realistic_12_covers_the_twelve_themes_in_six_classes() -> None:
    suite = load_prompts("realistic-12")
    assert {prompt.id for prompt in suite.prompts} == THEMES
    assert set(Counter(prompt.category for prompt in suite.prompts).values()) == {2}
    assert suite.max_tokens == 512
    sentences = [len(re.findall(r"[.?!](?:\s|$)", prompt.text)) for prompt in suite.prompts]
    assert 2 <= min(sentences) <= max(sentences) <= 4
    assert 45 <= statistics.median(len(prompt.text.split()) for prompt in suite.prompts) <= 70


def test_screen_4_is_part_of_it_and_all_names_load(tmp_path: Path) -> None:
    whole = {prompt.digest for prompt in load_prompts("realistic-12").prompts}
    screen = load_prompts("screen-4")
    assert {prompt.digest for prompt in screen.prompts} < whole
    assert len({prompt.category for prompt in screen.prompts}) == 4
    assert {"realistic-12", "screen-4", "copy-heavy-12"} <= set(prompt_suite_names())
    assert len({load_prompts(name).digest for name in prompt_suite_names()}) == len(prompt_suite_names())


def test_suites_of_ones_own_are_found_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "suites"
    folder.mkdir()
    (folder / "mine.toml").write_text(
        'name = "mine"\nversion = 1\nmax_tokens = 9\n[[prompts]]\nid = "a"\nclass = "b"\ntext = "Hello."\n'
    )
    (folder / "own.jsonl").write_text(
        json.dumps({"id": "1", "category": "c", "kind": "number", "question": "1+1?", "answer": 2})
    )
    assert load_prompts("mine", tmp_path).prompts[0].text == "Hello."
    assert "mine" in prompt_suite_names(tmp_path)
    assert load_tasks("own", tmp_path).tasks[0].answer == "2"
    with pytest.raises(OptionError, match="mine, realistic-12"):
        load_prompts("other", tmp_path)


def test_a_suite_that_there_is_not_is_answered_with_those_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "outside.toml").write_text("")
    (tmp_path / "suites").mkdir()
    for name in ("nothing", "../outside", "../data/screen-4", ""):
        with pytest.raises(OptionError, match=r"copy-heavy-12.*realistic-12") as caught:
            load_prompts(name, tmp_path)
        assert "canaries" not in str(caught.value)
    with pytest.raises(OptionError, match="expected one of canaries, canaries-small, or"):
        load_canaries("nothing", tmp_path)


@pytest.mark.parametrize(
    ("canary", "right", "wrong"),
    [
        ("json-object", 'Sure: {"age": 36, "name": "Ada"}!', '{"name": "Ada", "age": 37}'),
        ("sorted-numbers", "1, 2, 3.", "1, 3, 2"),
        ("arithmetic", "2 + 3 = 5", "2 + 3 = 6"),
        (
            "function",
            'Here:\n```python\ndef add(a: int, b: int) -> int:\n    """Adds."""\n    return a + b\n```\nDone.',
            "def add(a, b):\n    return a - b",
        ),
    ],
)
def test_a_canary_knows_its_answer(canary: str, right: str, wrong: str) -> None:
    for name in ("canaries", "canaries-small"):
        (one,) = [one for one in load_canaries(name).canaries if one.id == canary]
        assert one.passes(one.expected)
        assert not one.passes("")
    assert one.passes(right)
    assert not one.passes(wrong)


def test_our_tasks_are_a_hundred_and_their_answers_are_right() -> None:
    suite = load_tasks("tasks-100")
    assert Counter(task.category for task in suite.tasks) == {
        "arithmetic": 40,
        "extraction": 30,
        "format": 30,
    }
    assert len(suite.tasks) == 100
    assert len(suite.calibration) == 12
    assert {task.category for task in suite.calibration} == {"arithmetic", "extraction", "format"}
    for task in suite.tasks:
        plain = re.fullmatch(r"What is (\d+) ([-+*]) (\d+)\?", task.question)
        if plain:
            first, sign, second = int(plain[1]), plain[2], int(plain[3])
            assert int(task.answer) == {"+": first + second, "-": first - second, "*": first * second}[sign]
        elif task.category == "extraction" and task.kind != "choice":
            assert task.answer in task.question
        assert score(task, f"So.\nAnswer: {task.answer}").strict
        assert not score(task, "I do not know.").lenient


NUMBER = Task("n", "c", "number", "How many?", "1250")
CHOICE = Task("c", "c", "choice", "Which?", "B", ("one", "two", "three"))
TEXT = Task("t", "c", "text", "What?", "2021-03-05")


@pytest.mark.parametrize(
    ("task", "answer", "strict", "lenient"),
    [
        (NUMBER, "Answer: 1250", True, True),
        (NUMBER, "Answer: 1,250", True, True),
        (NUMBER, "Answer: 1250 euros", False, True),
        (NUMBER, "It is 1250", False, True),
        (NUMBER, "First 1250, then 1251", False, False),
        (NUMBER, "Answer: 1250\nI hope this helps.", False, True),
        (CHOICE, "Answer: B", True, True),
        (CHOICE, "Answer: B. two", False, True),
        (CHOICE, "**Answer: B**", False, True),
        (CHOICE, "I would say B", False, True),
        (CHOICE, "Bananas", False, False),
        (CHOICE, "Answer: C", False, False),
        (TEXT, "Answer: 2021-03-05", True, True),
        (TEXT, "2021-03-05", False, True),
        (TEXT, "Answer: 2021-3-5", False, False),
        (TEXT, "", False, False),
    ],
)
def test_strict_scores_want_the_form_and_lenient_ones_the_answer(
    task: Task, answer: str, strict: bool, lenient: bool
) -> None:
    found = score(task, answer)
    assert (found.strict, found.lenient) == (strict, lenient)


def test_published_forms_load(tmp_path: Path) -> None:
    mmlu = tmp_path / "anatomy_test.csv"
    mmlu.write_text(
        '"Which, of these?",one,"two, too",three,four,C\nAnother?,a,b,c,d,A\nAnother?,a,b,c,d,A\n'
    )
    suite = load_published_tasks("mmlu", mmlu)
    assert [task.answer for task in suite.tasks] == ["C", "A"]
    assert suite.tasks[0].category == "anatomy"
    assert "C. three" in suite.tasks[0].prompt
    lines = tmp_path / "all.jsonl"
    lines.write_text(
        json.dumps({"question": "Q?", "choices": ["a", "b", "c", "d"], "answer": 3, "subject": "law"})
    )
    assert load_published_tasks("mmlu", lines).tasks[0].answer == "D"
    gsm8k = tmp_path / "test.jsonl"
    gsm8k.write_text(json.dumps({"question": "How many?", "answer": "7 + <<7*2=14>>\n#### 1,014"}) + "\n")
    assert load_published_tasks("gsm8k", gsm8k).tasks[0].answer == "1014"
    ceval = tmp_path / "accountant_val.csv"
    ceval.write_text(
        "id,question,A,B,C,D,answer,explanation\n0,什么？,甲,乙,丙,丁,B,因为\n", encoding="utf-8"
    )
    (task,) = load_published_tasks("ceval", ceval).tasks
    assert (task.answer, task.choices[1]) == ("B", "乙")


@pytest.mark.parametrize(
    ("form", "content", "complaint"),
    [
        ("mmlu", "q,a,b,A\nonly,two", "line 2: expected a task of mmlu, found 2 columns"),
        ("mmlu", "q,a,b,E", "answer: expected the letter of a choice, found 'E'"),
        ("gsm8k", '{"question": "q", "answer": "no mark"}', "line 1: expected a task of gsm8k, found an answer"),
        ("gsm8k", '\n{"answer": "#### 1"}', "line 2: question: expected the key of gsm8k, found none"),
        ("gsm8k", "{", "line 1: expected a JSON object"),
        ("ceval", "a,b\n1,2\n", "line 2: A: expected the key of ceval, found none"),
        ("other", "", "expected one of mmlu, gsm8k, ceval, found 'other'"),
    ],
)  # fmt: skip
def test_files_in_another_form_are_refused_with_the_line(
    tmp_path: Path, form: str, content: str, complaint: str
) -> None:
    path = tmp_path / "file.csv"
    path.write_text(content)
    with pytest.raises(OptionError) as caught:
        load_published_tasks(form, path)
    assert complaint in str(caught.value)
    assert form == "other" or str(caught.value).startswith(str(path))


def test_the_files_that_the_documentation_shows_load(tmp_path: Path) -> None:
    blocks = re.findall(r"```(?:toml)?\n(.*?)```", (DOCS / "lab.md").read_text(), re.DOTALL)
    (canaries,) = [block for block in blocks if block.startswith("# suites/")]
    (tasks,) = [block for block in blocks if block.startswith('{"id"')]
    (tmp_path / "mine.toml").write_text(canaries)
    (tmp_path / "mine.jsonl").write_text(tasks)
    (canary,) = load_canaries(str(tmp_path / "mine.toml")).canaries
    assert canary.passes(" Oslo\n")
    assert [
        score(task, f"Answer: {task.answer}").strict
        for task in load_tasks(str(tmp_path / "mine.jsonl")).tasks
    ] == [
        True,
        True,
    ]


OWN = 'name = "mine"\nversion = 1\nmax_tokens = 9\n'
PROMPT = '[[prompts]]\nid = "a"\nclass = "b"\ntext = "Hello."\n'
CANARY = '[[canaries]]\nid = "a"\ncheck = "last-number"\ntext = "1+1?"\nexpected = "2"\n'


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("name =", ": expected TOML, found"),
        (OWN, ": prompts: expected one or more [[prompts]], found none"),
        (OWN + PROMPT.replace("class", "kind"), ", line 4: prompts 1: expected only class, id, text, found 'kind'"),
        (OWN + PROMPT + '[[prompts]]\nid = "b"\ntext = "Hi"\n', ", line 8: prompts 2: class: expected a text, found"),
        (OWN + PROMPT + PROMPT, ", line 8: prompts 2: id: expected each once, found that of prompts 1"),
        (OWN.replace("1", '"1"') + PROMPT, ": version: expected a whole number, found '1'"),
        (OWN + "prompts = [{ id = 1 }]", ": prompts 1: class: expected a text, found none"),
    ],
)  # fmt: skip
def test_a_wrong_suite_is_named_by_file_line_and_key(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    with pytest.raises(OptionError) as caught:
        load_prompts(str(path))
    assert str(caught.value).startswith(f"{path}{complaint}")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (OWN + CANARY, ": repeats: expected a whole number, found none"),
        (OWN + "repeats = 0\n" + CANARY, ": repeats: expected at least 1, found 0"),
        (OWN + "repeats = 8\n" + CANARY.replace("last-n", "n"), ", line 5: canaries 1: check: expected one of json"),
        (OWN + "repeats = 8\n" + CANARY.replace('"2"', '"two"'), ", line 5: canaries 1: expected: expected an answer"),
    ],
)  # fmt: skip
def test_a_wrong_canary_is_named_by_file_line_and_key(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "suites").mkdir()
    path = tmp_path / "suites" / "canaries-mine.toml"
    path.write_text(content)
    with pytest.raises(OptionError) as caught:
        load_canaries("canaries-mine", tmp_path)
    assert str(caught.value).startswith(f"{path}{complaint}")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "expected a JSON object"),
        ('["a"]', "expected a table, found ['a']"),
        ('{"id": "1", "category": "c", "kind": "text", "question": "?"}', "answer: expected a text"),
        ('{"id": 1, "category": "c", "kind": "text", "question": "?", "answer": 1}', "id: expected a text, found 1"),
        ('{"id": "1", "category": "c", "kind": "new", "question": "?", "answer": 1}', "task 1: kind: expected one of"),
        ('{"id": "1", "class": "c"}', "expected only answer, calibration, category, choices, id, kind, question"),
    ],
)  # fmt: skip
def test_a_wrong_task_is_named_by_file_line_and_key(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(OptionError) as caught:
        load_tasks(str(path))
    assert str(caught.value).startswith(f"{path}, line 2: {complaint}")

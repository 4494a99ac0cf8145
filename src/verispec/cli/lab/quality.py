"""``verispec lab quality``: are the answers of a candidate as good as the control's?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.observing import careful_lanes, observer
from verispec.cli.output import JsonOption, print_json, print_table

if TYPE_CHECKING:
    from verispec.lab.suites.tasks import TaskSuite


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An experiment in TOML (docs/lab.md).")],
    tasks: Annotated[str, typer.Option(help="Tasks: a name or a JSONL file.")] = "tasks-100",
    form: Annotated[
        str | None, typer.Option(help="The published form of a task file: mmlu, gsm8k or ceval.")
    ] = None,
    passes: Annotated[int, typer.Option(min=1, help="How often each arm answers all tasks.")] = 2,
    cap: Annotated[int, typer.Option(min=1, help="Most tokens of an answer.")] = 256,
    calibrate: Annotated[bool, typer.Option(help="Ask the few tasks marked for it first.")] = True,
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask every arm all tasks, in turned order, and compare scores, answers and whole outputs in pairs.

    Exit status 1 when a candidate is worse, or nothing could be compared.
    """
    from verispec.lab.experiment.spec import load_experiment
    from verispec.lab.quality.matrix import QualityPlan, run_quality

    ledger = open_ledger(lab)
    plan = QualityPlan(_tasks(tasks, form, ledger.home), passes, cap, calibrate)
    experiment = load_experiment(file, ledger.home)
    record = run_quality(ledger, experiment, plan, observer(as_json), careful_lanes())
    if as_json:
        print_json(record)
    else:
        print_quality(record)
    if record["invalid"] or any(one["verdict"].startswith("worse") for one in record["compared"].values()):
        raise typer.Exit(1)


def _tasks(name: str, form: str | None, home: Path) -> TaskSuite:
    from verispec.lab.suites.task_formats import load_published_tasks
    from verispec.lab.suites.tasks import load_tasks

    return load_tasks(name, home) if form is None else load_published_tasks(form, Path(name))


def print_quality(record: dict[str, Any]) -> None:
    """Scores of each arm and pass, then each candidate against the control."""
    tasks = record["tasks"]
    typer.echo(
        f"\nquality {record['experiment']}: {record['name']}, {tasks['count']} tasks of {tasks['name']}"
    )
    for reason in record["invalid"]:
        typer.secho(f"INVALID  {reason}", fg=typer.colors.RED)
    for stage, arms in (("calibration", record["calibration"]), ("", record["arms"])):
        if arms:
            _print_arms(stage, arms)
    for arm, one in record["compared"].items():
        _print_pair(arm, one)


def _print_arms(stage: str, arms: dict[str, Any]) -> None:
    lines = []
    for arm, one in arms.items():
        for number, counts in enumerate(one["passes"]):
            rate = one["rates"][number]
            lines.append(
                (
                    arm,
                    stage or str(number + 1),
                    *(str(counts[name]) for name in ("strict", "lenient", "truncated", "unread")),
                    "-" if rate is None else f"{rate['value']:.2f}",
                )
            )
    header = ("arm", "pass", "strict", "lenient", "cut off", "unread", "request-wide tokens/s")
    print_table(header, lines)
    for arm, one in arms.items():
        if one["unsteady"]:
            typer.echo(f"{arm}: other answers in another order: {', '.join(one['unsteady'][:12])}")


def _print_pair(arm: str, one: dict[str, Any]) -> None:
    typer.echo(f"{arm}: {one['verdict']}")
    for name in ("strict", "lenient"):
        score = one[name]
        typer.echo(
            f"  {name}: only the control right {score['only_control']}, only {arm} right {score['only_candidate']}, "
            f"both {score['both']}, neither {score['neither']}; exact McNemar p = {score['p_value']:.3g}"
        )
    answers, outputs = one["answers"], one["outputs"]
    counts = ", ".join(f"{count} {name}" for name, count in outputs["counts"].items())
    typer.echo(f"  same answer {answers['same']} of {answers['compared']}; whole outputs: {counts}")

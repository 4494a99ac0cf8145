"""Experiments, lanes and decisions for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from verispec.cli.lab.wording import day_text, decided_interval, interval_text, percent_text
from verispec.cli.output import print_table, printable_text
from verispec.lab.gate.rules import failures
from verispec.lab.metrics.summary import BY_POSITION, INFERRED
from verispec.lab.wording import counted

Record = Mapping[str, Any]
RATES = {"rate_1_100": "rate 1-100", "rate_1_100_by_100": "(by 100: 1% high)", "full": "full", "wall": "wall"}

MOST_ANSWERS = 3


def print_experiment(record: Record) -> None:
    """The verdicts, and every reason for them."""
    typer.echo(f"\nexperiment {record['experiment']}: {record['name']}, {day_text(record['began'])}")
    print_table(
        ("candidate", "verdict", "effect", "interval", "shrunken", "blocks"),
        [
            (
                arm,
                one["text"],
                percent_text(one["effect_percent"]),
                decided_interval(one),
                percent_text(one["shrunken_percent"]),
                str(one["blocks"]),
            )
            for arm, one in record["verdicts"].items()
        ],
    )
    for arm in record.get("second_controls", ()):
        typer.echo(f"{arm}: nothing that was observed of it differs from the control")
    for arm, one in record["verdicts"].items():
        for reason in one["reasons"]:
            typer.echo(f"{arm}: {reason}")
        for need in one["requirements"]:
            typer.echo(f"{arm}: {need['name']}: {need['status']}, {need['detail']}")


def print_lane(record: Record) -> None:
    """What ran, whether it counts, and how fast it was."""
    identity = record["identity"] or {}
    target = record["target"]
    typer.echo(
        f"lane {record['lane']}: {record['arm']} of experiment {record['experiment']}, {record['stage']}, "
        f"block {record['block']}, {record['device']}, {day_text(record['began'])}"
    )
    typer.echo(
        f"{target['profile']} {identity.get('version') or 'of unknown version'}: {' '.join(target['command'])}"
    )
    for name, value in target["environment"].items():
        typer.echo(f"  {name}={value}")
    binary = identity.get("binary") or {}
    if binary:
        typer.echo(
            f"binary {binary['path']} {binary['sha256'][:12]}, libraries {binary['libraries_sha256'][:12]}"
        )
    print_gate(record)
    for one in record["activation"]:
        typer.echo(f"knob {one['knob']} {one['value']}: {one['state']}, {one['proof']}")
    _print_summary(record["summary"])


def print_gate(record: Record) -> None:
    """Valid, or every rule that does not hold."""
    if record["valid"]:
        typer.echo(f"valid: all {len(record['gate'])} rules hold")
    for failure in failures(record["gate"]):
        typer.secho(f"INVALID  {failure}", fg=typer.colors.RED)
    for one in record["canaries"]:
        if one["passed"] < one["asked"]:
            _print_canary(one)


def _print_canary(one: Record) -> None:
    """What was asked, what should have come, what came. Lanes of the first ledgers have the answers alone."""
    typer.echo(f"canary {one['id']}: {one['passed']} of {one['asked']} answers right")
    for name in ("text", "expected"):
        if name in one:
            typer.echo(_indented("asked" if name == "text" else f"expected ({one['check']})", one[name]))
    for answer in one.get("wrong", one["answers"])[:MOST_ANSWERS]:
        typer.echo(_indented("found", answer or "(nothing)"))


def _indented(label: str, text: str) -> str:
    """Every line of a text under a label, unable to command the terminal."""
    return f"  {label}:\n" + "\n".join(f"    {line}" for line in printable_text(text).splitlines())


def _print_summary(summary: Record) -> None:
    rows = []
    for name, label in RATES.items():
        found = summary[name]
        if found is not None:
            spread = "-" if found["sd"] is None else f"{found['sd']:.2f}"
            numbers = [f"{found[one]:.2f}" for one in ("median", "p10", "mean", "min", "max")]
            rows.append((label, *numbers, spread, f"{found['median_of_class_medians']:.2f}"))
    if rows:
        typer.echo(f"\ntokens/s over {counted(summary['sound_rows'], 'prompt')}, by the client's clock")
        print_table(("", "median", "p10", "mean", "min", "max", "sd", "of class medians"), rows)
    wide = summary["request_wide"]
    if wide["rate"]:
        typer.echo(f"request-wide {wide['rate']:.2f} ({wide['tokens']} tokens in {wide['seconds']:.2f} s)")
    for name, unit in (("tokens_per_pass", ""), ("seconds_per_pass", " s")):
        found = summary[name]
        if found is not None:
            low, high = found["mean_interval"]
            label = name.replace("_", " ")
            typer.echo(f"{label} {found['mean']:.4g}{unit} (95% over prompts: {low:.4g} to {high:.4g})")
    if summary["tokens_per_pass"] and summary.get("passes_inferred"):
        typer.echo(INFERRED)
    if summary.get(BY_POSITION) and summary["passes"]:
        shares = [f"{count / summary['passes']['passes']:.0%}" for count in summary[BY_POSITION]]
        typer.echo(f"accepted by position, of all passes: {', '.join(shares)}")


def print_decision(record: Record) -> None:
    """One decision: verdict, numbers, reasons, output."""
    one = record["decision"]
    typer.echo(f"{record['arm']} after {record['stage']} of experiment {record['experiment']}: {one['text']}")
    if one["effect_percent"] is not None:
        interval = interval_text(one["interval_percent"])
        typer.echo(f"{percent_text(one['effect_percent'])}, {interval}, at level {one['interval_level']:g}")
    for reason in one["reasons"]:
        typer.echo(f"  {reason}")
    print_outputs(record["outputs"])


def print_outputs(outputs: Record) -> None:
    """How the outputs of two arms agree."""
    if not outputs["compared"]:
        return
    counts = ", ".join(f"{count} {name}" for name, count in outputs["counts"].items())
    typer.echo(f"outputs: {outputs['exactness']} ({counts})")
    for one in outputs["differences"][:12]:
        typer.echo(f"  {one['prompt']}: first differs at {one['unit']} {one['position']}")

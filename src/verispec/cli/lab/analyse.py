"""``verispec lab analyse``: what an imported log says, and a verdict for every candidate in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from verispec.cli.lab import decision_options as flags
from verispec.cli.number_list import parse_numbers
from verispec.cli.output import JsonOption, print_json, print_table, printable
from verispec.errors import OptionError


def command(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A log that `lab import` wrote; the newest import by default."),
    ] = None,
    metric: flags.MetricOption = "median",
    margin: flags.MarginOption = 1.0,
    alpha: flags.AlphaOption = 0.05,
    thresholds: Annotated[
        str, typer.Option("--thresholds", help="Rates of which the chance is shown, comma-separated.")
    ] = "100,98.34",
    bank: Annotated[
        Path | None,
        typer.Option("--bank", help="Also write the noise and past effects to this file, for `lab plan`."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Describe the noise of a log, compare its candidates with the controls beside them, and decide each."""
    from verispec.lab.analysis.log_report import METRICS, report_log
    from verispec.lab.decision import DecisionPlan
    from verispec.lab.imports.imported_log import read_log
    from verispec.lab.noise_bank import write_banks

    if metric not in METRICS:
        raise OptionError(f"--metric: expected one of {', '.join(METRICS)}, found {metric!r}")
    plan = DecisionPlan(margin=margin / 100, alpha=alpha)
    report = report_log(
        read_log(file or _newest()), plan, parse_numbers("--thresholds", thresholds, float), metric=metric
    )
    if bank is not None:
        write_banks(report.banks(), bank)
    facts = report.as_dict()
    if as_json:
        print_json(facts)
        return
    _print_noise(facts)
    _print_comparisons(facts)
    _print_verdicts(facts)


def _newest() -> Path:
    from verispec.lab.home import lab_home

    imports = sorted((lab_home() / "imports").glob("*.json"), key=lambda path: path.stat().st_mtime)
    if not imports:
        raise OptionError("lab analyse: expected a log, found none imported yet (`verispec lab import`)")
    return imports[-1]


def _print_noise(facts: dict[str, Any]) -> None:
    typer.echo(f"{facts['source']}: {facts['lanes']} lanes, {facts['valid_lanes']} valid\n")
    typer.echo(f"Identical lanes at stage {facts['noise_stage']}:")
    print_table(
        ("metric", "batches", "lanes", "mean", "within-batch sd", "CV", "F", "p"),
        [
            (
                name,
                str(one["batches"]),
                str(one["lanes"]),
                f"{one['mean']:.2f}",
                f"{one['within_batch_sd']:.2f}",
                f"{one['cv_percent']:.2f}%",
                f"{one['f']:.2f}",
                f"{one['p']:.2f}",
            )
            for name, one in facts["noise"].items()
        ],
    )
    lanes = ", ".join(f"{effect} {count}" for effect, count in facts["lanes_per_arm_fixed_size"].items())
    typer.echo(f"\nLanes per arm for 80% power at 5%, looked at once: {lanes}")
    devices = facts["devices"]
    paces = ", ".join(f"{name} {pace:+.2f}" for name, pace in devices["offsets"].items())
    typer.echo(f"Devices, identical lanes: {paces} (p = {devices['p']:.2f})")
    for one in facts["luck"]:
        typer.echo(
            f"P(lane >= {one['threshold']:g}) = {100 * one['one_lane']:.1f}%, "
            f"of the best of four {100 * one['best_of_four']:.0f}%"
        )


def _print_comparisons(facts: dict[str, Any]) -> None:
    controls, compared = facts["controls"], facts["comparisons"]
    device, most = max(controls["by_device"].items(), key=lambda item: item[1])
    typer.echo(
        f"{most} of {controls['total']} controls ran on {device} (p = {controls['p_value']:.1g}): "
        "device and arm are confounded where the controls are"
    )
    if not compared["count"]:
        typer.echo("no candidate ran beside a control\n")
        return
    typer.echo(
        f"{compared['count']} comparisons with a control beside them: {compared['losses']} losses and "
        f"{compared['gains']} gains beyond |z| = {compared['threshold']:.2f}, the best z = {compared['best_z']:.1f}\n"
    )


def _print_verdicts(facts: dict[str, Any]) -> None:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in facts["verdicts"].items())
    typer.echo(f"Candidates: {counts}; intervals at level {facts['interval_level']:.4f}")
    judged = [one for one in facts["candidates"] if one["verdict"] != "invalid"]
    print_table(
        ("effect", "shrunken", "interval", "stage", "verdict", "candidate"),
        [
            (
                f"{one['effect_percent']:+.1f}%",
                f"{one['shrunken_percent']:+.1f}%",
                _interval(one["interval_percent"]),
                one["stage"],
                one["text"],
                _shortened(printable(one["arm"])),
            )
            for one in sorted(judged, key=lambda one: float(one["effect_percent"]))
        ],
    )
    reasons: dict[str, int] = {}
    for one in facts["candidates"]:
        if one["verdict"] == "invalid":
            for reason in one["reasons"]:
                reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in reasons.items():
        typer.echo(f"invalid: {count} for: {reason}")


def _interval(ends: list[float | None]) -> str:
    low, high = ends
    return "nothing ruled out" if low is None or high is None else f"{low:+.1f} .. {high:+.1f}%"


def _shortened(text: str) -> str:
    """What differs between recipes stands at their ends as often as at their beginnings."""
    return text if len(text) <= 60 else f"{text[:28]} ... {text[-27:]}"

"""An experiment as a page of Markdown: what was meant, what was found, lane by lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from verispec.lab.folders import without_folders
from verispec.lab.gate.rules import broken_names
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.summary import INFERRED
from verispec.lab.secrets import arguments_shown, shown

Record = Mapping[str, Any]


def experiment_page(ledger: Ledger, name: str) -> str:
    """The page of the experiment whose id begins with ``name``: of files their names, no folders.

    LedgerError when there is none that has ended.
    """
    _, record = ledger.find(name, "experiment")
    lanes = [ledger.get(digest) for digest in ledger.index.of_experiment(record["experiment"], "lane")]
    parts = [
        f"# {record['name']}",
        f"{_day(record['began'])}, experiment {record['experiment']}. {record['intent']}".strip(),
        "## Verdict",
        table(
            ("candidate", "verdict", "effect", "interval", "shrunken", "lanes"),
            [_verdict(arm, decision) for arm, decision in record["verdicts"].items()],
        ),
        *(f"- {arm}: {reason}" for arm, one in record["verdicts"].items() for reason in one["reasons"]),
        "## Arms",
        table(
            ("arm", "engine", "model", "arguments", "environment"),
            [_arm(arm, target) for arm, target in record["targets"].items()],
        ),
        f"## Lanes ({record['suite_name']}, tokens/s by the client's clock)",
        table(
            (
                "stage",
                "arm",
                "block",
                "device",
                "valid",
                "median 1-100",
                "p10 1-100",
                "full",
                "tokens per pass",
            ),
            [_lane(lane) for lane in lanes],
        ),
    ]
    if any(lane["summary"].get("passes_inferred") for lane in lanes):
        parts.append(f"Tokens per pass: {INFERRED}.")
    return without_folders("\n\n".join(parts) + "\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; bars in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _verdict(arm: str, decision: Record) -> list[str]:
    low, high = decision["interval_percent"]
    return [
        arm,
        decision["text"],
        _signed(decision["effect_percent"]),
        f"{_signed(low)} to {_signed(high)} at {decision['interval_level']:g}",
        _signed(decision["shrunken_percent"]),
        f"{decision['control_lanes']} + {decision['candidate_lanes']}",
    ]


def _arm(arm: str, target: Record) -> list[str]:
    environment = " ".join(f"{name}={shown(name, value)}" for name, value in target["environment"].items())
    arguments = " ".join(arguments_shown(target["arguments"]))
    return [arm, target["profile"], target["model"], f"`{arguments}`" if arguments else "", environment]


def _lane(lane: Record) -> list[str]:
    summary = lane["summary"]
    failed = " ".join(broken_names(lane["gate"]))
    return [
        lane["stage"],
        lane["arm"],
        lane["block"],
        lane["device"],
        "yes" if lane["valid"] else f"no: {failed}",
        _number(summary["rate_1_100"], "median"),
        _number(summary["rate_1_100"], "p10"),
        _number(summary["full"], "median"),
        _number(summary["tokens_per_pass"], "mean"),
    ]


def _number(found: Record | None, name: str) -> str:
    return "" if found is None else f"{found[name]:.2f}"


def _signed(value: float | None) -> str:
    return "unknown" if value is None else f"{value:+.2f}%"


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")

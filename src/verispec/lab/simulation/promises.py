"""What the lab promises about its errors, checked against a study."""

from __future__ import annotations

from typing import Any

from verispec.lab.simulation.study import results

LIMIT = 0.06
"""A false claim may happen in 5% of experiments; the upper bound of what was simulated must stay below this."""


KNOWN = {
    "unknown": "size unknown",
    "bank": "size from the bank",
    "wrong bank": "size unknown, four times the bank's",
}


def promises(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Each promise with the share simulated, its upper bound of 95%, the limit and whether it is kept."""
    entries = [
        *_entries(report, "no effect", "false_improvement", "no effect, called an improvement"),
        *_entries(
            report, "wrong bank", "false_improvement", "no effect after a wrong bank, called an improvement"
        ),
        *_entries(report, "best of 20", "promoted", "best of 20 over noise, promoted"),
        *_entries(
            report,
            "best of 20",
            "improvement_on_screen_corrected",
            "any of 20 over noise, called an improvement",
        ),
    ]
    return [{**entry, "limit": LIMIT, "kept": entry["upper_95"] <= LIMIT} for entry in entries]


def _entries(report: dict[str, Any], kind: str, what: str, name: str) -> list[dict[str, Any]]:
    entries = []
    for cell in results(report, kind):
        parameters, proportion = cell["parameters"], cell["result"][what]
        known = KNOWN[parameters["noise"]]
        noise = f"{parameters['metric']}, {parameters['shape']} noise, {known}"
        entries.append({"name": f"{name} ({noise})", **proportion})
    return entries

"""A minute of hostile and honest clients at once: every answer is right, and nothing is left of it afterwards.

The same for twenty minutes is ``python -m benchmarks.server_soak``.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.server_soak import broken_promises, soak

from rotation import REPEAT, TODAY

SECONDS = 60.0


def test_a_minute_among_bad_company_leaves_nothing_behind(smollm2_path: Path) -> None:
    report = soak(str(smollm2_path), SECONDS, seed=TODAY)
    found = {name: report[name] for name in report if name != "samples"}
    assert broken_promises(report) == [], f"seed {TODAY} ({REPEAT}): {found}"
    kinds = {counted.split(" ")[0] for counted in report["hostile"]}
    assert len(kinds) > 12
    assert report["honest"]["right"] > 30

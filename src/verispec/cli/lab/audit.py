"""``verispec lab audit``: which prompts are slow, why, where the time goes, what the host did."""

from __future__ import annotations

from typing import Annotated

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.output import JsonOption, print_json
from verispec.errors import OptionError


def command(
    lanes: Annotated[
        str,
        typer.Argument(
            metavar="LANES",
            help="A lane's id, or EXPERIMENT:ARM[:STAGE]; without STAGE the last that compares.",
        ),
    ],
    share: Annotated[float, typer.Option(min=0.01, max=1.0, help="How much of the slow end.")] = 0.25,
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look into lanes that are in the ledger: the slow end prompt by prompt, phases, and telemetry."""
    from verispec.lab.comparison import lanes_called
    from verispec.lab.metrics.summary import passes_inferred
    from verispec.lab.quality.phases import phase_profile
    from verispec.lab.quality.profile_run import telemetry_of
    from verispec.lab.quality.slow_tail import audit_tail
    from verispec.lab.targets.loading import load_profile

    ledger = open_ledger(lab)
    found = lanes_called(ledger, lanes)
    engine = found[0].record["target"]["profile"]
    rows = [lane.rows for lane in found]
    try:
        phases = phase_profile([row for one in rows for row in one], load_profile(engine))
    except OptionError:  # of a profile that was the user's own
        phases = None
    names = [lane.record["lane"] for lane in found]
    tail = [one.as_dict() for one in audit_tail(rows, share)]
    telemetry = telemetry_of(ledger, set(names))
    inferred = any(passes_inferred(one) for one in rows)
    if as_json:
        found_out = {"tail": tail, "passes_inferred": inferred, "phases": phases, "telemetry": telemetry}
        print_json({"lanes": names, **found_out})
        return
    from verispec.cli.lab.audit_text import print_phases, print_tail, print_telemetry

    print_tail(tail, inferred)
    print_phases(phases)
    print_telemetry(telemetry)

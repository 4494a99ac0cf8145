"""Does anything read it? Every knob that was set must show that it arrived, or the lane is void.

A flag or variable that no code reads turns a candidate into a second control, and a sweep over it into noise with
labels. Three proofs count: the value comes back among the server's resolved options or in its log; a counter that only
the knob can move has moved; and for an environment variable at least that its name stands in the server's code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from verispec.lab.identity.compare import same_value
from verispec.lab.identity.environment import unread_variables
from verispec.lab.identity.report import ServerReport
from verispec.lab.secrets import is_secret, shown
from verispec.lab.targets.profile import PASS_COUNTS, ActivationProbe
from verispec.lab.targets.target import Knob, Target

READ, UNREAD, UNPROVEN, WAIVED = "read", "unread", "unproven", "waived"


@dataclass(frozen=True, slots=True)
class Activation:
    """What was found about one knob. ``state`` is read, unread, unproven or waived; ``proof`` says by what."""

    knob: str
    value: str
    state: str
    proof: str

    @property
    def holds(self) -> bool:
        return self.state in (READ, WAIVED)

    def record(self) -> dict[str, Any]:
        """As JSON; of a secret knob neither the value nor what came back."""
        return {**asdict(self), "value": shown(self.knob, self.value)}


def unread_environment(target: Target, files: Iterable[Path]) -> list[Activation]:
    """The environment variables of ``target`` whose names stand nowhere in the server's code."""
    missing = unread_variables(target.environment, files)
    proof = "no file of the server's code holds the name"
    return [Activation(name, target.environment[name], UNREAD, proof) for name in missing]


def activations(
    target: Target,
    report: ServerReport,
    counts: Mapping[str, float],
    moved: Mapping[str, float],
    shown: Mapping[str, str],
) -> list[Activation]:
    """What each knob proves at the end of a lane.

    ``counts`` are the lane's sums of ``PASS_COUNTS`` over its rows, ``moved`` how far each metric of the server went.
    ``shown`` says of knobs what a comparison with the control has shown before.
    """
    found = []
    for knob in target.knobs():
        probe = target.probe(knob)
        if probe is None:
            found.append(_without_probe(knob))
        elif probe.differs and knob.name in shown:
            found.append(Activation(knob.name, knob.value, READ, shown[knob.name]))
        else:
            found.append(_try(knob, probe, report, counts, moved))
    return found


def _without_probe(knob: Knob) -> Activation:
    if knob.place == "environment":  # its name stands in the code, or the lane would be void already
        return Activation(knob.name, knob.value, READ, "the name stands in the server's code")
    hint = "give it one under [[activation]], or say there why it is waived"
    return Activation(knob.name, knob.value, UNPROVEN, f"no probe says how it would show; {hint}")


def _try(
    knob: Knob,
    probe: ActivationProbe,
    report: ServerReport,
    counts: Mapping[str, float],
    moved: Mapping[str, float],
) -> Activation:
    if probe.waived:
        return Activation(knob.name, knob.value, WAIVED, probe.waived)
    proofs = []
    if probe.source is not None:
        name = knob.name.lstrip("-").replace("-", "_") if knob.place == "argument" else knob.name
        source = probe.source.filled(name, knob.value)
        place = probe.source.filled(name, shown(knob.name, knob.value))
        found = report.value(source)
        wanted = knob.value if probe.equals is None else probe.equals
        if not same_value(wanted, found):
            told, came = _told(knob, wanted), "nothing" if found is None else _told(knob, found)
            return Activation(knob.name, knob.value, UNREAD, f"{place}: expected {told}, {came} came back")
        proofs.append(f"{place} is {_told(knob, found)}")
    for counter in probe.counters:
        value = counts.get(counter) if counter in PASS_COUNTS else moved.get(counter)
        if not value:
            return Activation(knob.name, knob.value, UNREAD, f"the counter {counter} did not move")
        proofs.append(f"{counter} moved by {value:g}")
    if probe.differs:
        return Activation(knob.name, knob.value, WAIVED, "to be compared with a control without it")
    return Activation(knob.name, knob.value, READ, "; ".join(proofs))


def _told(knob: Knob, value: Any) -> str:
    return shown(knob.name, str(value)) if is_secret(knob.name) else repr(value)

"""Where the time of answers went, as the server tells it: draft, target, prompt; what is left is the host's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verispec.lab.targets.profile import Profile
from verispec.lab.targets.source import Source, look_up

Row = Mapping[str, Any]
HOST = "host"
"""All that no phase claims: sampling where it is not told, text, the event loop, the network, the client."""


def phase_profile(rows: Sequence[Row], profile: Profile) -> dict[str, Any] | None:
    """Seconds and shares of each phase over the sound rows, by the client's clock from request to end.

    None when the engine's profile names no phase, or no row tells any. ``untold`` are phases of the profile that some
    row does not tell; they are the host's then. ``overlap_seconds`` is above zero when the phases together take longer
    than the answers did, as they do when requests share passes; shares are of the larger of the two.
    """
    sound = [row for row in rows if row["fault"] is None]
    told = {name: [_seconds(row, source) for row in sound] for name, source in profile.phases.items()}
    known = {name: values for name, values in told.items() if values and None not in values}
    if not known:
        return None
    whole = sum((row["ended"]["monotonic"] - row["began"]["monotonic"]) / 1e9 for row in sound)
    seconds = {name: sum(value or 0.0 for value in values) for name, values in known.items()}
    claimed = sum(seconds.values())
    seconds[HOST] = max(whole - claimed, 0.0)
    total = max(whole, claimed)
    return {
        "answers": len(sound),
        "whole_seconds": whole,
        "seconds": seconds,
        "shares": {name: value / total if total else 0.0 for name, value in seconds.items()},
        "untold": sorted(set(told) - set(known)),
        "overlap_seconds": max(claimed - whole, 0.0),
    }


def _seconds(row: Row, source: Source) -> float | None:
    value = look_up(row.get(source.place), source.path)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) / 1000 if source.path.endswith("_ms") else float(value)

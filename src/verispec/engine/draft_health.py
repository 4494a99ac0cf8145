"""Whether a draft artifact is accepted about as often as its manifest says, and what is likely wrong if not."""

from __future__ import annotations

from collections.abc import Iterable

from verispec.engine.request import Emitted

LEAST_TOKENS = 64
"""Proposed tokens below which a share says little."""
FAR_UNDER = 0.5
"""Of the manifest's figure."""
CAUSES = (
    "the head was trained on another revision or finetune of the target",
    "the text is of another kind, or in another chat template, than it was trained on",
    "the temperature is far from the one the figure was measured at",
    "its tensor types are too small",
)


def health_warnings(strategy: str, expected: float | None, emissions: Iterable[Emitted]) -> tuple[str, ...]:
    """One line when the artifact of ``strategy`` was accepted far less often than ``expected``, the share of its
    proposed tokens that its manifest gives; nothing without a figure or before enough was proposed."""
    if expected is None:
        return ()
    own = [emitted for emitted in emissions if emitted.source in ("", strategy)]
    drafted, accepted = sum(one.drafted for one in own), sum(one.accepted for one in own)
    if drafted < LEAST_TOKENS or accepted >= FAR_UNDER * expected * drafted:
        return ()
    return (
        f"{strategy}: {accepted} of {drafted} proposed tokens accepted, {accepted / drafted:.0%}, where the artifact's "
        f"manifest says {expected:.0%}; likely causes: {'; '.join(CAUSES)}",
    )

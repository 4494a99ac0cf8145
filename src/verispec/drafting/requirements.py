"""What strategies need of a target, and the stable codes for what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from verispec.drafting.options import DRAFT_MODEL, Value


class TargetFacts(Protocol):
    """What a backend's capabilities say that strategies depend on."""

    @property
    def max_rows(self) -> int:
        """Rows of one pass, the anchor's included."""

    @property
    def rollback(self) -> int:
        """Rows that can always be taken back after a pass."""

    @property
    def taps(self) -> tuple[int, ...]:
        """Hidden states that can be captured."""

    @property
    def recurrent(self) -> bool:
        """Whether rows are taken back through a window of states, and by a replay where it is too short."""

    @property
    def window(self) -> int:
        """States before the live one that a recurrent target can keep."""

    @property
    def prediction_layers(self) -> int:
        """Multi-token-prediction blocks that came with the target."""

    @property
    def draft_heads(self) -> bool:
        """Whether the backend runs draft heads on the target's hidden states."""

    @property
    def own_draft(self) -> str:
        """The draft artifact that comes with the package for this target; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on target and options; unmet, it makes a strategy unavailable, for reason ``code``."""

    code: str
    message: str
    remedy: str
    met: Callable[[TargetFacts, Mapping[str, Value]], bool]


CROPPABLE_CACHE = Requirement(
    "needs-croppable-cache",
    "the backend cannot take back rows of a pass",
    "Use a backend whose cache can be cropped, or spec_mode off.",
    lambda target, options: target.recurrent or target.rollback >= 1,
)
DRAFT_ARTIFACT = Requirement(
    "needs-draft-artifact",
    "no draft artifact was given",
    f"Name one that `verispec admit` has admitted with {DRAFT_MODEL.name}.",
    lambda target, options: options.get(DRAFT_MODEL.name) is not None,
)
PREDICTION_TENSORS = Requirement(
    "needs-prediction-tensors",
    "the model has no multi-token-prediction block",
    "Use a model file that carries one.",
    lambda target, options: target.prediction_layers > 0,
)
DRAFT_HEADS = Requirement(
    "needs-draft-heads",
    "the backend runs no draft heads",
    "Use the native backend.",
    lambda target, options: target.draft_heads,
)

"""What a head would have had accepted on texts that it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from verispec.training.batches import load_batch
from verispec.training.draft_training import DraftTraining
from verispec.training.text_store import StoredText

TEXTS = 24
"""Greedy texts that a check looks at."""


@dataclass(frozen=True)
class HeldOut:
    """Over drafts begun at every position of greedy answers: ``by_position`` j is the share in which proposal j was
    accepted, all before it included; ``tokens_per_pass`` what a round of all proposals would emit."""

    drafts: int
    by_position: list[float]
    tokens_per_pass: float

    @staticmethod
    def describe(found: Mapping[str, Any]) -> str:
        """One line."""
        if not found["drafts"]:
            return "no held-out answer is long enough"
        shares = " ".join(f"{100 * share:.0f}" for share in found["by_position"])
        return f"accepted {shares}%, {found['tokens_per_pass']:.2f} tokens a pass"


def check_held_out(training: DraftTraining, texts: Sequence[StoredText]) -> HeldOut:
    """The first greedy ones of ``texts``, or any where none is greedy."""
    greedy = [text for text in texts if text.temperature == 0][:TEXTS] or list(texts[:TEXTS])
    if not greedy:
        return HeldOut(0, [], 1.0)
    accepted = np.concatenate([training.accepted(load_batch([text])) for text in greedy])
    if not len(accepted):
        return HeldOut(0, [], 1.0)
    shares = [round(float(share), 4) for share in accepted.mean(0)]
    return HeldOut(len(accepted), shares, round(1 + sum(shares), 3))

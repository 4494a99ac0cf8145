"""The test vector of a draft head: known hidden states, and the proposal that they must lead to.

It is made by the reference operations when the head is admitted, and drafted again by the backend whenever it is
loaded, through the strategy's own drafter: a head whose matrices, norms, rotations or token table are read otherwise
than they are meant says something else.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from verispec.artifacts.draft_file import DraftFile
from verispec.artifacts.model_file import ModelFile
from verispec.backends.draft_block import DraftBlock
from verispec.backends.prediction_block import PredictionBlock
from verispec.backends.reference_head import reference_head
from verispec.drafting.contract import Proposal
from verispec.drafting.head_drafter import make_head_drafter
from verispec.drafting.sources import Choose
from verispec.errors import AdmissionError
from verispec.models.draft_hyperparameters import DraftHyperparameters

POSITIONS = 6
STEPS = 4
TRIES = 4
CLEAR = 0.02
"""A logit that leads by this share of the row's spread leads natively too."""
NEAR = 0.02
"""How far a confidence may be from the reference's."""


def make_vector(file: DraftFile, draft: DraftHyperparameters, target: ModelFile) -> dict[str, Any]:
    """The vector of an open head, as a manifest holds it: ``features`` are float16 ``[positions, columns]``, base64.

    Of a few random ones, the first whose proposal is clear; what follows a choice between near equals is left out.
    """
    head = reference_head(file, draft, target)
    vectors = [_random_vector(seed, head, draft) for seed in range(1, TRIES + 1)]
    return max(vectors, key=lambda vector: len(vector["expected"]))


def _random_vector(
    seed: int, head: PredictionBlock | DraftBlock, draft: DraftHyperparameters
) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    features = random.normal(0, 1, (POSITIONS, draft.features)).astype(np.float16)
    tokens = random.integers(0, draft.decoder.vocabulary, POSITIONS + 1).tolist()
    margins: list[float] = []

    def choose(logits: npt.NDArray[np.float32], position: int) -> int:
        ranked = np.sort(logits[np.isfinite(logits)])
        margins.append(float((ranked[-1] - ranked[-2]) / (ranked[-1] - ranked[0])))
        return int(logits.argmax())

    proposal = drafted(head, features.astype(np.float32), tokens, choose)
    clear = next((i for i, margin in enumerate(margins) if margin < CLEAR), len(margins))
    return {
        "made_by": "reference operations",
        "tokens": tokens,
        "columns": draft.features,
        "features": base64.b64encode(features.tobytes()).decode(),
        "expected": list(proposal.tokens[:clear]),
        "confidences": [round(confidence, 4) for confidence in proposal.confidences[:clear]],
    }


def check_vector(
    path: Path, head: PredictionBlock | DraftBlock, vector: Mapping[str, Any], sequence: int
) -> None:
    """Drafts the vector of the artifact at ``path`` with ``head`` on ``sequence``, which is nobody's. A context of
    fewer positions than the vector and a block take has no room for it, and hardly any for a proposal.

    Raises AdmissionError with code ``misread-head`` for another proposal than expected.
    """
    steps = head.width + 1 if isinstance(head, DraftBlock) else STEPS  # a block has its anchor's row too
    if head.positions < len(vector["tokens"]) + steps:
        return
    stored = np.frombuffer(base64.b64decode(vector["features"]), np.float16)
    features = stored.reshape(-1, vector["columns"]).astype(np.float32)
    expected, confidences = list(vector["expected"]), vector["confidences"]
    proposal = drafted(head, features, vector["tokens"], _greedy, sequence)
    found = list(proposal.tokens[: len(expected)])
    apart = [abs(a - b) for a, b in zip(confidences, proposal.confidences, strict=False)]
    if found == expected and max(apart, default=0.0) < NEAR:
        return
    raise AdmissionError(
        "misread-head",
        f"{path}: expected the head to propose {expected} with confidences {confidences} for the hidden states of its "
        f"test vector, found {found} with {[round(one, 4) for one in proposal.confidences[: len(expected)]]}",
        "It was admitted by another version, or is read otherwise than it is meant: admit it again, and compare",
    )


def drafted(
    head: PredictionBlock | DraftBlock,
    features: npt.NDArray[np.float32],
    tokens: Sequence[int],
    choose: Choose,
    sequence: int = 0,
) -> Proposal:
    """What the strategy's drafter proposes behind ``tokens``, of which all but the last have ``features``.

    It is given them in two chunks, as a prompt may come.
    """
    drafter = make_head_drafter(head, (0,), sequence, choose, 0.0)
    drafter.observe(tokens)
    half = len(features) // 2
    for begin, end in ((0, half), (half, len(features))):
        drafter.absorb(begin, tokens[begin : end + 1], {0: features[begin:end]})
    return drafter.propose(STEPS)


def _greedy(logits: npt.NDArray[np.float32], position: int) -> int:
    return int(logits.argmax())

"""Four ways to draw a draft and to decide how much of it is accepted, at temperature 1 on the same text of the target.

Three hold the draft against the token that the target draws for itself: that is the text, whoever drafts. Rejection
sampling (Y. Leviathan et al., "Fast inference from transformers via speculative decoding", 2023; C. Chen et al., 2023)
accepts token x with probability min(1, p(x) / q(x)), so that its text would depend on the draft; here the walk goes on
along the same text, and only how much it accepts counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from benchmarks.drafter_anchors import Logits, Walk

from verispec.engine.options import SamplingParameters
from verispec.engine.sampler import Sampler

COUPLED, REJECTION, INDEPENDENT, GREEDY = "coupled", "rejection", "independent", "greedy"
RULES = (COUPLED, REJECTION, INDEPENDENT, GREEDY)
Probabilities = npt.NDArray[np.float64]


@dataclass(slots=True)
class Accepted:
    """What one text gave, an entry an anchor: tokens accepted by each rule, and the share that draft and target have in
    common in the first place of a proposal, sum of min(p, q): no way to draw accepts more there."""

    lengths: dict[str, list[int]] = field(default_factory=lambda: {rule: [] for rule in RULES})
    overlap: list[float] = field(default_factory=list)


def accept(walk: Walk, prompt: int, width: int, seed: int, other_seed: int) -> Accepted:
    """Proposals of ``width`` tokens behind every token of the walk's text that has so many behind it, the last of the
    first ``prompt`` tokens included. ``seed`` is the one that the text was drawn with."""
    given = walk.text[:prompt]
    rules = {
        COUPLED: sampler(given, seed).guess,
        INDEPENDENT: sampler(given, other_seed).guess,
        GREEDY: greedy,
    }
    random = np.random.default_rng(other_seed)
    found = Accepted()
    while walk.anchor + width < len(walk.text):
        target = walk.text[walk.anchor + 1 : walk.anchor + 1 + width]
        for rule, choose in rules.items():
            found.lengths[rule].append(matching(walk.propose(width, choose), target))
        drawn = Drawn(random)
        proposal = walk.propose(width, drawn)
        p = probabilities(walk.judge(proposal))
        found.lengths[REJECTION].append(not_rejected(proposal, p, drawn.q, random))
        found.overlap.append(float(np.minimum(p[0], drawn.q[0]).sum()))
    return found


def sampler(prompt: Sequence[int], seed: int) -> Sampler:
    """The engine's own, at temperature 1."""
    return Sampler(SamplingParameters(temperature=1.0, seed=seed), seed, prompt)


def greedy(logits: Logits, position: int) -> int:
    return int(logits.argmax())


class Drawn:
    """Draws each token from the draft's own distribution, which it notes in ``q``."""

    def __init__(self, random: np.random.Generator) -> None:
        self.q: list[Probabilities] = []
        self._random = random

    def __call__(self, logits: Logits, position: int) -> int:
        q = probabilities(logits)
        self.q.append(q)
        return int(self._random.choice(len(q), p=q))


def probabilities(logits: Logits) -> Probabilities:
    """The softmax of each row, in float64; tokens at -inf have none."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    result: Probabilities = shifted / shifted.sum(axis=-1, keepdims=True)
    return result


def matching(proposal: Sequence[int], target: Sequence[int]) -> int:
    """Tokens up to the first that the target did not draw."""
    pairs = zip(proposal, target, strict=True)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), len(proposal))


def not_rejected(
    proposal: Sequence[int], p: Probabilities, q: Sequence[Probabilities], random: np.random.Generator
) -> int:
    """Tokens up to the first that is rejected; ``p`` and ``q`` are the distributions at each place."""
    for place, token in enumerate(proposal):
        if random.random() * q[place][token] >= p[place][token]:
            return place
    return len(proposal)

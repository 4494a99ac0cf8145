"""Tokens drawn through real rounds are distributed as the softmax, whatever is proposed and with no proposal at
all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chisquare

from adversarial_drafters import ScriptedDrafter
from verispec.backends.contract import (
    BackendAdapter,
    Capabilities,
    Checkpoint,
    Evaluation,
    Row,
)
from verispec.backends.slots import Slots, SlotState
from verispec.drafting.contract import Drafter
from verispec.engine.decoder import Decoder
from verispec.engine.draft_width import FixedWidth
from verispec.engine.guarded_drafter import GuardedDrafter
from verispec.engine.options import SamplingParameters
from verispec.engine.request import Request
from verispec.engine.round import run_round
from verispec.engine.sampler import Sampler
from verispec.engine.shared_pass import run_alone
from verispec.engine.target import Target
from verispec.text.detokenizer import Detokenizer
from verispec.text.stops import StopMatcher

VOCABULARY = 6
LOGITS = np.random.default_rng(3).normal(0.0, 1.3, (VOCABULARY, VOCABULARY)).astype(np.float32)
"""Row t: the logits behind token t."""
SEEDS, TOKENS, WIDTH = 60, 120, 5
SIGNIFICANCE = 1e-4
"""The seeds are fixed: a test that passes once passes always."""


class MarkovBackend(BackendAdapter):
    """A target whose logits depend on the last token alone."""

    name = "markov"
    capabilities = Capabilities("exact", "markov", VOCABULARY, 1, 1, TOKENS + 1, 1, WIDTH + 1, WIDTH)

    def __init__(self) -> None:
        self.slots = Slots(1, [])

    def open_sequence(self) -> int:
        return self.slots.open()

    def close_sequence(self, sequence: int) -> None:
        self.slots.close(sequence)

    def length(self, sequence: int) -> int:
        return self.slots.state(sequence).length

    def oldest_length(self, sequence: int) -> int:
        return 0

    def evaluate(
        self, rows: Sequence[Row], outputs: Sequence[int], want_logits: bool, taps: Sequence[int] = ()
    ) -> Evaluation:
        self.slots.begin(0)
        self.slots.wrote(0, rows[-1].position + 1)
        logits = LOGITS[[rows[output].token for output in outputs]]
        return Evaluation(logits.argmax(axis=1).tolist(), logits)

    def checkpoint(self, sequence: int) -> Checkpoint:
        return Checkpoint(sequence, self.length(sequence), self.slots.checkpoint(sequence))

    def commit(self, sequence: int, length: int) -> None:
        self.slots.commit(sequence, length)

    def restore(self, checkpoint: Checkpoint) -> None:
        self.slots.restore(checkpoint.sequence, checkpoint.length, cast(SlotState, checkpoint.state))

    def identity(self) -> dict[str, str | int]:
        return {"backend": self.name}

    def close(self) -> None:
        """Nothing to free."""


class RankedDrafter(ScriptedDrafter):
    """Proposes the token of a given rank each time: 0 is the likeliest, -1 the least likely."""

    name = "ranked"

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank

    def guess(self, limit: int) -> list[int]:
        guesses = [self.tokens[-1]]
        for _ in range(limit):
            guesses.append(int(np.argsort(-LOGITS[guesses[-1]])[self.rank]))
        return guesses[1:]


class Wordless:
    """A detokeniser of tokens that stand for no text."""

    def push(self, token: int) -> str:
        return ""

    def flush(self) -> str:
        return ""

    def checkpoint(self) -> tuple[bytes, bool]:
        return b"", False

    def restore(self, checkpoint: object) -> None:
        """Nothing to restore."""


def draw(seed: int, drafter: Drafter | None, sampling: dict[str, Any]) -> Request:
    """A finished request of TOKENS tokens behind token 0."""
    backend = MarkovBackend()
    request = Request(
        [0],
        Target(backend, backend.open_sequence()),
        GuardedDrafter(drafter, FixedWidth(WIDTH), VOCABULARY, True, 60.0),
        Sampler(SamplingParameters(**sampling), seed, [0]),
        Decoder(cast(Detokenizer, Wordless()), StopMatcher(()), (), TOKENS, False),
    )
    while request.finish_reason is None:
        run_alone(request.target.backend, run_round(request, WIDTH + 1))
    return request


def drafters() -> dict[str, Drafter | None]:
    return {
        "none": None,
        "likeliest": RankedDrafter(0),
        "second": RankedDrafter(1),
        "last": RankedDrafter(-1),
    }


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.6])
def test_what_follows_each_token_is_drawn_from_its_softmax(temperature: float) -> None:
    written: dict[str, list[list[int]]] = {name: [] for name in drafters()}
    rounds = dict.fromkeys(written, 0)
    for seed in range(SEEDS):
        for name, drafter in drafters().items():
            request = draw(seed, drafter, {"temperature": temperature})
            written[name].append(request.tokens)
            rounds[name] += len(request.emissions)
    for name, texts in written.items():
        counts = np.zeros((VOCABULARY, VOCABULARY))
        for tokens in texts:
            np.add.at(counts, (tokens[:-1], tokens[1:]), 1)
        for last in range(VOCABULARY):
            expected = softmax(LOGITS[last].astype(np.float64) / temperature) * counts[last].sum()
            assert chisquare(counts[last], expected).pvalue > SIGNIFICANCE, (name, last)
        assert texts == written["none"]
    assert rounds["none"] == SEEDS * TOKENS
    assert rounds["likeliest"] < rounds["second"] < rounds["last"] < rounds["none"]


def test_tokens_inside_a_block_are_drawn_from_the_same_softmax() -> None:
    """Accepted, correcting and bonus tokens apart would be skewed; the token at one place of a block is not."""
    firsts, expected = np.zeros(VOCABULARY), softmax(LOGITS[0].astype(np.float64))
    for seed in range(2000):
        backend = MarkovBackend()
        request = Request(
            [0],
            Target(backend, backend.open_sequence()),
            GuardedDrafter(RankedDrafter(0), FixedWidth(WIDTH), VOCABULARY, True, 60.0),
            Sampler(SamplingParameters(temperature=1.0), seed, [0]),
            Decoder(cast(Detokenizer, Wordless()), StopMatcher(()), (), TOKENS, False),
        )
        firsts[run_alone(backend, run_round(request, WIDTH + 1)).tokens[0].token] += 1
    assert chisquare(firsts, expected * firsts.sum()).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("sampling", [{"top_k": 3}, {"top_p": 0.7}, {"min_p": 0.2}], ids=str)
def test_filtered_draws_follow_what_the_filter_left(sampling: dict[str, Any]) -> None:
    counts = np.zeros((VOCABULARY, VOCABULARY))
    for seed in range(SEEDS):
        tokens = draw(seed, RankedDrafter(0), {"temperature": 1.0, **sampling}).tokens
        np.add.at(counts, (tokens[:-1], tokens[1:]), 1)
    for last in np.flatnonzero(counts.sum(axis=1) > 100):
        probabilities = softmax(LOGITS[last].astype(np.float64))
        left = np.isin(np.arange(VOCABULARY), kept(probabilities, sampling))
        assert not counts[last][~left].any()
        if left.sum() > 1:
            expected = probabilities[left] / probabilities[left].sum() * counts[last].sum()
            assert chisquare(counts[last][left], expected).pvalue > SIGNIFICANCE


def kept(probabilities: np.ndarray, sampling: dict[str, Any]) -> np.ndarray:
    """The tokens one filter leaves."""
    order = np.argsort(-probabilities)
    before = np.cumsum(probabilities[order]) - probabilities[order]
    if "top_k" in sampling:
        return order[: sampling["top_k"]]
    if "top_p" in sampling:
        return order[before < sampling["top_p"]]
    return order[probabilities[order] >= sampling["min_p"] * probabilities.max()]

"""Log-probabilities of the prompt's own tokens: how likely the target finds what it was given."""

from __future__ import annotations

from collections.abc import Sequence

from verispec import _native
from verispec.backends.contract import Evaluation
from verispec.engine.sampler import Sampled


class PromptScores:
    """Filled while the prompt is processed. Nothing comes before the first token, so that one has no score."""

    def __init__(self, alternatives: int) -> None:
        """``alternatives``: how many of the likeliest tokens to report beside each."""
        self._alternatives = alternatives
        self._scored: list[Sampled] = []

    def take(self, evaluation: Evaluation, tokens: Sequence[int], start: int, count: int) -> None:
        """Scores ``tokens[start + 1 : start + 1 + count]`` by the output rows of the tokens before them."""
        assert evaluation.logits is not None
        scored = []
        for row in range(count):
            token = tokens[start + row + 1]
            logprob, alternatives = _native.log_probabilities(
                evaluation.logits[row], token, self._alternatives
            )
            scored.append(Sampled(token, logprob, tuple(alternatives)))
        self._scored[start:] = scored  # not appended: an interrupted chunk is evaluated again

    def of(self, prompt: Sequence[int]) -> tuple[Sampled, ...]:
        """One entry a prompt token, as far as they were scored."""
        return (Sampled(prompt[0]), *self._scored)

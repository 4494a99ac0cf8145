"""The sampler as a participant of the round. It has no state but the committed tokens it has counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from verispec import _native
from verispec.backends.contract import Evaluation
from verispec.engine.options import SamplingParameters
from verispec.errors import BackendError
from verispec.text.grammar_matcher import GrammarMatcher


class Sampled(NamedTuple):
    """One chosen token; ``logprob`` and ``alternatives`` (token, logprob), best first, when they were asked for."""

    token: int
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()


class Sampler:
    """Chooses one token a row from the target's outputs.

    Noise is a pure function of (seed, choice, position, token), so the choice at a position depends on the logits and
    on the tokens before it, and on nothing that was drafted or rejected. Greedy choices with nothing acting on the
    logits are the argmax that the target found, at the same one place with and without logprobs.

    With a grammar the choice is the same one among the tokens it allows: a greedy one is the target's argmax where that
    is allowed, else the greatest allowed logit, lowest id on a tie. Log-probabilities stay those of the model.
    """

    def __init__(
        self,
        parameters: SamplingParameters,
        seed: int,
        prompt: Sequence[int],
        matcher: GrammarMatcher | None = None,
    ) -> None:
        """``matcher``: at its beginning, for the target's vocabulary; it is this sampler's alone from here on."""
        self.seed = seed
        self.needs_logits = parameters.needs_logits or matcher is not None
        self._matcher = matcher
        self._takes_argmax = parameters.greedy and not parameters.adjusts_logits
        self._logprobs = parameters.logprobs
        self._position = len(prompt)
        self._history = _native.TokenHistory(list(prompt)) if parameters.adjusts_logits else None
        self._native = _native.Sampler(
            temperature=parameters.temperature,
            top_k=parameters.top_k,
            top_p=parameters.top_p,
            min_p=parameters.min_p,
            repetition_penalty=parameters.repetition_penalty,
            presence_penalty=parameters.presence_penalty,
            frequency_penalty=parameters.frequency_penalty,
            logit_bias=list(parameters.logit_bias.items()),
            seed=seed,
            choice=parameters.choice,
        )
        self._accepted = 0

    @property
    def finished(self) -> bool:
        """Whether the grammar lets nothing follow the accepted tokens but the end."""
        return self._matcher is not None and self._matcher.finished

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        """How many of ``tokens`` could be chosen one after another, as far as the grammar goes."""
        return len(tokens) if self._matcher is None else self._matcher.legal_prefix(tokens)

    def forced(self) -> list[int]:
        """The tokens that the grammar leaves no choice but to take next; may be empty."""
        return [] if self._matcher is None else self._matcher.forced()

    def sample(self, evaluation: Evaluation, row: int) -> Sampled:
        """The token behind output row ``row``, which is the row of the last accepted token.

        Raises GrammarError when the grammar cannot be followed any further.
        """
        argmax = evaluation.argmax[row]
        if self._takes_argmax and self._logprobs is None and self._allows(argmax):
            return Sampled(argmax)
        assert evaluation.logits is not None
        position = self._position + self._accepted
        try:
            return self._choose(evaluation.logits[row], argmax, position)
        except ValueError as error:  # a row that no token can be chosen from, such as one of NaN
            allowed = "" if self._matcher is None else " among the tokens that the grammar allows"
            raise BackendError(f"output row {row}, for position {position}: {error}{allowed}") from error

    def _allows(self, token: int) -> bool:
        return self._matcher is None or self._matcher.allows(token)

    def _choose(self, logits: npt.NDArray[np.float32], argmax: int, position: int) -> Sampled:
        if self._takes_argmax and self._allows(argmax):
            token = argmax
        else:
            allowed = None if self._matcher is None else self._matcher.allowed()
            token = self._native.choose(logits, position, self._history, allowed)
        if self._logprobs is None:
            return Sampled(token)
        logprob, alternatives = _native.log_probabilities(logits, token, self._logprobs)
        return Sampled(token, logprob, tuple(alternatives))

    def guess(self, logits: npt.NDArray[np.float32], position: int) -> int:
        """The token that would be chosen at ``position`` from a drafter's ``logits``, ``[vocabulary]``, with the noise
        that the choice there will be made with; penalties count what has been accepted so far."""
        if self._takes_argmax:
            return int(logits.argmax())
        return self._native.choose(logits, position, self._history, None)

    def accept(self, token: int) -> None:
        """Takes in the token just sampled, before the next row is looked at.

        Raises GrammarError for one that the grammar does not allow.
        """
        if self._matcher is not None:
            self._matcher.accept(token)
        self._accepted += 1
        if self._history is not None:
            self._history.append([token])

    def checkpoint(self) -> int:
        return self._accepted

    def restore(self, checkpoint: int) -> None:
        self._accepted = checkpoint
        if self._history is not None:
            self._history.truncate(checkpoint)
        if self._matcher is not None:  # its checkpoints count the same tokens
            self._matcher.restore(checkpoint)

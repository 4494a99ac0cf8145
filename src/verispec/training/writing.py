"""The target writes: many texts at once, each with the hidden states that a drafter will read of it.

A text is a function of the target, its opening and its number alone. That holds whatever is written beside it (contract
C1), so that a run that was killed goes on with the texts it would have written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from verispec import _native
from verispec.backends.contract import BackendAdapter, Evaluation, Row, chain
from verispec.training.prompts import Opening, Prompts

Hidden = npt.NDArray[np.float16]
LARGEST_HALF = np.float32(65504)
INVENTING = 0.8
"""Temperature of invented prompts: no two are alike, and most make sense."""


@dataclass(frozen=True)
class Lengths:
    """Most tokens of an invented prompt and of an answer."""

    prompt: int = 128
    answer: int = 512


@dataclass(frozen=True)
class WrittenText:
    """``tokens`` [n] int32, of which the first ``prompt`` are the prompt's; ``choices`` [n - prompt] int32: what the
    target would have taken greedily in the place of each of the others; ``hidden`` [n - 1, taps, hidden size] float16,
    of all tokens but the last, which was never evaluated."""

    number: int
    tokens: npt.NDArray[np.int32]
    prompt: int
    temperature: float
    choices: npt.NDArray[np.int32]
    hidden: Hidden


class TargetWriter:
    """Texts by their numbers, as many at once as the backend has sequences. ``ends``: tokens that end an answer."""

    def __init__(
        self,
        backend: BackendAdapter,
        prompts: Prompts,
        ends: frozenset[int],
        taps: Sequence[int],
        lengths: Lengths,
        seed: int,
    ) -> None:
        self._backend = backend
        self._prompts = prompts
        self._ends = ends
        self._taps = tuple(taps)
        self._lengths = lengths
        self._seed = seed

    def write(self, numbers: Iterator[int]) -> Generator[WrittenText]:
        """The texts of ``numbers`` in the order in which they end."""
        active: list[_Text] = []
        try:
            while True:
                while (
                    len(active) < self._backend.capabilities.sequences
                    and (number := next(numbers, None)) is not None
                ):
                    active.append(self._begin(number))
                if not active:
                    return
                self._advance(active)
                for text in [text for text in active if text.finished]:
                    active.remove(text)
                    self._backend.close_sequence(text.sequence)
                    yield text.written()
        finally:
            for text in active:
                self._backend.close_sequence(text.sequence)

    def _begin(self, number: int) -> _Text:
        opening = self._prompts.opening(number)
        room = self._backend.capabilities.context
        return _Text(
            number,
            self._backend.open_sequence(),
            opening,
            self._prompts.numbering.temperature(number),
            self._ends,
            self._lengths,
            room,
            self._seed,
        )

    def _advance(self, active: Sequence[_Text]) -> None:
        """One pass, for as many as it has rows for: a long prompt takes several, and is read before others go on."""
        rows: list[Row] = []
        begins = [0]
        outputs: list[int] = []
        for text in active:
            pending = text.pending[: self._backend.capabilities.max_rows - len(rows)]
            rows += chain(text.sequence, text.evaluated, pending, len(rows))
            begins.append(len(rows))
            if pending and len(pending) == len(text.pending):
                outputs.append(len(rows) - 1)
        found = self._backend.evaluate(rows, outputs, True, self._taps)
        hidden = np.stack([found.hidden[tap] for tap in self._taps], axis=1)
        for text, (begin, end) in zip(active, pairwise(begins), strict=True):
            if begin == end:
                continue
            text.evaluated += end - begin
            text.hidden.append(half(hidden[begin:end]))
            self._backend.commit(text.sequence, text.evaluated)
            if not text.pending:
                text.take(found, outputs.index(end - 1))


def half(hidden: npt.NDArray[np.float32]) -> Hidden:
    """float16, what is beyond its range at its end."""
    return np.clip(hidden, -LARGEST_HALF, LARGEST_HALF).astype(np.float16)


@dataclass
class _Text:
    """One text on its way. ``pending``: tokens that the next pass evaluates."""

    number: int
    sequence: int
    opening: Opening
    temperature: float
    ends: frozenset[int]
    lengths: Lengths
    room: int
    seed: int
    tokens: list[int] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)
    hidden: list[Hidden] = field(default_factory=list)
    evaluated: int = 0
    prompt: int = 0
    """Tokens of the prompt, once it has ended; 0 before."""
    finished: bool = False

    def __post_init__(self) -> None:
        self.tokens = list(self.opening.tokens)
        if not self.opening.closing:
            self.prompt = len(self.tokens)
        self._inventing = sampler(INVENTING, self.seed, self.number)
        self._answering = sampler(self.temperature, self.seed, self.number)

    @property
    def pending(self) -> list[int]:
        return self.tokens[self.evaluated :]

    def take(self, found: Evaluation, output: int) -> None:
        """Takes in what comes next, once nothing is ``pending``."""
        if self.prompt:
            self._answer(found, output)
        else:
            self._invent(found, output)

    def _invent(self, found: Evaluation, output: int) -> None:
        assert found.logits is not None
        token = self._inventing.choose(found.logits[output], len(self.tokens), None, None)
        long_enough = len(self.tokens) - len(self.opening.tokens) >= self.lengths.prompt
        if token == self.opening.stop or token in self.ends or long_enough:
            self.tokens += self.opening.closing
            self.prompt = len(self.tokens)
        else:
            self.tokens.append(token)

    def _answer(self, found: Evaluation, output: int) -> None:
        token = found.argmax[output]
        self.choices.append(token)
        if self.temperature:
            assert found.logits is not None
            token = self._answering.choose(found.logits[output], len(self.tokens), None, None)
        self.tokens.append(token)
        length = len(self.tokens) - self.prompt
        self.finished = token in self.ends or length >= self.lengths.answer or len(self.tokens) >= self.room

    def written(self) -> WrittenText:
        return WrittenText(
            self.number,
            np.array(self.tokens, np.int32),
            self.prompt,
            self.temperature,
            np.array(self.choices, np.int32),
            np.concatenate(self.hidden),
        )


def sampler(temperature: float, seed: int, number: int) -> _native.Sampler:
    """Chooses tokens with the noise of text ``number`` of ``seed``."""
    own = hashlib.sha256(f"{seed} {number}".encode()).digest()
    return _native.Sampler(
        temperature=temperature,
        top_k=0,
        top_p=1.0,
        min_p=0.0,
        repetition_penalty=1.0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        logit_bias=[],
        seed=int.from_bytes(own[:8], "little"),
        choice=0,
    )

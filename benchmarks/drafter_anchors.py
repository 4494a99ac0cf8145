"""A text of the target walked token by token: at each of its tokens a drafter can be asked what it would propose there,
as often and by as many rules as wanted, and the target what it thinks of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import numpy as np
import numpy.typing as npt
from benchmarks.drafter_requests import Draft

from verispec.backends.contract import Evaluation, chain
from verispec.drafting.contract import Drafter
from verispec.drafting.resolution import resolve
from verispec.drafting.sources import Choose
from verispec.engine.draft_files import DraftFiles, RequestSources
from verispec.engine.model import Model
from verispec.errors import OptionError

Logits = npt.NDArray[np.float32]


class Walk:
    """A sequence of the target, read up to the anchor, and a drafter that has seen all of it.

    The drafter is the engine's own, made as a request makes it; only the choice from its logits is exchanged.
    """

    def __init__(
        self, model: Model, drafter: Drafter, sequence: int, text: Sequence[int], choice: _Choice
    ) -> None:
        self.text = list(text)
        self.anchor = -1
        """The index of the last committed token, which the target has not evaluated."""
        self._backend = model.backend
        self._drafter = drafter
        self._sequence = sequence
        self._choice = choice
        self._observed = 0

    def read(self, prompt: int) -> None:
        """Evaluates the first ``prompt`` tokens but the last of them, which becomes the anchor."""
        widest = self._backend.capabilities.max_rows
        for begin in range(0, prompt - 1, widest):
            rows = self.text[begin : min(begin + widest, prompt - 1)]
            evaluation = self._backend.evaluate(
                chain(self._sequence, begin, rows), (), False, self._drafter.taps
            )
            self._take(begin, len(rows), evaluation)
        self.anchor = prompt - 1

    def propose(self, width: int, choose: Choose) -> list[int]:
        """``width`` tokens that ``choose`` draws behind the anchor. OptionError for fewer."""
        self._drafter.observe(self.text[self._observed : self.anchor + 1])
        self._observed = self.anchor + 1
        self._choice.choose = choose
        tokens = list(self._drafter.propose(width).tokens)
        if len(tokens) < width:
            raise OptionError(
                f"width: expected proposals of {width} tokens, found {len(tokens)} at position {self.anchor}: "
                "the head's block is narrower, or its context ends there"
            )
        return tokens

    def judge(self, proposal: Sequence[int]) -> Logits:
        """The target's logits ``[len(proposal), vocabulary]`` for each place of a proposal behind the anchor, given the
        proposed tokens before it; the anchor then moves on along the text."""
        rows = [self.text[self.anchor], *proposal]
        outputs = range(len(proposal))
        evaluation = self._backend.evaluate(
            chain(self._sequence, self.anchor, rows), outputs, True, self._drafter.taps
        )
        assert evaluation.logits is not None
        logits = evaluation.logits.copy()
        self._take(self.anchor, 1, evaluation)
        self.anchor += 1
        return logits

    def _take(self, begin: int, rows: int, evaluation: Evaluation) -> None:
        """Shows the drafter the first ``rows`` positions of a pass from ``begin`` on, and commits them."""
        if self._drafter.taps or self._drafter.follows_text:
            hidden = {tap: evaluation.hidden[tap][:rows] for tap in self._drafter.taps}
            self._drafter.absorb(begin, self.text[begin : begin + rows + 1], hidden)
        self._backend.commit(self._sequence, begin + rows)


class _Choice:
    """Stands where a request's sampler would."""

    def __init__(self) -> None:
        self.choose: Choose | None = None

    def __call__(self, logits: Logits, position: int) -> int:
        assert self.choose is not None
        return self.choose(logits, position)


class Walks:
    """Walks over many texts of one model with one artifact, which is opened once."""

    def __init__(self, model: Model, draft: Draft) -> None:
        self._model = model
        self._files = DraftFiles(model.backend, model.tokenizer)
        options = {"spec_draft_model": draft.path, "spec_draft_p_min": 0.0}
        self._resolution = resolve(draft.kind, options, model.backend.capabilities)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.artifacts.close()

    @contextmanager
    def begin(self, text: Sequence[int], prompt: int) -> Iterator[Walk]:
        """A walk that stands on the last of the first ``prompt`` tokens of ``text``."""
        model = self._model
        with model.lock:
            sequence = model.backend.open_sequence()
            choice = _Choice()
            try:
                drafter = self._resolution.make_drafter(RequestSources(self._files, sequence, choice))
                assert drafter is not None
                walk = Walk(model, drafter, sequence, text, choice)
                walk.read(prompt)
                yield walk
                drafter.close()
            finally:
                model.backend.close_sequence(sequence)

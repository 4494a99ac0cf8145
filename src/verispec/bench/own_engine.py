"""verispec itself as a subject, through its public model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from verispec.backends.contract import chain
from verispec.bench.subject import DecodeRun, Subject
from verispec.engine.model import Model

ENGINE = "verispec"
LOGITS_OF_NONE: range = range(0)


class OwnEngine(Subject):
    """A loaded model with the speculation options that its answers are written with."""

    def __init__(self, model: Model, name: str = "verispec", **options: Any) -> None:
        self.name = name
        self.engine = ENGINE
        self.model = model
        self.options = options or {"spec_mode": "off"}
        self.speculates = self.options["spec_mode"] != "off"

    def describe(self) -> Mapping[str, Any]:
        return {**self.model.backend.identity(), **self.options}

    def passes(self, context: Sequence[int], rows: Sequence[int], repeats: int) -> list[float]:
        backend = self.model.backend
        sequence = backend.open_sequence()
        try:
            self._fill(sequence, context)
            chained = chain(sequence, len(context), rows)
            seconds = []
            for repeat in range(repeats + 1):
                started = time.perf_counter()
                backend.evaluate(chained, range(len(rows)), False)
                if repeat:  # the first pass of a row count captures it
                    seconds.append(time.perf_counter() - started)
            return seconds
        finally:
            backend.close_sequence(sequence)

    def prompt(self, tokens: Sequence[int], repeats: int) -> list[float]:
        backend = self.model.backend
        sequence = backend.open_sequence()
        try:
            rows = chain(sequence, 0, tokens)
            seconds = []
            for repeat in range(repeats + 1):
                started = time.perf_counter()
                self._evaluate_prompt(sequence, rows)
                if repeat:
                    seconds.append(time.perf_counter() - started)
                backend.commit(sequence, 0)
            return seconds
        finally:
            backend.close_sequence(sequence)

    def decode(self, prompt: Sequence[int], max_tokens: int, end_tokens: Sequence[int]) -> DecodeRun:
        """The end tokens are the model's own: they need not be given."""
        started = time.perf_counter()
        with self.model.stream(list(prompt), max_tokens=max_tokens, **self.options) as generation:
            first = last = started
            counted = -1
            for chunk in generation:
                last = time.perf_counter()
                if counted < 0:
                    first, counted = last, 0
                else:
                    counted += len(chunk.tokens)
            completion = generation.result()
        return DecodeRun(
            completion.tokens,
            max(counted, 0),
            last - first,
            first - started,
            completion.passes,
            completion.drafted,
            completion.accepted,
        )

    def close(self) -> None:
        """The model belongs to whoever loaded it."""

    def _fill(self, sequence: int, context: Sequence[int]) -> None:
        if context:
            self.model.backend.evaluate(chain(sequence, 0, context), LOGITS_OF_NONE, False)
            self.model.backend.commit(sequence, len(context))

    def _evaluate_prompt(self, sequence: int, rows: Sequence[Any]) -> None:
        """In the widest passes there are, each committed; the last row's logits."""
        backend = self.model.backend
        widest = backend.capabilities.max_rows
        for begin in range(0, len(rows), widest):
            part = chain(sequence, begin, [row.token for row in rows[begin : begin + widest]])
            final = begin + len(part) == len(rows)
            backend.evaluate(part, [len(part) - 1] if final else LOGITS_OF_NONE, final)
            backend.commit(sequence, begin + len(part))

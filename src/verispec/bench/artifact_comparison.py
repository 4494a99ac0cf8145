"""What a quantisation costs: one text through two artifacts of a model, position by position.

The text is cut into windows, each evaluated on its own, and the second half of a window is scored: every scored token
then has at least half a window before it. That is how llama.cpp's perplexity is defined, so figures can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verispec.backends.contract import chain
from verispec.engine.model import Model
from verispec.errors import OptionError

Floats = NDArray[np.float64]
Logits = NDArray[np.float32]

Progress = Callable[[int, int], None]
"""Told how many windows are done, and of how many."""


@dataclass
class Comparison:
    """What was measured, one entry a scored position: negative log-likelihoods in nats, KL(A || B) in nats."""

    windows: int = 0
    loss_a: list[float] = field(default_factory=list)
    loss_b: list[float] = field(default_factory=list)
    divergence: list[float] = field(default_factory=list)
    agreements: int = 0

    def take(self, a: Logits, b: Logits, tokens: Sequence[int]) -> None:
        """Scores rows ``[rows, vocabulary]`` of both by the tokens that follow them."""
        log_a, log_b = log_softmax(a), log_softmax(b)
        rows = np.arange(len(tokens))
        self.loss_a += (-log_a[rows, tokens]).tolist()
        self.loss_b += (-log_b[rows, tokens]).tolist()
        self.divergence += np.sum(np.exp(log_a) * (log_a - log_b), axis=1).tolist()
        self.agreements += int(np.count_nonzero(a.argmax(axis=1) == b.argmax(axis=1)))

    def as_dict(self) -> dict[str, Any]:
        """Perplexities, KL divergence and top-1 agreement, for people and JSON."""
        scored = len(self.divergence)
        divergence = np.maximum(self.divergence, 0.0)  # rounding can leave a hair below zero
        change = np.subtract(self.loss_b, self.loss_a)
        return {
            "windows": self.windows,
            "scored_tokens": scored,
            "perplexity_a": math.exp(float(np.mean(self.loss_a))),
            "perplexity_b": math.exp(float(np.mean(self.loss_b))),
            "perplexity_ratio": math.exp(float(change.mean())),
            "perplexity_ratio_error": math.exp(float(change.mean())) * standard_error(change),
            "kl_mean": float(divergence.mean()),
            "kl_mean_error": standard_error(divergence),
            "kl_p50": float(np.quantile(divergence, 0.5)),
            "kl_p99": float(np.quantile(divergence, 0.99)),
            "kl_max": float(divergence.max()),
            "top1_agreement": self.agreements / scored,
        }


def compare(
    a: Model, b: Model, text: str, window: int, most_windows: int | None, progress: Progress | None = None
) -> Comparison:
    """Runs ``text`` through both models. Raises OptionError when they do not tokenise alike, or there is too little."""
    if a.tokenizer.digest != b.tokenizer.digest:
        raise OptionError("B: expected an artifact with A's tokeniser, found another")
    windows = list(cut_windows(a, text, window))[:most_windows]
    if not windows:
        raise OptionError(f"text: expected at least {window} tokens, one window, found fewer")
    comparison = Comparison()
    for tokens in windows:
        first = len(tokens) // 2
        for (start, rows_a), (_, rows_b) in zip(
            window_logits(a, tokens, first), window_logits(b, tokens, first), strict=True
        ):
            followers = tokens[start + 1 : start + 1 + len(rows_a)]
            comparison.take(rows_a[: len(followers)], rows_b[: len(followers)], followers)
        comparison.windows += 1
        if progress is not None:
            progress(comparison.windows, len(windows))
    return comparison


def cut_windows(model: Model, text: str, window: int) -> Iterator[list[int]]:
    """Whole windows of the text's tokens, each with the model's begin token in its first place if it has one."""
    begin = model.tokenizer.bos_id if model.tokenizer.add_bos else None
    tokens = model.tokenizer.encode(text, add_bos=False)
    step = window if begin is None else window - 1
    for start in range(0, len(tokens) - step + 1, step):
        piece = tokens[start : start + step]
        yield piece if begin is None else [begin, *piece]


def window_logits(model: Model, tokens: Sequence[int], first: int) -> Iterator[tuple[int, Logits]]:
    """Logits of the rows from ``first`` on, in chunks: the first row's position, float32 ``[rows, vocabulary]``."""
    backend = model.backend
    size = backend.capabilities.max_rows
    with model.lock:
        sequence = backend.open_sequence()
    try:
        for start in range(0, len(tokens), size):
            piece = tokens[start : start + size]
            outputs = [row for row in range(len(piece)) if start + row >= first]
            with model.lock:
                evaluation = backend.evaluate(chain(sequence, start, piece), outputs, bool(outputs))
                logits = evaluation.logits.copy() if outputs and evaluation.logits is not None else None
                backend.commit(sequence, start + len(piece))
            if logits is not None:
                yield start + outputs[0], logits
    finally:
        with model.lock:
            backend.close_sequence(sequence)


def log_softmax(logits: Logits) -> Floats:
    """Log-probabilities of each row, in float64."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def standard_error(values: Floats) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else 0.0

"""Texts as batches: of similar lengths, padded, as many tokens each as a step takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from verispec.training.numbering import Numbering
from verispec.training.text_store import StoredText

SHORTEST = 24
"""Tokens of a text that is worth a place in a batch."""
POOL = 512
"""Texts among which those of similar length are put together."""


@dataclass(frozen=True)
class Batch:
    """``tokens`` [texts, n] int64; ``features`` [texts, n - 1, taps * hidden size] and
    ``final`` [texts, n - 1, hidden size] bfloat16: the hidden states of all tokens but the last, and those after the
    final norm. Shorter texts have zeros behind them.

    ``answers`` [texts, n - 1] bool: positions whose next token is one of the answer's; ``choices`` [texts, n - 1]
    int64: what the target would take greedily there.
    """

    tokens: Tensor
    features: Tensor
    final: Tensor
    answers: Tensor
    choices: Tensor


def split(texts: Sequence[StoredText], numbering: Numbering) -> tuple[list[StoredText], list[StoredText]]:
    """Texts to train on, and those held out."""
    worth = [text for text in texts if len(text.tokens) >= SHORTEST]
    held_out = [text for text in worth if numbering.held_out(text.number)]
    return [text for text in worth if not numbering.held_out(text.number)], held_out


def plan_batches(lengths: Sequence[int], tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """The texts, by their index, of each step of an epoch, at most ``tokens`` tokens each with the padding. A function
    of its arguments alone, so that a continued run reads what an unbroken one would have."""
    random = np.random.default_rng((seed, epoch))
    order = random.permutation(len(lengths))
    batches = [
        batch
        for begin in range(0, len(order), POOL)
        for batch in _filled(
            sorted(order[begin : begin + POOL].tolist(), key=lengths.__getitem__), lengths, tokens
        )
    ]
    return [batches[i] for i in random.permutation(len(batches))]


def _filled(texts: Sequence[int], lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    batch: list[int] = []
    for text in texts:  # the longest is the last
        if batch and lengths[text] * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch


def load_batch(texts: Sequence[StoredText], multiple: int = 1) -> Batch:
    """Reads the hidden states; the last of a text's taps is the state after the final norm. Texts are padded to where
    n - 1 is a ``multiple``."""
    count, longest = len(texts), max(len(text.tokens) for text in texts)
    read = -(-(longest - 1) // multiple) * multiple
    _, taps, width = texts[0].hidden.shape
    tokens = torch.zeros(count, read + 1, dtype=torch.int64)
    hidden = torch.zeros(count, read, taps, width, dtype=torch.bfloat16)
    answers = torch.zeros(count, read, dtype=torch.bool)
    choices = torch.zeros(count, read, dtype=torch.int64)
    for row, text in enumerate(texts):
        length = len(text.tokens)
        tokens[row, :length] = torch.from_numpy(text.tokens.astype(np.int64))
        hidden[row, : length - 1] = torch.from_numpy(np.array(text.hidden))
        answers[row, text.prompt - 1 : length - 1] = True
        choices[row, text.prompt - 1 : length - 1] = torch.from_numpy(text.choices.astype(np.int64))
    features = hidden[:, :, :-1].reshape(count, read, -1)
    return Batch(tokens, features, hidden[:, :, -1].contiguous(), answers, choices)

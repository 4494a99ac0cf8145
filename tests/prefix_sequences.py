"""Sequences that were evaluated, and sequences made of saved blocks, side by side."""

from __future__ import annotations

import numpy as np

from tiny_models import VOCABULARY, TinyModel
from verispec.backends.contract import BackendAdapter, PrefixBlock, chain
from verispec.backends.native import PREFIX_BLOCK

CONTEXT = 512
KEPT = 160
"""Positions that the sliding layers of SLIDING keep: window 24, a pass of 128 rows, whole key blocks."""
SLIDING = TinyModel("gemma3", matrices="Q8_0", window=24, period=2, layers=2, context=CONTEXT)
TOKENS = np.random.default_rng(3).integers(0, VOCABULARY, CONTEXT).tolist()


def evaluated(backend: BackendAdapter, tokens: list[int], chunk: int = 128) -> int:
    """A sequence with ``tokens`` committed, ``chunk`` a pass."""
    sequence = backend.open_sequence()
    extend(backend, sequence, tokens, chunk)
    return sequence


def extend(backend: BackendAdapter, sequence: int, tokens: list[int], chunk: int = 128) -> None:
    while (length := backend.length(sequence)) < len(tokens):
        part = tokens[length : length + chunk]
        backend.evaluate(chain(sequence, length, part), (), False)
        backend.commit(sequence, length + len(part))


def saved(backend: BackendAdapter, tokens: list[int], chunk: int = 128) -> list[PrefixBlock]:
    """All whole blocks of ``tokens``, each saved as soon as it is complete."""
    sequence = backend.open_sequence()
    blocks: list[PrefixBlock] = []
    while (length := backend.length(sequence)) < len(tokens):
        extend(backend, sequence, tokens[: length + chunk], chunk)
        while (len(blocks) + 1) * PREFIX_BLOCK <= backend.length(sequence):
            blocks.append(backend.save_block(sequence, len(blocks)))
    backend.close_sequence(sequence)
    return blocks


def loaded(backend: BackendAdapter, blocks: list[PrefixBlock]) -> int:
    sequence = backend.open_sequence()
    backend.load_blocks(sequence, blocks)
    assert backend.length(sequence) == len(blocks) * PREFIX_BLOCK
    return sequence


def logits(backend: BackendAdapter, sequence: int, tokens: list[int]) -> bytes:
    """Of every row of ``tokens`` behind the committed ones; nothing is committed."""
    found = backend.evaluate(chain(sequence, backend.length(sequence), tokens), range(len(tokens)), True)
    assert found.logits is not None
    return found.logits.tobytes()

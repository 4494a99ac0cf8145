"""Digests of token sequences, as receipts hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

BLOCK = 32  # tokens between two prefix digests: a mismatch is found to within as many
PREFIX_HEX = 16


def token_bytes(tokens: Sequence[int]) -> bytes:
    """Token ids as little-endian 32-bit numbers."""
    return np.asarray(tokens, "<u4").tobytes()


def token_digest(tokens: Sequence[int], salt: bytes = b"") -> str:
    """SHA-256 (hex) of ``salt`` and ``tokens``."""
    return hashlib.sha256(b"verispec tokens 1\0" + salt + token_bytes(tokens)).hexdigest()


def prefix_digests(tokens: Sequence[int]) -> list[str]:
    """Shortened digests of the first 32, 64, ... tokens; they tell where two sequences part, not what they
    hold.
    """
    return [token_digest(tokens[:end])[:PREFIX_HEX] for end in range(BLOCK, len(tokens) + 1, BLOCK)]


def text_digest(text: str) -> str:
    """SHA-256 (hex) of a text's UTF-8 bytes."""
    return hashlib.sha256(b"verispec text 1\0" + text.encode("utf-8")).hexdigest()

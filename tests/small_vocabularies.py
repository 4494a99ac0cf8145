"""Two hand-made vocabularies, small enough to reason about: byte-level BPE and SentencePiece BPE."""

from __future__ import annotations

from typing import Any

from verispec.text.byte_level_bpe import byte_characters
from verispec.text.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED


def byte_level(**changes: Any) -> dict[str, Any]:
    """Every byte, four merges, two control tokens and a user-defined one. ``changes`` replace or add keys."""
    tokens = [*byte_characters(), "he", "ll", "hell", "hello", "<|im_start|>", "<|im_end|>", "<tool>"]
    metadata = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": [NORMAL] * 260 + [CONTROL, CONTROL, USER_DEFINED],
        "merges": ["h e", "l l", "he ll", "hell o"],
        "bos_token_id": 260,
        "eos_token_id": 261,
    }
    return _keys(metadata, changes)


PIECES = ["▁", "h", "e", "l", "o", "a", "b", "he", "ll", "hell", "hello", "▁hello", "ab", "ba", "aba", "▁a"]


def sentencepiece(**changes: Any) -> dict[str, Any]:
    """Pieces with falling scores, all byte tokens, and ``\\n\\n`` user-defined. ``changes`` replace or add
    keys.
    """
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\n\n", "  ", *PIECES]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, USER_DEFINED, USER_DEFINED, *[NORMAL] * len(PIECES)]
    metadata = {
        "model": "llama",
        "tokens": tokens,
        "token_type": kinds,
        "scores": [0.0] * 261 + [float(-rank) for rank in range(len(PIECES))],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
        "add_space_prefix": False,
    }
    return _keys(metadata, changes)


def _keys(metadata: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    metadata |= changes
    return {f"tokenizer.ggml.{key}": value for key, value in metadata.items() if value is not None}

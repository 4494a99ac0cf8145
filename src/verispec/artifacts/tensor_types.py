"""The tensor types of GGUF files: those verispec computes with, and those it only knows by name."""

from __future__ import annotations

import enum


class TensorType(enum.Enum):
    """A tensor type verispec computes with, named as GGUF names it (look one up with ``TensorType["Q4_K"]``).

    ``id`` is the number GGUF stores (``ggml_type``). A row of a tensor is a sequence of blocks; a block holds
    ``block_size`` elements in ``block_bytes`` bytes.
    """

    F32 = (0, 1, 4)
    F16 = (1, 1, 2)
    BF16 = (30, 1, 2)
    Q8_0 = (8, 32, 34)
    Q4_0 = (2, 32, 18)
    Q4_1 = (3, 32, 20)
    Q5_0 = (6, 32, 22)
    Q5_1 = (7, 32, 24)
    Q4_K = (12, 256, 144)
    Q5_K = (13, 256, 176)
    Q6_K = (14, 256, 210)

    def __init__(self, type_id: int, block_size: int, block_bytes: int) -> None:
        self.id = type_id
        self.block_size = block_size
        self.block_bytes = block_bytes

    @property
    def is_quantised(self) -> bool:
        """Whether elements share scales in blocks (every type but F32, F16 and BF16)."""
        return self.block_size > 1

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row of ``columns`` elements. Raises ValueError when a row is not whole blocks."""
        blocks, rest = divmod(columns, self.block_size)
        if rest:
            raise ValueError(f"{columns} columns are not whole blocks of {self.block_size} ({self.name})")
        return blocks * self.block_bytes


TYPES_BY_ID: dict[int, TensorType] = {kind.id: kind for kind in TensorType}

INDEX_TYPES = {26: "<i4", 27: "<i8"}
"""Integers, which only tables are made of (``GgufFile.tables``): type id to numpy's name."""

# Types of other GGUF files, so that a refusal can say what it found instead of a number.
KNOWN_UNSUPPORTED: dict[int, str] = {
    4: "Q4_2 (withdrawn)",
    5: "Q4_3 (withdrawn)",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    31: "Q4_0_4_4 (withdrawn)",
    32: "Q4_0_4_8 (withdrawn)",
    33: "Q4_0_8_8 (withdrawn)",
    34: "TQ1_0",
    35: "TQ2_0",
    36: "IQ4_NL_4_4 (withdrawn)",
    37: "IQ4_NL_4_8 (withdrawn)",
    38: "IQ4_NL_8_8 (withdrawn)",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}


def type_name(type_id: int) -> str:
    """The name of a GGUF tensor type id, supported or not; an unknown id is shown as a number."""
    if type_id in TYPES_BY_ID:
        return TYPES_BY_ID[type_id].name
    return KNOWN_UNSUPPORTED.get(type_id, f"unknown type {type_id}")


def supported_type_names() -> str:
    """The names of all supported types, for error messages."""
    return ", ".join(kind.name for kind in TensorType)

"""Builds GGUF files byte by byte, right or wrong on purpose, for tests."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

STRING, ARRAY, BOOL = 8, 9, 7
UINT32, INT32, FLOAT32, UINT64 = 4, 5, 6, 10
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return u64(len(raw)) + raw


def entry(key: str | bytes, kind: int, value: object) -> bytes:
    """One metadata entry with a scalar or string value; bytes as value go in unchanged after the type."""
    if isinstance(value, bytes):
        return text(key) + u32(kind) + value
    if kind == STRING:
        return text(key) + u32(kind) + text(str(value))
    return text(key) + u32(kind) + struct.pack("<" + NUMBERS[kind], value)


def array(key: str, kind: int, values: list[object]) -> bytes:
    """One metadata entry with an array value."""
    items = [text(str(v)) if kind == STRING else struct.pack("<" + NUMBERS[kind], v) for v in values]
    return text(key) + u32(ARRAY) + u32(kind) + u64(len(values)) + b"".join(items)


def tensor(name: str | bytes, dimensions: tuple[int, ...], kind: int, offset: int) -> bytes:
    """One tensor description; dimensions in GGUF order, columns first."""
    return text(name) + u32(len(dimensions)) + b"".join(map(u64, dimensions)) + u32(kind) + u64(offset)


@dataclass
class GgufBytes:
    """A file in parts. Counts are those of the parts unless set."""

    entries: list[bytes] = field(default_factory=lambda: [entry("general.architecture", STRING, "llama")])
    tensors: list[bytes] = field(default_factory=list)
    data: bytes = b""
    magic: bytes = b"GGUF"
    version: bytes = u32(3)
    entry_count: int | None = None
    tensor_count: int | None = None
    alignment: int = 32

    def build(self) -> bytes:
        entry_count = len(self.entries) if self.entry_count is None else self.entry_count
        tensor_count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        header = self.magic + self.version + u64(tensor_count) + u64(entry_count)
        header += b"".join(self.entries) + b"".join(self.tensors)
        return header + b"\0" * (-len(header) % self.alignment) + self.data

"""A cursor over untrusted bytes: nothing is read or allocated before it is known to be there."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import NoReturn

from verispec.errors import ArtifactError

U64 = struct.Struct("<Q")


class ByteCursor:
    """Reads little-endian values in order, within the first ``limit`` bytes of a file.

    ``where`` names what is being read; every fault is an ArtifactError that carries it.
    """

    def __init__(self, buffer: mmap.mmap | bytes, file: Path, limit: int) -> None:
        self.buffer = buffer
        self.file = file
        self.size = len(buffer)
        self.limit = min(self.size, limit)
        self.position = 0
        self.where = "start of file"

    def fail(self, expected: str, found: str) -> NoReturn:
        raise ArtifactError(self.file, self.where, expected, found)

    def strings(self, count: int) -> list[str]:
        """The hot loop: a vocabulary is read here, so bounds are checked inline and text is decoded once."""
        buffer, limit, position = self.buffer, self.limit, self.position
        raw: list[bytes] = []
        unpack, keep = U64.unpack_from, raw.append
        for index in range(count):
            start = position + 8
            if start > limit:
                self.where += f", element {index}"
                self.position = position
                self.take(8)
            position = start + unpack(buffer, position)[0]
            if position > limit:
                self.where += f", element {index}"
                self.position = start
                self.take(position - start)
            keep(buffer[start:position])
        self.position = position
        try:
            return [text.decode() for text in raw]
        except UnicodeDecodeError:
            index = next(i for i, text in enumerate(raw) if not is_utf8(text))
            self.where += f", element {index}"
            self.fail("UTF-8 text", ascii(raw[index][:40].decode("latin-1")))

    def string(self, longest: int) -> str:
        length = self.u64()
        if length > longest:
            self.fail(f"text of at most {longest} bytes", f"a length of {length}")
        raw = self.take(length)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.fail("UTF-8 text", ascii(raw[:40].decode("latin-1")))

    def count(self, most: int, smallest_bytes: int) -> int:
        """A count of things of at least ``smallest_bytes`` each, refused when they cannot all be there."""
        count = self.u64()
        if count > most:
            self.fail(f"a count of at most {most}", str(count))
        if count * smallest_bytes > self.limit - self.position:
            needed = count * smallest_bytes
            self.fail(f"at least {needed} more bytes for a count of {count}", self.remaining())
        return count

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes, copied."""
        end = self.position + length
        if end > self.limit:
            self.fail(f"{length} bytes at offset {self.position}", self.remaining())
        taken = self.buffer[self.position : end]
        self.position = end
        return taken

    def remaining(self) -> str:
        if self.limit < self.size:
            return f"the header's limit of {self.limit} bytes"
        return f"{self.size - self.position} bytes left in the file"


def is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True

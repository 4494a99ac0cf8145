"""The strict reader of a GGUF header: metadata and tensor descriptions, as stored, from untrusted bytes.

Every count, length and offset is checked against the bytes that are there before anything is allocated
for it, so the work and memory a file can cause are bounded by its own header and by the limits below.
Nothing is executed. Format: version 2 and 3, little-endian, as the GGUF specification of the ggml project
defines it.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from verispec.artifacts.byte_cursor import ByteCursor

MetadataValue = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32

# Far above any real model (a 262,144-token vocabulary has 800 thousand array elements in a 6 MB header),
# far below what would hurt: they bound a sparse file that claims terabytes of header.
MAX_HEADER_BYTES = 256 << 20
MAX_METADATA_KEYS = 1 << 16
MAX_TENSORS = 1 << 17
MAX_ARRAY_ELEMENTS = 1 << 22
MAX_KEY_BYTES = (1 << 16) - 1
MAX_TENSOR_NAME_BYTES = 64
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 16

STRING = 8
ARRAY = 9
BOOL = 7
# value type id -> how one value is stored
SCALARS: dict[int, np.dtype[np.generic]] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    BOOL: np.dtype("<u1"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}


@dataclass(frozen=True)
class StoredType:
    """How a metadata value is stored: its value type id and, for an array, that of its elements."""

    value: int
    element: int | None = None


@dataclass(frozen=True)
class TensorRecord:
    """A tensor as stored: ``dimensions`` in GGUF order (columns first), ``offset`` within the data."""

    name: str
    dimensions: tuple[int, ...]
    type_id: int
    offset: int


@dataclass(frozen=True)
class GgufHeader:
    """What the header says.

    ``data_start`` is the file offset where tensor data begins, ``types`` how each metadata value is stored.
    """

    version: int
    metadata: dict[str, MetadataValue]
    tensors: list[TensorRecord]
    alignment: int
    data_start: int
    types: dict[str, StoredType] = field(default_factory=dict)


def read_header(buffer: mmap.mmap | bytes, file: Path) -> GgufHeader:
    """Reads the header of ``file`` from its bytes.

    Raises ArtifactError naming the place of the first fault.
    """
    return _HeaderReader(buffer, file, MAX_HEADER_BYTES).read()


class _HeaderReader(ByteCursor):
    """Reads the parts of a header in file order."""

    array_elements = 0

    def __init__(self, buffer: mmap.mmap | bytes, file: Path, limit: int) -> None:
        super().__init__(buffer, file, limit)
        self.types: dict[str, StoredType] = {}

    def read(self) -> GgufHeader:
        version = self.read_preamble()
        self.where = "tensor count"
        tensor_count = self.count(MAX_TENSORS, smallest_bytes=8 + 4 + 8 + 4 + 8)
        self.where = "metadata count"
        key_count = self.count(MAX_METADATA_KEYS, smallest_bytes=8 + 4 + 1)
        metadata = self.read_metadata(key_count)
        tensors = self.read_tensors(tensor_count)
        alignment = self.alignment(metadata)
        data_start = -(-self.position // alignment) * alignment
        if tensors and data_start > self.size:
            self.where = "tensor data"
            self.fail(f"data to begin at offset {data_start}", f"a file of {self.size} bytes")
        return GgufHeader(version, metadata, tensors, alignment, data_start, self.types)

    def read_preamble(self) -> int:
        magic = self.take(4)
        if magic != MAGIC:
            self.fail("the magic bytes 'GGUF'", ascii(magic.decode("latin-1")))
        self.where = "format version"
        version = self.u32()
        if version not in VERSIONS:
            if int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS:
                self.fail("a little-endian file", "a big-endian one")
            self.fail("version 2 or 3", str(version))
        return version

    def read_metadata(self, count: int) -> dict[str, MetadataValue]:
        metadata: dict[str, MetadataValue] = {}
        for index in range(count):
            self.where = f"metadata key {index} of {count}"
            key = self.string(MAX_KEY_BYTES)
            if not key:
                self.fail("a key", "an empty name")
            self.where = f"metadata key {key!a}"
            if key in metadata:
                self.fail("a key that occurs once", "a second value for it")
            metadata[key] = self.value(key)
        return metadata

    def read_tensors(self, count: int) -> list[TensorRecord]:
        tensors = []
        names = set()
        for index in range(count):
            self.where = f"tensor {index} of {count}"
            name = self.string(MAX_TENSOR_NAME_BYTES)
            if not name:
                self.fail("a name", "an empty name")
            self.where = f"tensor {name!a}"
            if name in names:
                self.fail("a name that occurs once", "a second tensor of that name")
            names.add(name)
            tensors.append(TensorRecord(name, self.dimensions(), self.u32(), self.u64()))
        return tensors

    def dimensions(self) -> tuple[int, ...]:
        rank = self.u32()
        if not 1 <= rank <= MAX_DIMENSIONS:
            self.fail(f"1 to {MAX_DIMENSIONS} dimensions", str(rank))
        dimensions = tuple(self.u64() for _ in range(rank))
        if 0 in dimensions:
            self.fail("dimensions of at least 1", str(dimensions))
        return dimensions

    def alignment(self, metadata: dict[str, MetadataValue]) -> int:
        self.where = "metadata key 'general.alignment'"
        value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if type(value) is not int or not 8 <= value <= MAX_ALIGNMENT or value & (value - 1):
            self.fail(f"a power of two from 8 to {MAX_ALIGNMENT}", describe(value))
        return value

    def value(self, key: str) -> MetadataValue:
        value_type = self.u32()
        self.types[key] = StoredType(value_type)
        if value_type == STRING:
            return self.string(MAX_HEADER_BYTES)
        if value_type == ARRAY:
            return self.array(key)
        if value_type not in SCALARS:
            self.fail("a value type from 0 to 12", str(value_type))
        return self.numbers(value_type, 1)[0]

    def array(self, key: str) -> MetadataValue:
        element_type = self.u32()
        self.types[key] = StoredType(ARRAY, element_type)
        if element_type == STRING:
            return self.strings(self.elements(smallest_bytes=8))
        if element_type not in SCALARS:
            found = "an array" if element_type == ARRAY else f"type {element_type}"
            self.fail("array elements that are numbers, bools or strings", found)
        return self.numbers(element_type, self.elements(SCALARS[element_type].itemsize))

    def numbers(self, value_type: int, count: int) -> list[bool] | list[int] | list[float]:
        dtype = SCALARS[value_type]
        stored = np.frombuffer(self.take(count * dtype.itemsize), dtype)
        if value_type == BOOL:
            if count and stored.max() > 1:
                self.fail("bools stored as 0 or 1", str(stored.max()))
            stored = stored.astype(np.bool_)
        values: list[bool] | list[int] | list[float] = stored.tolist()
        return values

    def elements(self, smallest_bytes: int) -> int:
        count = self.count(MAX_ARRAY_ELEMENTS - self.array_elements, smallest_bytes)
        self.array_elements += count
        return count


def describe(value: MetadataValue) -> str:
    """A short, printable account of a metadata value, for error messages."""
    if isinstance(value, list):
        return f"an array of {len(value)}"
    text = ascii(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"

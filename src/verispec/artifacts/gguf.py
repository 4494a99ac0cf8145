"""A GGUF file, memory-mapped and checked: the only way verispec reads model weights.

Opening validates the whole description against the file (see ``gguf_header`` for the metadata): types,
shapes, sizes, alignment, bounds and overlaps of all tensors. Values inside tensors are not looked at
here.
"""

from __future__ import annotations

import itertools
import mmap
import os
import stat
import weakref
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from verispec.artifacts.digests import descriptor_sha256
from verispec.artifacts.gguf_header import GgufHeader, MetadataValue, TensorRecord, describe, read_header
from verispec.artifacts.tensor_types import (
    INDEX_TYPES,
    TYPES_BY_ID,
    TensorType,
    supported_type_names,
    type_name,
)
from verispec.errors import ArtifactError

SMALLEST_FILE = 24  # magic, version, two counts


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of a file: ``shape`` in numpy order (rows, columns), ``offset`` from the file's start."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    nbytes: int


class GgufFile:
    """An open GGUF file. Use ``GgufFile.open``; also a context manager.

    ``metadata`` maps keys to bool, int, float, str or lists of them; ``tensors`` maps names to TensorInfo
    in file order. The file must not be shortened while it is open (the system then ends the process with
    SIGBUS); files in the store are read-only for that reason.
    """

    def __init__(
        self,
        path: Path,
        descriptor: int,
        mapping: mmap.mmap,
        header: GgufHeader,
        tables: Collection[str] = (),
    ) -> None:
        self.path = path
        self.version = header.version
        self.metadata: dict[str, MetadataValue] = header.metadata
        self.metadata_types = header.types
        self.size = len(mapping)
        self._descriptor = descriptor
        self._closing = weakref.finalize(self, os.close, descriptor)
        self._mapping = mapping
        self._bytes: NDArray[np.uint8] = np.frombuffer(mapping, dtype=np.uint8)
        self._digest: str | None = None
        found = {record.name: record for record in header.tensors if record.name in tables}
        self._tables = {name: check_table(path, one, header, self.size) for name, one in found.items()}
        matrices = [record for record in header.tensors if record.name not in found]
        self.tensors = check_file(path, replace(header, tensors=matrices), self.size)
        self._drop_pages(0, header.data_start)

    @classmethod
    def open(cls, path: str | os.PathLike[str], tables: Collection[str] = ()) -> GgufFile:
        """Maps and checks ``path``. Raises ArtifactError(file, where, expected, found) for any fault.

        ``tables`` names tensors of integers, which ``table`` reads; everywhere else a file holds none.
        """
        path = Path(path)
        try:
            # O_NONBLOCK: a pipe in the file's place is refused below instead of waited for.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            found = os.strerror(error.errno or 0)
            raise ArtifactError(path, "file", "a readable GGUF file", found) from error
        try:
            mapping = map_file(path, descriptor)
            header = read_header(mapping, path)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, mapping, header, tables)

    def data(self, name: str) -> NDArray[np.uint8]:
        """The stored bytes of a tensor: a read-only uint8 view [nbytes] of the mapping, no copy."""
        tensor = self._tensor(name)
        return self._bytes[tensor.offset : tensor.offset + tensor.nbytes]

    def table(self, name: str) -> NDArray[np.int64] | None:
        """One of the ``tables`` that the file was opened with, in 64 bits; None when it holds none of that name."""
        self._check_open()
        return self._tables[name].read(self._bytes) if name in self._tables else None

    def release(self, name: str) -> None:
        """Lets the system drop the tensor's resident pages; a later read brings them back from the file."""
        tensor = self._tensor(name)
        self._drop_pages(tensor.offset, tensor.offset + tensor.nbytes)

    def sha256(self, *, remembered: bool = True) -> str:
        """SHA-256 of the whole file in hexadecimal, remembered across processes while it is unchanged.

        ``remembered=False`` reads every byte again, for a check that trusts nothing.
        """
        self._check_open()
        if self._digest is None or not remembered:
            self._digest = descriptor_sha256(self._descriptor, remembered=remembered)
        return self._digest

    def close(self) -> None:
        """Closes the file. Views from ``data`` stay valid: the mapping goes with the last of them."""
        self._closing()
        self._bytes = np.empty(0, dtype=np.uint8)

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._closing.alive:
            raise ValueError(f"{self.path}: the file has been closed")

    def _tensor(self, name: str) -> TensorInfo:
        self._check_open()
        if name not in self.tensors:
            raise ArtifactError(self.path, f"tensor {name!r}", "a tensor of that name", "none")
        return self.tensors[name]

    def _drop_pages(self, start: int, end: int) -> None:
        start -= start % mmap.PAGESIZE
        if end > start:
            self._mapping.madvise(mmap.MADV_DONTNEED, start, min(end, self.size) - start)


def map_file(path: Path, descriptor: int) -> mmap.mmap:
    """The whole file, mapped read-only. Raises ArtifactError when it is too small or no regular file."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise ArtifactError(path, "file", "a regular file", stat.filemode(status.st_mode))
    size = status.st_size
    if size < SMALLEST_FILE:
        raise ArtifactError(path, "start of file", f"at least {SMALLEST_FILE} bytes", f"{size} bytes")
    try:
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise ArtifactError(path, "file", "a file that can be memory-mapped", str(error)) from error


def check_file(path: Path, header: GgufHeader, file_size: int) -> dict[str, TensorInfo]:
    """Turns the header's records into TensorInfo, in file order.

    Raises ArtifactError for a part of a split model, and naming the first bad tensor.
    """
    parts = header.metadata.get("split.count", 1)
    if parts not in (0, 1):
        where, expected = "metadata key 'split.count'", "a whole model in one file"
        raise ArtifactError(path, where, expected, f"one of {describe(parts)} parts; join them first")
    tensors = {record.name: check_tensor(path, record, header, file_size) for record in header.tensors}
    check_overlaps(path, tensors.values())
    return tensors


def check_tensor(path: Path, record: TensorRecord, header: GgufHeader, file_size: int) -> TensorInfo:
    """One tensor against the file: its type, whole blocks per row, alignment, and bytes within the file."""
    where = f"tensor {record.name!a}"
    if record.type_id not in TYPES_BY_ID:
        raise ArtifactError(path, where, f"a type among {supported_type_names()}", type_name(record.type_id))
    kind = TYPES_BY_ID[record.type_id]
    columns = record.dimensions[0]
    if columns % kind.block_size:
        expected = f"rows of whole {kind.name} blocks of {kind.block_size} elements"
        raise ArtifactError(path, where, expected, f"{columns} columns")
    nbytes = kind.row_bytes(columns)
    for dimension in record.dimensions[1:]:
        nbytes *= dimension
    if record.offset % header.alignment:
        raise ArtifactError(path, where, f"an offset aligned to {header.alignment}", str(record.offset))
    start = header.data_start + record.offset
    if start + nbytes > file_size:
        expected = f"{nbytes} bytes at offset {start}"
        raise ArtifactError(path, where, expected, f"a file of {file_size} bytes")
    return TensorInfo(record.name, record.dimensions[::-1], kind, start, nbytes)


@dataclass(frozen=True)
class Table:
    """A list of integers in a file, which no pass computes with: ``offset`` is from the file's start."""

    type: str
    count: int
    offset: int

    def read(self, content: NDArray[np.uint8]) -> NDArray[np.int64]:
        stored = np.frombuffer(content, np.dtype(self.type), self.count, self.offset)
        return stored.astype(np.int64)


def check_table(path: Path, record: TensorRecord, header: GgufHeader, file_size: int) -> Table:
    """A list of integers against the file: one dimension, alignment, and bytes within the file."""
    where = f"tensor {record.name!a}"
    if record.type_id not in INDEX_TYPES or len(record.dimensions) != 1:
        found = f"{type_name(record.type_id)} in {len(record.dimensions)} dimensions"
        raise ArtifactError(path, where, "a list of I32 or I64", found)
    table = Table(INDEX_TYPES[record.type_id], record.dimensions[0], header.data_start + record.offset)
    nbytes = table.count * np.dtype(table.type).itemsize
    if record.offset % header.alignment or table.offset + nbytes > file_size:
        expected = f"{nbytes} bytes at an offset aligned to {header.alignment}"
        raise ArtifactError(path, where, expected, f"offset {record.offset} in a file of {file_size} bytes")
    return table


def check_overlaps(path: Path, tensors: Iterable[TensorInfo]) -> None:
    """No byte may belong to two tensors."""
    ordered = sorted(tensors, key=lambda tensor: tensor.offset)
    for first, second in itertools.pairwise(ordered):
        if second.offset < first.offset + first.nbytes:
            expected = f"data from offset {first.offset + first.nbytes} on, after tensor {first.name!a}"
            raise ArtifactError(path, f"tensor {second.name!a}", expected, f"offset {second.offset}")

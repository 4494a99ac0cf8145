"""The tensors of a folder's ``*.safetensors`` files, memory-mapped, under the names their publisher gave them.

The ``safetensors`` library checks every header (sizes, bounds, overlaps). Its numpy interface has no bfloat16, so the
bytes are viewed here: a tensor is where its checked header says.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from verispec.artifacts.json_file import read_json_object
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
TYPES = {"F32": TensorType.F32, "F16": TensorType.F16, "BF16": TensorType.BF16}
VIEWS: dict[TensorType, np.dtype[Any]] = {
    TensorType.F32: np.dtype("<f4"),
    TensorType.F16: np.dtype("<f2"),
    TensorType.BF16: np.dtype("<u2"),  # numpy has no such type: the upper halves of float32
}


@dataclass(frozen=True)
class PublishedTensor:
    """A tensor as published: ``type`` is F32, F16 or BF16, ``offset`` from its file's start in bytes."""

    shape: tuple[int, ...]
    type: TensorType
    file: Path
    offset: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.type.block_bytes


class SafetensorsReader:
    """All tensors of one folder. ``tensors`` maps the publisher's names to them."""

    def __init__(
        self, folder: Path, tensors: dict[str, PublishedTensor], maps: dict[Path, mmap.mmap]
    ) -> None:
        self.folder = folder
        self.tensors = tensors
        self._maps = maps

    @classmethod
    def open(cls, folder: Path, tables: Collection[str] = ()) -> SafetensorsReader:
        """Maps and checks every file of ``folder``. Raises ArtifactError for the first fault.

        ``tables`` names tensors of integers or flags, which ``table`` reads.
        """
        tensors: dict[str, PublishedTensor] = {}
        maps = {}
        for path in _files(folder):
            for name, tensor in _read_header(path, tables).items():
                if name in tensors:
                    found = f"in {tensors[name].file.name} and {path.name}"
                    raise ArtifactError(folder, f"tensor {name!a}", "a name that occurs once", found)
                tensors[name] = tensor
            with path.open("rb") as file:
                maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(folder, tensors, maps)

    def tensor(self, name: str) -> PublishedTensor:
        """Raises ArtifactError when the folder has no such tensor."""
        if name not in self.tensors:
            raise ArtifactError(self.folder, f"tensor {name!a}", "a tensor of that name", "none")
        return self.tensors[name]

    def read(self, name: str) -> NDArray[Any]:
        """A read-only view of the tensor, in its shape: float32, float16, or uint16 for BF16. No copy."""
        tensor = self.tensor(name)
        view = np.frombuffer(
            self._maps[tensor.file], VIEWS[tensor.type], math.prod(tensor.shape), tensor.offset
        )
        return view.reshape(tensor.shape)

    def table(self, name: str) -> NDArray[np.int64] | None:
        """One of the ``tables`` that the reader was opened with, in 64 bits; None when no file holds it."""
        for path in self._maps:
            with safe_open(path, "numpy") as file:
                if name in file.keys():  # noqa: SIM118 - no mapping
                    values = np.asarray(file.get_tensor(name))
                    if values.ndim != 1 or values.dtype.kind not in "iub":
                        found = f"{values.dtype} {list(values.shape)}"
                        raise ArtifactError(path, f"tensor {name!a}", "a list of integers or flags", found)
                    return values.astype(np.int64)
        return None

    def release(self, name: str) -> None:
        """Lets the system drop the tensor's resident pages."""
        tensor = self.tensor(name)
        start = tensor.offset - tensor.offset % mmap.PAGESIZE
        self._maps[tensor.file].madvise(mmap.MADV_DONTNEED, start, tensor.offset + tensor.nbytes - start)

    def close(self) -> None:
        """Forgets the files; each mapping goes with the last view of it."""
        self._maps = {}
        self.tensors = {}


def widen(values: NDArray[Any]) -> NDArray[np.float32]:
    """Float32 of what ``read`` gives; exact for every type."""
    if values.dtype == VIEWS[TensorType.BF16]:
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32)


def _files(folder: Path) -> list[Path]:
    """The files that hold the weights: those the index names, or the single one."""
    if not (folder / INDEX).exists():
        if not (folder / SINGLE).is_file():
            raise ArtifactError(folder, "folder", f"{SINGLE} or {INDEX}", "neither")
        return [folder / SINGLE]
    index = read_json_object(folder / INDEX).get("weight_map")
    if not isinstance(index, dict) or not index or not all(isinstance(file, str) for file in index.values()):
        raise ArtifactError(folder / INDEX, "weight_map", "an object of file names", type(index).__name__)
    files = sorted(set(index.values()))
    for file in files:
        if Path(file).name != file or not (folder / file).is_file():
            raise ArtifactError(folder / INDEX, "weight_map", "files in the folder", repr(file))
    return [folder / file for file in files]


def _read_header(path: Path, tables: Collection[str]) -> dict[str, PublishedTensor]:
    """The tensors of one file but ``tables``, after the library has checked it."""
    try:
        with safe_open(path, "numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise ArtifactError(path, "file", "a readable safetensors file", str(error)) from error
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or name in tables:
            continue
        if entry["dtype"] not in TYPES:
            raise ArtifactError(
                path, f"tensor {name!a}", f"a type among {', '.join(TYPES)}", str(entry["dtype"])
            )
        begin = entry["data_offsets"][0]
        tensors[name] = PublishedTensor(
            tuple(entry["shape"]), TYPES[entry["dtype"]], path, 8 + length + begin
        )
    return tensors

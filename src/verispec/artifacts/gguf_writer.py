"""Writing a GGUF file: in one step, tensor by tensor, so that no more than one is in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter
from numpy.typing import NDArray

from verispec.artifacts.files import atomic_path
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.gguf_header import MetadataValue
from verispec.artifacts.model_file import ModelFile, TensorDescription
from verispec.artifacts.tensor_types import TensorType

ARCHITECTURE, ALIGNMENT = "general.architecture", "general.alignment"
U32_END, U64_END = 1 << 32, 1 << 64

Progress = Callable[[int, int], None]
"""Told how many tensors are written, and of how many."""


FILE_TYPES = {
    TensorType.F32: 0,
    TensorType.F16: 1,
    TensorType.Q4_0: 2,
    TensorType.Q4_1: 3,
    TensorType.Q8_0: 7,
    TensorType.Q5_0: 8,
    TensorType.Q5_1: 9,
    TensorType.Q4_K: 15,
    TensorType.Q5_K: 17,
    TensorType.Q6_K: 18,
    TensorType.BF16: 32,
}
"""``general.file_type`` of a file that is mostly of a type, as llama.cpp numbers them; K-quants as the M mixtures."""


def file_type_of(tensors: Iterable[TensorDescription]) -> int:
    """The file type of the tensor type that holds the most elements."""
    held = dict.fromkeys(FILE_TYPES, 0)
    for tensor in tensors:
        held[tensor.type] += math.prod(tensor.shape)
    return FILE_TYPES[max(held, key=held.__getitem__)]


class TensorSource(Protocol):
    """Gives a tensor's stored bytes, uint8 ``[nbytes]``, when the file has come to it."""

    def __call__(self, name: str) -> NDArray[np.uint8]: ...


@dataclass(frozen=True)
class StoredValue:
    """A metadata value with the type it is stored as; ``element`` is that of an array's elements."""

    value: MetadataValue
    type: GGUFValueType
    element: GGUFValueType | None = None


def natural_value(value: MetadataValue) -> StoredValue:
    """A value with the type that llama.cpp's converter would give it: 32 bits where they suffice."""
    if isinstance(value, list):
        element = GGUFValueType.get_type(value[0]) if value else GGUFValueType.INT32
        return StoredValue(value, GGUFValueType.ARRAY, element)
    if isinstance(value, bool) or not isinstance(value, int):
        return StoredValue(value, GGUFValueType.get_type(value))
    if value < 0:
        return StoredValue(value, GGUFValueType.INT64)
    return StoredValue(value, GGUFValueType.UINT32 if value < U32_END else GGUFValueType.UINT64)


def stored_metadata(file: ModelFile) -> dict[str, StoredValue]:
    """A model's metadata with the types that a GGUF file stores it as, so that a copy is stored as the original was."""
    if not isinstance(file, GgufFile):
        return {key: natural_value(value) for key, value in file.metadata.items()}
    found = {}
    for key, value in file.metadata.items():
        stored = file.metadata_types[key]
        element = None if stored.element is None else GGUFValueType(stored.element)
        found[key] = StoredValue(value, GGUFValueType(stored.value), element)
    return found


def write_gguf(
    path: Path,
    metadata: Mapping[str, StoredValue],
    tensors: Sequence[TensorDescription],
    source: TensorSource,
    progress: Progress | None = None,
) -> None:
    """Writes the file, complete or not at all. ``tensors`` describe what ``source`` will give, in file order."""
    with atomic_path(path) as partial:
        writer = GGUFWriter(partial, str(metadata[ARCHITECTURE].value))
        if ALIGNMENT in metadata:
            writer.add_custom_alignment(int(str(metadata[ALIGNMENT].value)))
        try:
            for key, stored in metadata.items():
                if (
                    key not in (ARCHITECTURE, ALIGNMENT) and stored.value != []
                ):  # it writes both, and no empty array
                    writer.add_key_value(key, stored.value, stored.type, sub_type=stored.element)
            for tensor in tensors:
                kind = GGMLQuantizationType(tensor.type.id)
                writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), tensor.nbytes, kind)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_ti_data_to_file()
            for done, tensor in enumerate(tensors, 1):
                content = source(tensor.name)
                assert content.nbytes == tensor.nbytes, (
                    f"{tensor.name}: {content.nbytes} of {tensor.nbytes} bytes"
                )
                writer.write_tensor_data(content)
                if progress is not None:
                    progress(done, len(tensors))
        finally:
            writer.close()

"""Weights of a GGUF file for the reference operations: dequantised to float32 by the ``gguf`` package."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from verispec.artifacts.model_file import ModelFile
from verispec.ops.reference_arrays import Matrix


def reference_matrix(file: ModelFile, name: str) -> Matrix:
    """One tensor, float32 ``[rows, columns]``; a vector is one row, experts' matrices keep three dimensions."""
    tensor = file.tensors[name]
    rows = int(np.prod(tensor.shape[:-1], dtype=np.int64))
    stored = file.data(name).reshape(rows, -1)
    values = dequantize(stored.view(storage_type(tensor.type.name)), GGMLQuantizationType[tensor.type.name])
    shape = tensor.shape if len(tensor.shape) == 3 else (rows, -1)
    return Matrix(values.astype(np.float32, copy=False).reshape(shape), tensor.type.is_quantised)


def storage_type(type_name: str) -> np.dtype[np.generic]:
    """The numpy type in which ``gguf.quants`` takes the bytes of a tensor type."""
    return np.dtype({"F32": "<f4", "F16": "<f2"}.get(type_name, "u1"))


def reference_weights(file: ModelFile, names: Iterable[str]) -> dict[str, Matrix]:
    """The named tensors of a file."""
    return {name: reference_matrix(file, name) for name in names}

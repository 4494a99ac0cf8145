"""Weights of a GGUF file in the native kernels' layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from verispec import _native
from verispec.artifacts.model_file import ModelFile, TensorDescription
from verispec.errors import ArtifactError

PLAIN_TYPES = ("F32", "F16", "BF16")
"""Types a vector (a norm weight or a bias) may have."""
ROW_MATRICES = ("ffn_gate_inp_shexp.weight",)
"""Endings of the names of matrices of one row, which files hold as vectors."""


@dataclass(frozen=True)
class NativeWeights:
    """Packed matrices, float32 vectors and packed experts by the name of their tensor."""

    matrices: dict[str, _native.Matrix]
    vectors: dict[str, _native.Vector]
    experts: dict[str, _native.Experts] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes that a pass can read: all packed matrices and experts."""
        matrices = sum(matrix.nbytes for matrix in self.matrices.values())
        return matrices + sum(experts.nbytes for experts in self.experts.values())


def packed_bytes(file: ModelFile, names: Iterable[str]) -> int:
    """Bytes that the matrices and experts among the named tensors take once packed."""
    return sum(_packed_size(file.tensors[name]) for name in names)


def load_weights(
    file: ModelFile,
    names: Iterable[str],
    pool: _native.ThreadPool,
    progress: Callable[[int], None] | None = None,
) -> NativeWeights:
    """Packs the named tensors in the order given, which should be the order a pass reads them in.

    File pages are dropped as they are packed, so no second copy of a model is ever resident. ``progress`` is
    told each tensor's bytes in the file when it is done. A tensor of three dimensions is [experts, outputs, inputs].
    Raises ArtifactError for a vector of a quantised type or a tensor of other dimensions.
    """
    names = list(names)
    store = _native.Weights(packed_bytes(file, names))
    weights = NativeWeights({}, {})
    for name in names:
        tensor = file.tensors[name]
        shape = _packed_shape(tensor)
        if len(shape) == 2:
            rows, columns = shape
            weights.matrices[name] = store.pack(tensor.type.name, rows, columns, file.data(name), pool)
        elif len(shape) == 3:
            experts, rows, columns = shape
            data = file.data(name)
            weights.experts[name] = store.pack_experts(tensor.type.name, experts, rows, columns, data, pool)
        else:
            weights.vectors[name] = _native.Vector(_vector_values(file, tensor))
        file.release(name)
        if progress is not None:
            progress(tensor.nbytes)
    return weights


def _packed_shape(tensor: TensorDescription) -> tuple[int, ...]:
    """The tensor's shape as a pass uses it."""
    return (
        (1, *tensor.shape) if tensor.name.endswith(ROW_MATRICES) and len(tensor.shape) == 1 else tensor.shape
    )


def _packed_size(tensor: TensorDescription) -> int:
    shape = _packed_shape(tensor)
    if len(shape) not in (2, 3):
        return 0
    *experts, rows, columns = shape
    return math.prod(experts) * _native.Weights.packed_size(tensor.type.name, rows, columns)


def _vector_values(file: ModelFile, tensor: TensorDescription) -> npt.NDArray[np.float32]:
    """The values of a one-dimensional tensor, float32; every supported type converts exactly."""
    kind = tensor.type.name
    if len(tensor.shape) != 1 or kind not in PLAIN_TYPES:
        expected = f"a matrix, experts, or a vector of type {', '.join(PLAIN_TYPES)}"
        found = f"shape {tensor.shape}, type {kind}"
        raise ArtifactError(file.path, f"tensor {tensor.name}", expected, found)
    data = file.data(tensor.name)
    if kind == "BF16":
        return np.ascontiguousarray((data.view("<u2").astype(np.uint32) << 16).view(np.float32))
    return np.ascontiguousarray(data.view("<f4" if kind == "F32" else "<f2"), dtype=np.float32)

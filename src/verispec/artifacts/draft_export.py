"""A draft head as one GGUF file, in any tensor type: what llama.cpp's converter would make of it, and smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType

from verispec.artifacts.draft_file import CONFIDENCE, DRAFT_IDS, DraftFile
from verispec.artifacts.encoding import reencode
from verispec.artifacts.files import atomic_path
from verispec.artifacts.gguf_writer import ARCHITECTURE, natural_value
from verispec.artifacts.quantise import fitting_type
from verispec.artifacts.tensor_roles import kept_in_float32
from verispec.artifacts.tensor_types import TensorType


@dataclass(frozen=True)
class ExportedHead:
    """What was written: bytes of the file, and the root-mean-square error of its matrices relative to their values."""

    path: Path
    nbytes: int
    error: float


def export_head(file: DraftFile, output: Path, kind: TensorType | None = None) -> ExportedHead:
    """Writes an open head to ``output``, complete or not at all; its matrices as ``kind``, by default as they are.

    Vectors and the one row of the confidence head stay as they are. Rows that are not whole blocks of ``kind`` get
    what takes its place.
    """
    errors = energies = 0.0
    with atomic_path(output) as partial:
        writer = gguf.GGUFWriter(partial, file.architecture)
        for key, value in file.metadata.items():
            if key != ARCHITECTURE:
                stored = natural_value(value)
                writer.add_key_value(key, stored.value, stored.type, sub_type=stored.element)
        for name, tensor in file.tensors.items():
            given = _given(name, tuple(tensor.shape), tensor.type, kind)
            content, error, energy = reencode(file.data(name), tensor.type, given)
            errors, energies = errors + error, energies + energy
            rows = math.prod(tensor.shape[:-1])
            shaped = content.reshape(rows, -1) if len(tensor.shape) > 1 else content
            writer.add_tensor(name, shaped, raw_dtype=GGMLQuantizationType(given.id))
        if file.draft_ids is not None:
            writer.add_tensor(DRAFT_IDS, file.draft_ids.astype(np.int64))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return ExportedHead(output, output.stat().st_size, math.sqrt(errors / energies) if energies else 0.0)


def _given(name: str, shape: tuple[int, ...], stored: TensorType, kind: TensorType | None) -> TensorType:
    if kind is None or kept_in_float32(name, shape) or name == CONFIDENCE:
        return stored
    return fitting_type(kind, shape[-1])

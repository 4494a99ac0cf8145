"""What a trainer has to know of a target: its shape, and in torch its embedding, final norm and output matrix."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from verispec.artifacts.model_file import ModelFile, open_model_file
from verispec.models.hyperparameters import Hyperparameters, read_hyperparameters
from verispec.models.tensors import EMBEDDING, OUTPUT, OUTPUT_NORM
from verispec.ops.reference_weights import reference_matrix


@dataclass(frozen=True)
class TargetFacts:
    """``embedding`` and ``head`` are [vocabulary, hidden size] float32, one tensor where the target ties them;
    ``final_norm`` [hidden size] float32 is the weight of the norm before the head."""

    model: Hyperparameters
    embedding: Tensor
    head: Tensor
    final_norm: Tensor
    sha256: str


def read_target(path: Path) -> TargetFacts:
    """Reads the file at ``path``; raises ArtifactError for one that is malformed."""
    with open_model_file(path) as file:
        embedding = _matrix(file, EMBEDDING)
        head = _matrix(file, OUTPUT) if OUTPUT in file.tensors else embedding
        model = read_hyperparameters(path, file.metadata, len(embedding))
        final_norm = _matrix(file, OUTPUT_NORM).flatten()
        return TargetFacts(model, embedding, head, final_norm, file.sha256())


def _matrix(file: ModelFile, name: str) -> Tensor:
    return torch.from_numpy(np.array(reference_matrix(file, name).values, np.float32))

"""From a trained module to an admitted artifact: the published folder, one GGUF file, its manifest, its statement."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from verispec.artifacts.draft_export import export_head
from verispec.artifacts.draft_file import DraftFile
from verispec.artifacts.draft_manifest import Source
from verispec.artifacts.files import atomic_path, write_atomically
from verispec.artifacts.tensor_types import TensorType
from verispec.engine.admission import DRAFT_MODEL, admit
from verispec.training.draft_model_file import export_draft_model
from verispec.training.draft_training import DraftTraining

PUBLISHED = "head"
"""The folder of the published layout, in the run's."""
STATEMENT_SUFFIX = ".statement.json"


@dataclass(frozen=True)
class TrainedArtifact:
    """The files that a run leaves."""

    path: Path
    manifest: Path
    statement: Path
    nbytes: int
    acceptance: float | None
    """Share of proposals accepted on held-out texts."""


def write_published(training: DraftTraining, folder: Path) -> Path:
    """The head as its kind is published, in float32."""
    folder.mkdir(parents=True, exist_ok=True)
    values, config = training.published()
    with atomic_path(folder / "model.safetensors") as partial:
        save_file({name: np.ascontiguousarray(value) for name, value in values.items()}, partial)
    write_atomically(folder / "config.json", (json.dumps(config, indent=2) + "\n").encode())
    return folder


def export_artifact(
    published: Path,
    output: Path,
    tensor_type: TensorType,
    target: Path,
    kind: str,
    source: Source,
    statement: dict[str, Any],
    acceptance: float | None,
) -> TrainedArtifact:
    """Writes ``output``, admits it for ``target`` and writes manifest and statement beside it."""
    nbytes = _write_artifact(published, output, tensor_type, target, kind)
    manifest = admit(target, output, kind, source, acceptance).write(output)
    path = output.with_name(output.name + STATEMENT_SUFFIX)
    described = {**statement, "file": output.name, "bytes": nbytes, "tensor_type": tensor_type.name}
    write_atomically(path, (json.dumps(described, indent=2) + "\n").encode())
    return TrainedArtifact(output, manifest, path, nbytes, acceptance)


def _write_artifact(published: Path, output: Path, tensor_type: TensorType, target: Path, kind: str) -> int:
    if kind == DRAFT_MODEL:
        return export_draft_model(published, output, tensor_type, target)
    with DraftFile.open(published) as file:
        return export_head(file, output, tensor_type).nbytes

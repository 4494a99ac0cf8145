"""A published folder as a GGUF file: the content of ``SafetensorsFolder``, written down."""

from __future__ import annotations

import hashlib
from pathlib import Path

from verispec.artifacts.derived_file import Derived, as_it_is, write_derived
from verispec.artifacts.gguf_writer import Progress
from verispec.artifacts.manifest import derivation_of
from verispec.artifacts.safetensors_folder import SafetensorsFolder
from verispec.artifacts.tensor_roles import layout_of
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError
from verispec.text.published_files import TOKENIZER

CONVERTED_TYPES = {"bf16": TensorType.BF16, "f16": TensorType.F16, "f32": TensorType.F32}
AS_PUBLISHED = "as published"


def convert(
    folder: Path, output: Path, kind: TensorType | None = None, progress: Progress | None = None
) -> Derived:
    """Writes the model in ``folder`` to the GGUF file ``output``, and the manifest beside it.

    Matrices get the type ``kind``, by default the one they were published in. Raises ArtifactError and UnsupportedError
    as opening the folder does, and ArtifactError when it has no tokeniser.
    """
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing there"
        raise ArtifactError(
            folder, "input", f"a folder with config.json, *.safetensors and {TOKENIZER}", found
        )
    with SafetensorsFolder.open(folder) as parent:
        if not (folder / TOKENIZER).is_file():
            raise ArtifactError(folder, "folder", f"{TOKENIZER}, which the GGUF file needs", "none")
        layout = layout_of(parent)
        targets = [as_it_is(tensor, layout, kind) for tensor in parent.tensors.values()]
        content = {"convert": kind.name if kind else AS_PUBLISHED}
        digest = hashlib.sha256(repr(sorted(content.items())).encode()).hexdigest()
        recipe = f"converted to {kind.name}" if kind else f"converted {AS_PUBLISHED}"
        return write_derived(
            parent, output, targets, derivation_of(parent, recipe, digest, content), progress
        )

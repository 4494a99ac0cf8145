"""A trained draft model as a GGUF file that loads like any model: its own tensors, and the target's tokeniser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from verispec.artifacts.derived_file import TensorEncoder, as_it_is
from verispec.artifacts.gguf_writer import file_type_of, natural_value, stored_metadata, write_gguf
from verispec.artifacts.model_file import open_model_file
from verispec.artifacts.quantise import fitting_type
from verispec.artifacts.safetensors_folder import SafetensorsFolder
from verispec.artifacts.tensor_roles import layout_of
from verispec.artifacts.tensor_types import TensorType

TOKENISER = "tokenizer."
"""What the keys of a tokeniser, and of the chat template, begin with."""


def export_draft_model(published: Path, output: Path, tensor_type: TensorType, target: Path) -> int:
    """Writes ``output``, complete or not at all, and gives its bytes. Matrices get ``tensor_type``, or what takes its
    place where rows are not whole blocks of it."""
    with SafetensorsFolder.open(published) as folder, open_model_file(target) as owner:
        layout = layout_of(folder)
        wanted = [as_it_is(tensor, layout, tensor_type) for tensor in folder.tensors.values()]
        tensors = [replace(one, type=fitting_type(one.type, one.shape[-1])) for one in wanted]
        own = {**folder.metadata, "general.name": output.stem, "general.file_type": file_type_of(tensors)}
        tokens = {key: value for key, value in stored_metadata(owner).items() if key.startswith(TOKENISER)}
        metadata = {key: natural_value(value) for key, value in own.items()} | tokens
        write_gguf(output, metadata, tensors, TensorEncoder(folder, tensors, map))
    return output.stat().st_size

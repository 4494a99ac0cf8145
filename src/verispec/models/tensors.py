"""Which tensors each architecture has, with their shapes, and the check of a file against them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError
from verispec.models.hyperparameters import Hyperparameters
from verispec.models.layer_parts import Part, Shape, layer_parts, prediction_parts

EMBEDDING = "token_embd.weight"
OUTPUT = "output.weight"
OUTPUT_NORM = "output_norm.weight"
ROPE_FACTORS = "rope_freqs.weight"
CONVOLUTION = "ssm_conv1d.weight"
UNREAD_SUFFIXES = (".attn_rot_embd", ".rot_embd", ".attn_rot_embd.weight")
"""Leftovers of old converters that no graph reads."""


class TensorDescription(Protocol):
    """The part of a file's tensor description that is checked here."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def type(self) -> TensorType: ...


@dataclass(frozen=True)
class ExpectedTensor:
    """A tensor a graph reads: ``shape`` is (outputs, inputs) for a matrix, (values,) for a vector, and
    (experts, outputs, inputs) for the matrices of experts.

    A file may hold a matrix of one row as a vector.
    """

    name: str
    shape: Shape
    required: bool = True

    @property
    def may_be_quantised(self) -> bool:
        """Vectors and the few taps of a convolution are read as they are."""
        return len(self.shape) > 1 and not self.name.endswith(CONVOLUTION)

    def fits(self, shape: Shape) -> bool:
        return shape == self.shape or (1, *shape) == self.shape


def layer_tensor(layer: int, part: str) -> str:
    """The GGUF name of ``part`` of a layer, such as ``attn_q.weight``."""
    return f"blk.{layer}.{part}"


def expected_tensors(model: Hyperparameters) -> Iterator[ExpectedTensor]:
    """Every tensor the model's graphs read, in graph order."""
    hidden = model.hidden_size
    yield ExpectedTensor(EMBEDDING, (model.vocabulary, hidden))
    yield ExpectedTensor(ROPE_FACTORS, (model.rope.dimensions // 2,), required=False)
    for layer in range(model.layers):
        yield from _block(layer, layer_parts(model, layer))
    yield ExpectedTensor(OUTPUT_NORM, (hidden,))
    yield ExpectedTensor(OUTPUT, (model.vocabulary, hidden), required=False)
    for block in range(model.layers, model.blocks):
        yield from _block(block, prediction_parts(model))
        yield from _block(block, layer_parts(model, block))


def _block(block: int, parts: Iterable[Part]) -> Iterator[ExpectedTensor]:
    for part, shape, required in parts:
        yield ExpectedTensor(layer_tensor(block, part), shape, required)


def check_tensors(
    file: object, model: Hyperparameters, tensors: Mapping[str, TensorDescription]
) -> list[ExpectedTensor]:
    """The expected tensors that the file has, in graph order.

    Raises ArtifactError for a missing or misshapen one, and for one that the graph would not read: a model
    with parts nobody evaluates is another model.
    """
    _check_prediction_blocks(file, model, tensors)
    present = []
    for tensor in expected_tensors(model):
        if tensor.name in tensors:
            _check_tensor(file, tensor, tensors[tensor.name])
            present.append(tensor)
        elif tensor.required:
            raise ArtifactError(file, f"tensor {tensor.name}", f"shape {tensor.shape}", "no such tensor")
    known = {tensor.name for tensor in present}
    for name in tensors:
        if name not in known and not name.endswith(UNREAD_SUFFIXES):
            expected = f"only tensors that a {model.architecture} graph reads"
            raise ArtifactError(file, f"tensor {name}", expected, "one more")
    return present


def _check_prediction_blocks(file: object, model: Hyperparameters, names: Iterable[str]) -> None:
    """A promise of prediction blocks is named as such, since the rest of the file may well be whole."""
    for block in range(model.layers, model.blocks):
        if not any(name.startswith(layer_tensor(block, "")) for name in names):
            where = f"metadata key {model.architecture}.nextn_predict_layers"
            expected = f"prediction block blk.{block} among the tensors"
            raise ArtifactError(file, where, expected, f"a promise of {model.prediction_layers} without it")


def _check_tensor(file: object, expected: ExpectedTensor, found: TensorDescription) -> None:
    where, shape = f"tensor {expected.name}", tuple(found.shape)
    if not expected.fits(shape):
        raise ArtifactError(file, where, f"shape {expected.shape}", f"shape {shape}")
    if expected.name == ROPE_FACTORS and found.type is not TensorType.F32:
        raise ArtifactError(file, where, "type F32", f"type {found.type.name}")
    if not expected.may_be_quantised and found.type.is_quantised:
        raise ArtifactError(file, where, "type F32, F16 or BF16", f"type {found.type.name}")

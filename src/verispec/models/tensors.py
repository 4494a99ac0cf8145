"""Which tensors each architecture has, with their shapes, and the check of a file against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError
from verispec.models.hyperparameters import Hyperparameters

EMBEDDING = "token_embd.weight"
OUTPUT = "output.weight"
OUTPUT_NORM = "output_norm.weight"
ROPE_FACTORS = "rope_freqs.weight"
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
    """A tensor a graph reads: ``shape`` is (outputs, inputs) for a matrix, (values,) for a vector."""

    name: str
    shape: tuple[int, ...]
    required: bool = True

    @property
    def is_matrix(self) -> bool:
        return len(self.shape) == 2


def layer_tensor(layer: int, part: str) -> str:
    """The GGUF name of ``part`` of a layer, such as ``attn_q.weight``."""
    return f"blk.{layer}.{part}"


def expected_tensors(model: Hyperparameters) -> Iterator[ExpectedTensor]:
    """Every tensor the model's graph reads, in graph order."""
    hidden = model.hidden_size
    yield ExpectedTensor(EMBEDDING, (model.vocabulary, hidden))
    yield ExpectedTensor(ROPE_FACTORS, (model.rope.dimensions // 2,), required=False)
    for layer in range(model.layers):
        for part, shape, required in (*_attention_parts(model), *_feed_forward_parts(model)):
            yield ExpectedTensor(layer_tensor(layer, part), shape, required)
    yield ExpectedTensor(OUTPUT_NORM, (hidden,))
    yield ExpectedTensor(OUTPUT, (model.vocabulary, hidden), required=False)


def _attention_parts(model: Hyperparameters) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    hidden, family = model.hidden_size, model.family
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    yield "attn_norm.weight", (hidden,), True
    for part, width in (("attn_q", query), ("attn_k", key), ("attn_v", key)):
        yield f"{part}.weight", (width, hidden), True
        if family.qkv_bias or family.optional_biases:
            yield f"{part}.bias", (width,), family.qkv_bias
    if family.qk_norm:
        yield "attn_q_norm.weight", (model.head_dim,), True
        yield "attn_k_norm.weight", (model.head_dim,), True
    yield "attn_output.weight", (hidden, query), True
    if family.optional_biases:
        yield "attn_output.bias", (hidden,), False
    if family.post_norms:
        yield "post_attention_norm.weight", (hidden,), True


def _feed_forward_parts(model: Hyperparameters) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    hidden, wide = model.hidden_size, model.feed_forward
    yield "ffn_norm.weight", (hidden,), True
    shapes = {"ffn_gate": (wide, hidden), "ffn_up": (wide, hidden), "ffn_down": (hidden, wide)}
    for part, shape in shapes.items():
        yield f"{part}.weight", shape, True
        if model.family.optional_biases:
            yield f"{part}.bias", shape[:1], False
    if model.family.post_norms:
        yield "post_ffw_norm.weight", (hidden,), True


def check_tensors(
    file: object, model: Hyperparameters, tensors: Mapping[str, TensorDescription]
) -> list[ExpectedTensor]:
    """The expected tensors that the file has, in graph order.

    Raises ArtifactError for a missing or misshapen one, and for one that the graph would not read: a model
    with parts nobody evaluates is another model.
    """
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


def _check_tensor(file: object, expected: ExpectedTensor, found: TensorDescription) -> None:
    where, shape = f"tensor {expected.name}", tuple(found.shape)
    if shape != expected.shape:
        raise ArtifactError(file, where, f"shape {expected.shape}", f"shape {shape}")
    if expected.name == ROPE_FACTORS and found.type is not TensorType.F32:
        raise ArtifactError(file, where, "type F32", f"type {found.type.name}")
    if not expected.is_matrix and found.type.is_quantised:
        raise ArtifactError(file, where, "type F32, F16 or BF16", f"type {found.type.name}")

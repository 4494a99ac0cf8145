"""Which tensors a draft head has, with their shapes, and the checks of a file against them and against its target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from verispec.artifacts.draft_file import CONFIDENCE, MARKOV, DraftFile
from verispec.errors import ArtifactError
from verispec.models.draft_hyperparameters import DraftHyperparameters
from verispec.models.layer_parts import Shape
from verispec.models.tensors import EMBEDDING, OUTPUT, OUTPUT_NORM, ROPE_FACTORS, layer_tensor

FUSION = "fc.weight"
FUSION_NORM = "fc_norm.weight"
CONTEXT_NORM = "enc.output_norm.weight"
MARKOV_GATE = ("markov_gate.weight", "markov_gate.bias")
CONFIDENCE_BIAS = "conf_proj.bias"


class TargetShape(Protocol):
    """What a head has to know of its target."""

    @property
    def layers(self) -> int: ...
    @property
    def hidden_size(self) -> int: ...
    @property
    def vocabulary(self) -> int: ...


def expected_draft_tensors(draft: DraftHyperparameters, names: Mapping[str, object]) -> dict[str, Shape]:
    """Every tensor that the head's graph reads, in graph order, with its shape; ``names`` are those of the file, which
    say which of the optional ones there are."""
    decoder = draft.decoder
    hidden, vocabulary, rank = decoder.hidden_size, decoder.vocabulary, draft.markov_rank
    optional = {
        EMBEDDING: (vocabulary, hidden),
        FUSION_NORM: (draft.features,),
    }
    shapes = {name: shape for name, shape in optional.items() if name in names}
    shapes[FUSION] = (hidden, draft.features)
    if draft.kind != "eagle3":
        shapes[CONTEXT_NORM] = (hidden,)
    for layer in range(decoder.layers):
        parts = _layer_parts(draft)
        biases = {
            name.replace("weight", "bias"): shape[:1] for name, shape in parts.items() if len(shape) == 2
        }
        parts |= {name: shape for name, shape in biases.items() if layer_tensor(layer, name) in names}
        shapes |= {layer_tensor(layer, name): shape for name, shape in parts.items()}
    shapes[OUTPUT_NORM] = (hidden,)
    if OUTPUT in names or draft.outputs != vocabulary:
        shapes[OUTPUT] = (draft.outputs, hidden)
    if draft.kind == "dspark":
        shapes |= {MARKOV[0]: (vocabulary, rank), MARKOV[1]: (draft.outputs, rank)}
        if MARKOV_GATE[0] in names:
            shapes |= {MARKOV_GATE[0]: (rank, hidden + rank), MARKOV_GATE[1]: (rank,)}
        shapes[CONFIDENCE] = (1, hidden + rank)
        if CONFIDENCE_BIAS in names:
            shapes[CONFIDENCE_BIAS] = (1,)
    return shapes


def _layer_parts(draft: DraftHyperparameters) -> dict[str, Shape]:
    """The parts that a layer of the head must have."""
    decoder = draft.decoder
    hidden, wide = decoder.hidden_size, decoder.feed_forward
    query, key = decoder.heads * decoder.head_dim, decoder.kv_heads * decoder.head_dim
    inputs = 2 * hidden if draft.kind == "eagle3" else hidden
    parts: dict[str, Shape] = {
        "attn_norm.weight": (hidden,),
        "attn_q.weight": (query, inputs),
        "attn_k.weight": (key, inputs),
        "attn_v.weight": (key, inputs),
        "attn_output.weight": (hidden, query),
        "ffn_norm.weight": (hidden,),
        "ffn_gate.weight": (wide, hidden),
        "ffn_up.weight": (wide, hidden),
        "ffn_down.weight": (hidden, wide),
    }
    if draft.kind == "eagle3":
        parts["attn_norm_2.weight"] = (hidden,)
    if decoder.family.qk_norm:
        parts |= {"attn_q_norm.weight": (decoder.head_dim,), "attn_k_norm.weight": (decoder.head_dim,)}
    return parts


def check_draft_tensors(file: DraftFile, draft: DraftHyperparameters) -> list[str]:
    """The names of the tensors that the graph reads, in its order.

    Raises ArtifactError for one that is missing, misshapen or quantised where it cannot be, and for one too many.
    """
    expected = expected_draft_tensors(draft, file.tensors)
    for name, shape in expected.items():
        found = file.tensors.get(name)
        if found is None:
            raise ArtifactError(file.path, f"tensor {name}", f"shape {shape}", "no such tensor")
        if tuple(found.shape) != shape and (1, *found.shape) != shape:
            raise ArtifactError(file.path, f"tensor {name}", f"shape {shape}", f"shape {tuple(found.shape)}")
        if len(shape) == 1 and found.type.is_quantised:
            raise ArtifactError(
                file.path, f"tensor {name}", "type F32, F16 or BF16", f"type {found.type.name}"
            )
    for name in file.tensors:
        if name not in expected and name != ROPE_FACTORS:
            raise ArtifactError(
                file.path, f"tensor {name}", f"only tensors of a {draft.kind} graph", "one more"
            )
    rotation = [ROPE_FACTORS] if ROPE_FACTORS in file.tensors else []
    return [*expected, *rotation]


def check_binding(file: DraftFile, draft: DraftHyperparameters, target: TargetShape) -> None:
    """Whether the head's shapes fit ``target``. Raises ArtifactError."""
    facts = (
        ("hidden size of the target", target.hidden_size, draft.target_hidden_size),
        ("vocabulary of the target", target.vocabulary, draft.decoder.vocabulary),
    )
    for what, width, own in facts:
        if width != own:
            raise ArtifactError(file.path, what, str(width), str(own))
    taps = draft.taps(target.layers)
    if min(taps) < 0 or max(taps) > target.layers:
        raise ArtifactError(
            file.path, "target layers", f"0 .. {target.layers}, by their input", ", ".join(map(str, taps))
        )
    if draft.decoder.hidden_size != target.hidden_size:
        for name in (EMBEDDING, OUTPUT):
            if name not in file.tensors:
                expected = f"one of its own, since its hidden size is not the target's {target.hidden_size}"
                raise ArtifactError(file.path, f"tensor {name}", expected, "none")

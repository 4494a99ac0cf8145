"""The numbers that define a decoder, read from GGUF metadata and checked.

Architecture ids ``llama``, ``qwen2``, ``qwen3``, ``gemma3`` and the hybrids ``qwen35``, ``qwen35moe`` and
``qwen3next``. Key names and defaults are GGUF's, values
that a file leaves out are what llama.cpp takes for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from verispec.errors import ArtifactError
from verispec.models.hybrid import (
    DeltaNet,
    Experts,
    check_sections,
    read_delta_net,
    read_experts,
    recurrent_layers,
)
from verispec.models.metadata import MISSING, WEIGHT_BLOCK, MetadataReader, shorten
from verispec.models.rope import RopeParameters, Scaling

Activation = Literal["swiglu", "geglu"]

LARGEST_VOCABULARY = 1 << 22
LARGEST_CONTEXT = 1 << 24
LARGEST_LAYERS = 1024
LARGEST_HEADS = 1024
LARGEST_HEAD = 512
LARGEST_PREDICTION = 8

GEMMA3_PERIOD = 6
"""Every sixth layer of Gemma 3 attends to everything."""
GEMMA3_27B_LAYERS = 62
"""The one Gemma 3 whose query scale comes from hidden size / heads instead of the head's size."""
GEMMA3_SLIDING_BASE = 10000.0


@dataclass(frozen=True)
class Family:
    """What an architecture id means beyond its numbers."""

    interleaved_rope: bool = False
    """Files of this family hold query and key weights permuted for rotation of neighbouring pairs."""
    activation: Activation = "swiglu"
    qk_norm: bool = False
    post_norms: bool = False
    """Norms after attention and feed-forward as well as before."""
    qkv_bias: bool = False
    optional_biases: bool = False
    scaled_embedding: bool = False
    hybrid: bool = False
    """Gated delta nets between layers of gated attention; a file may end with prediction blocks."""
    routed: bool = False
    """Every feed-forward is a choice of experts and a shared one."""
    grouped_values: bool = False
    """Value heads of one key head stand together, and so do their rates, in one matrix ``ssm_ba``."""

    @property
    def feed_norm(self) -> str:
        """The norm before the feed-forward; files of hybrids name it by what it comes after."""
        return "post_attention_norm.weight" if self.hybrid else "ffn_norm.weight"


FAMILIES: dict[str, Family] = {
    "llama": Family(interleaved_rope=True, optional_biases=True),
    "qwen2": Family(qkv_bias=True),
    "qwen3": Family(qk_norm=True),
    "gemma3": Family(activation="geglu", qk_norm=True, post_norms=True, scaled_embedding=True),
    "qwen35": Family(qk_norm=True, hybrid=True),
    "qwen35moe": Family(qk_norm=True, hybrid=True, routed=True),
    "qwen3next": Family(qk_norm=True, hybrid=True, routed=True, grouped_values=True),
}
QWEN35_FAMILIES = tuple(name for name, family in FAMILIES.items() if family.hybrid)


@dataclass(frozen=True)
class Hyperparameters:
    """One decoder's numbers. Widths are in elements."""

    architecture: str
    family: Family
    vocabulary: int
    trained_context: int
    hidden_size: int
    layers: int
    """Of the trunk; prediction blocks come after them."""
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    """Inner width of the dense feed-forward, or of the shared expert."""
    norm_epsilon: float
    embedding_scale: float
    query_scale: float
    final_softcap: float
    """0 means none."""
    windows: tuple[int, ...]
    """Per layer and prediction block, how many keys a row sees, its own included; 0 means all."""
    rope: RopeParameters
    sliding_rope: RopeParameters
    """Of the layers that have a window."""
    prediction_layers: int = 0
    """Prediction blocks at the end of the file."""
    recurrent: tuple[bool, ...] = ()
    """Per layer and prediction block, whether its mixer is a gated delta net."""
    delta_net: DeltaNet | None = None
    experts: Experts | None = None

    @property
    def blocks(self) -> int:
        """Layers and prediction blocks."""
        return self.layers + self.prediction_layers

    @property
    def state_floats(self) -> int:
        """Floats of one sequence's recurrent state at one position."""
        return sum(self.recurrent) * self.delta_net.state_floats if self.delta_net else 0

    def layer_rope(self, layer: int) -> RopeParameters:
        return self.sliding_rope if self.windows[layer] else self.rope


def read_hyperparameters(file: object, metadata: Mapping[str, object], vocabulary: int) -> Hyperparameters:
    """The hyperparameters in ``metadata`` of a model whose embedding has ``vocabulary`` rows.

    ``file`` is named in errors. Raises ArtifactError for an unknown architecture and for missing, malformed
    or absurd values.
    """
    architecture = metadata.get("general.architecture", MISSING)
    if not isinstance(architecture, str) or architecture not in FAMILIES:
        found = "nothing" if architecture is MISSING else shorten(repr(architecture))
        expected = f"one of {', '.join(FAMILIES)}"
        raise ArtifactError(file, "metadata key general.architecture", expected, found)
    reader = MetadataReader(file, metadata, architecture)
    family = FAMILIES[architecture]
    if not family.routed:
        _check_dense(reader)
    _check_vocabulary(reader, vocabulary)
    common = read_common(reader, family, vocabulary)
    if family.hybrid:
        return _with_delta_nets(reader, common)
    return _with_gemma3(reader, common) if architecture == "gemma3" else common


def _check_dense(reader: MetadataReader) -> None:
    experts = reader.integer("expert_count", 0, 1 << 16, default=0)
    if experts:
        raise reader.refuse("expert_count", "0 (a dense feed-forward)", experts)


def _check_vocabulary(reader: MetadataReader, vocabulary: int) -> None:
    if not 1 <= vocabulary <= LARGEST_VOCABULARY:
        expected = f"1 .. {LARGEST_VOCABULARY} rows"
        raise ArtifactError(reader.file, "tensor token_embd.weight", expected, str(vocabulary))
    declared = reader.integer("vocab_size", 1, LARGEST_VOCABULARY, default=vocabulary)
    if declared != vocabulary:
        raise reader.refuse("vocab_size", f"{vocabulary}, the rows of token_embd.weight", declared)
    tokens = reader.token_count()
    if tokens is not None and tokens != vocabulary:
        expected = f"{vocabulary} tokens, the rows of token_embd.weight"
        raise ArtifactError(reader.file, "metadata key tokenizer.ggml.tokens", expected, str(tokens))


def read_common(reader: MetadataReader, family: Family, vocabulary: int) -> Hyperparameters:
    """What every decoder's file says, draft models' included, of one whose embedding has ``vocabulary`` rows."""
    hidden = reader.width("embedding_length")
    heads = reader.integer("attention.head_count", 1, LARGEST_HEADS)
    kv_heads = reader.integer("attention.head_count_kv", 1, LARGEST_HEADS, default=heads)
    if heads % kv_heads:
        raise reader.refuse("attention.head_count_kv", f"a divisor of head_count {heads}", kv_heads)
    head_dim = _head_dim(reader, hidden, heads)
    predicting = (
        reader.integer("nextn_predict_layers", 0, LARGEST_PREDICTION, default=0) if family.hybrid else 0
    )
    layers = reader.integer("block_count", 1 + predicting, LARGEST_LAYERS) - predicting
    context = reader.integer("context_length", 1, LARGEST_CONTEXT)
    rope = _read_rope(reader, family, head_dim, context)
    return Hyperparameters(
        architecture=reader.architecture,
        family=family,
        vocabulary=vocabulary,
        trained_context=context,
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        feed_forward=_feed_forward_width(reader, family),
        norm_epsilon=reader.number("attention.layer_norm_rms_epsilon", 0.0, 1.0),
        embedding_scale=math.sqrt(hidden) if family.scaled_embedding else 1.0,
        query_scale=1 / math.sqrt(head_dim),
        final_softcap=0.0,
        windows=(0,) * (layers + predicting),
        rope=rope,
        sliding_rope=rope,
        prediction_layers=predicting,
        recurrent=(False,) * (layers + predicting),
    )


def _feed_forward_width(reader: MetadataReader, family: Family) -> int:
    shared = "expert_shared_feed_forward_length"
    return reader.width(shared if family.routed and reader.has(shared) else "feed_forward_length")


def _with_delta_nets(reader: MetadataReader, common: Hyperparameters) -> Hyperparameters:
    """The hybrids' own: which layers recur, the numbers of their delta net and of their experts."""
    check_sections(reader)
    return replace(
        common,
        recurrent=recurrent_layers(reader, common.layers, common.prediction_layers),
        delta_net=read_delta_net(reader, common.family.grouped_values),
        experts=read_experts(reader) if common.family.routed else None,
    )


def _head_dim(reader: MetadataReader, hidden: int, heads: int) -> int:
    if not reader.has("attention.key_length") and hidden % heads:
        raise reader.refuse("attention.head_count", f"a divisor of embedding_length {hidden}", heads)
    head_dim = reader.integer("attention.key_length", 2, LARGEST_HEAD, default=hidden // heads)
    if head_dim % 2 or head_dim * heads % WEIGHT_BLOCK:
        expected = f"an even length, {heads} of which are a multiple of {WEIGHT_BLOCK}"
        raise reader.refuse("attention.key_length", expected, head_dim)
    value_length = reader.integer("attention.value_length", 1, LARGEST_HEAD, default=head_dim)
    if value_length != head_dim:
        raise reader.refuse("attention.value_length", f"{head_dim}, the key length", value_length)
    return head_dim


def _read_rope(reader: MetadataReader, family: Family, head_dim: int, context: int) -> RopeParameters:
    dimensions = reader.integer("rope.dimension_count", 2, head_dim, default=head_dim)
    if dimensions % 2:
        raise reader.refuse("rope.dimension_count", "an even number", dimensions)
    factor = _scaling_factor(reader)
    scaling = reader.text("rope.scaling.type", ("none", "linear", "yarn"), default="linear")
    return RopeParameters(
        dimensions=dimensions,
        base=reader.number("rope.freq_base", 1.001, 1e12, default=10000.0),
        interleaved=family.interleaved_rope,
        scaling="none" if factor == 1.0 and scaling == "linear" else cast(Scaling, scaling),
        factor=factor,
        original_context=reader.integer(
            "rope.scaling.original_context_length", 1, LARGEST_CONTEXT, default=context
        ),
        beta_fast=reader.number("rope.scaling.yarn_beta_fast", 1e-6, 1e6, default=32.0),
        beta_slow=reader.number("rope.scaling.yarn_beta_slow", 1e-6, 1e6, default=1.0),
        extrapolation=reader.number("rope.scaling.yarn_ext_factor", 0.0, 1.0, default=1.0),
        log_multiplier=reader.number("rope.scaling.yarn_log_multiplier", 0.0, 100.0, default=0.0),
        attention_factor=reader.number("rope.scaling.attn_factor", 1e-6, 1e6, default=1.0),
    )


def _scaling_factor(reader: MetadataReader) -> float:
    """The context extension; absent or 0 means 1. Old files name it ``rope.scale_linear``."""
    name = "rope.scaling.factor" if reader.has("rope.scaling.factor") else "rope.scale_linear"
    factor = reader.number(name, 0.0, 1e4, default=0.0)
    if 0 < factor < 1e-4:
        raise reader.refuse(name, "0 or a number in 0.0001 .. 10000", factor)
    return factor or 1.0


def _with_gemma3(reader: MetadataReader, common: Hyperparameters) -> Hyperparameters:
    """Gemma 3's own: two kinds of attention with a rotary base each, its query scale, its soft-cap."""
    window = reader.integer("attention.sliding_window", 0, LARGEST_CONTEXT, default=0)
    base = reader.number("rope.freq_base_swa", 1.001, 1e12, default=GEMMA3_SLIDING_BASE)
    windows = tuple(window if sliding else 0 for sliding in _sliding_layers(reader, common.layers))
    query_width = common.head_dim
    if common.layers == GEMMA3_27B_LAYERS:
        query_width = common.hidden_size // common.heads
    return replace(
        common,
        query_scale=1 / math.sqrt(query_width),
        final_softcap=reader.number("final_logit_softcapping", 0.0, 1e6, default=0.0),
        windows=windows,
        sliding_rope=replace(common.rope, base=base, scaling="none", factor=1.0),
    )


def _sliding_layers(reader: MetadataReader, layers: int) -> list[bool]:
    """Which layers have a window: a flag a layer in the file, or all but every ``period``-th."""
    name = "attention.sliding_window_pattern"
    flags = reader.value(name)
    if isinstance(flags, list):
        return list(reader.flags(name, layers))
    period = reader.integer(name, 1, LARGEST_LAYERS, default=GEMMA3_PERIOD)
    return [layer % period < period - 1 for layer in range(layers)]

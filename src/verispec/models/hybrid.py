"""The numbers that hybrid models add: gated delta nets and routed experts, read from GGUF metadata and checked."""

from __future__ import annotations

from dataclasses import dataclass

from verispec.models.metadata import MISSING, WEIGHT_BLOCK, MetadataReader

LARGEST_STATE = 256  # this and the next four are what the native kernels take; no published model has more
LARGEST_HEADS = 1024
LARGEST_KERNEL = 8
LARGEST_EXPERTS = 1 << 10
LARGEST_USED = 64
LARGEST_INTERVAL = 1024
INTERVAL = 4
"""Every fourth layer attends unless the file says otherwise."""
LENGTH_EPSILON = 1e-6
"""Of the L2 norms of queries and keys; published code fixes it."""


@dataclass(frozen=True)
class DeltaNet:
    """A gated delta net's numbers, the same in every recurrent layer. Key and value heads are equally wide."""

    key_heads: int
    value_heads: int
    head_dim: int
    kernel: int
    """Inputs that the convolution sees, the row's own included."""
    grouped: bool
    """Value heads of one key head stand together; otherwise value head j belongs to key head j % key_heads."""

    @property
    def value_width(self) -> int:
        return self.value_heads * self.head_dim

    @property
    def channels(self) -> int:
        """Of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.head_dim + self.value_width

    @property
    def convolution_floats(self) -> int:
        """Of the inputs that a layer's convolution keeps."""
        return (self.kernel - 1) * self.channels

    @property
    def recurrent_floats(self) -> int:
        """Of a layer's recurrent state."""
        return self.value_width * self.head_dim

    @property
    def state_floats(self) -> int:
        """Of everything one layer keeps for a sequence at one position."""
        return self.convolution_floats + self.recurrent_floats


@dataclass(frozen=True)
class Experts:
    """Routed experts of a feed-forward; the shared expert's width is the model's ``feed_forward``."""

    count: int
    used: int
    """Experts a row goes to."""
    width: int
    """Inner width of one expert."""
    normalise: bool
    """A row's shares are divided by their sum."""


def read_delta_net(reader: MetadataReader, grouped: bool) -> DeltaNet:
    """The ``ssm`` keys. Raises ArtifactError for numbers that do not fit together."""
    head_dim = reader.integer("ssm.state_size", 1, LARGEST_STATE)
    key_heads = reader.integer("ssm.group_count", 1, LARGEST_HEADS)
    value_heads = reader.integer("ssm.time_step_rank", 1, LARGEST_HEADS)
    if value_heads % key_heads:
        raise reader.refuse("ssm.time_step_rank", f"a multiple of group_count {key_heads}", value_heads)
    inner = reader.width("ssm.inner_size")
    if inner != value_heads * head_dim:
        expected = f"{value_heads * head_dim}, {value_heads} value heads of state_size {head_dim}"
        raise reader.refuse("ssm.inner_size", expected, inner)
    return DeltaNet(
        key_heads=key_heads,
        value_heads=value_heads,
        head_dim=head_dim,
        kernel=reader.integer("ssm.conv_kernel", 2, LARGEST_KERNEL),
        grouped=grouped,
    )


def recurrent_layers(reader: MetadataReader, layers: int, prediction_layers: int) -> tuple[bool, ...]:
    """Which layers recur: a flag a layer in the file, or all but every ``full_attention_interval``-th.

    Prediction blocks, last in the tuple, attend.
    """
    blocks = layers + prediction_layers
    name = "attention.recurrent_layers"
    if reader.has(name):
        flags = reader.flags(name, blocks)
        if any(flags[layers:]):
            raise reader.refuse(name, f"no flag for the {prediction_layers} prediction blocks", list(flags))
        return flags
    interval = reader.integer("full_attention_interval", 1, LARGEST_INTERVAL, default=INTERVAL)
    return tuple(layer < layers and (layer + 1) % interval != 0 for layer in range(blocks))


def check_sections(reader: MetadataReader) -> None:
    """Sections say which pairs turn with time, height and width; in text all three are the position."""
    sections = reader.value("rope.dimension_sections")
    if sections is MISSING:
        return
    counts = sections if isinstance(sections, list) else []
    if len(counts) not in (3, 4) or not all(isinstance(count, int) and count >= 0 for count in counts):
        raise reader.refuse("rope.dimension_sections", "3 or 4 counts of pairs", sections)


def read_experts(reader: MetadataReader) -> Experts:
    """The ``expert`` keys. Raises ArtifactError for what no graph computes."""
    count = reader.integer("expert_count", 1, LARGEST_EXPERTS)
    used = reader.integer("expert_used_count", 1, min(count, LARGEST_USED))
    scale = reader.number("expert_weights_scale", 0.0, 1e6, default=0.0)
    if scale not in (0.0, 1.0):
        raise reader.refuse("expert_weights_scale", "1 (shares as they are)", scale)
    if reader.has("expert_feed_forward_length"):
        width = reader.width("expert_feed_forward_length")
    else:
        width = reader.width("feed_forward_length") // used
    if width % WEIGHT_BLOCK:
        raise reader.refuse("expert_feed_forward_length", f"a multiple of {WEIGHT_BLOCK}", width)
    return Experts(count, used, width, normalise=reader.flag("expert_weights_norm", default=True))

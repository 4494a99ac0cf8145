"""How much memory a model with a context needs, stated and checked before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

from verispec.errors import MemoryLimitError
from verispec.models.hyperparameters import Hyperparameters
from verispec.ops.contract import KEY_BLOCK

F16_BYTES = 2
F32_BYTES = 4
PAGE_BYTES = 4096
MIB = 1 << 20
LIMIT_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Where Linux says what a container may use and uses (control groups version 2 and 1)."""


@dataclass(frozen=True)
class PassLimits:
    """What the passes of one backend are at most: positions a sequence, sequences, rows and output rows a
    pass."""

    context: int
    sequences: int
    rows: int
    logit_rows: int
    window: int = 0
    """Recurrent states a sequence keeps between the one before a pass and the live one (the rollback
    window)."""


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes by purpose."""

    weights: int
    cache: int
    workspace: int
    states: int = 0
    """Recurrent states; 0 where no layer recurs."""

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.workspace + self.states

    def describe(self) -> str:
        """One line for people, in MiB."""
        parts = [("weights", self.weights), ("keys and values", self.cache), ("workspace", self.workspace)]
        if self.states:
            parts.append(("recurrent states", self.states))
        return ", ".join(f"{name} {amount / MIB:.0f} MiB" for name, amount in parts)


def kept_positions(model: Hyperparameters, limits: PassLimits) -> tuple[int, ...]:
    """Per layer and prediction block, the positions whose keys and values a sequence keeps; recurrent layers
    keep none.

    A layer with a window keeps a ring: the window and a whole pass, so that rows written and then rejected
    never displace a key that the next row sees.
    """
    blocks = zip(model.windows, model.recurrent, strict=True)
    rings = (0 if recurs else window + limits.rows if window else limits.context for window, recurs in blocks)
    return tuple(_whole_blocks(min(ring, limits.context)) for ring in rings)


def state_bytes(model: Hyperparameters, limits: PassLimits) -> int:
    """What recurrent layers keep: of every sequence the state before a pass, the live one, and the window
    between them."""
    # whole pages, so that the memory of one can be given back
    place = -(-model.state_floats * F32_BYTES // PAGE_BYTES) * PAGE_BYTES
    return limits.sequences * (limits.window + 2) * place


def memory_need(model: Hyperparameters, limits: PassLimits, weight_bytes: int) -> MemoryNeed:
    """What ``model`` needs beside ``weight_bytes`` of packed weights."""
    position = 2 * model.kv_heads * model.head_dim * F16_BYTES
    cache = sum(kept_positions(model, limits)) * position * limits.sequences
    return MemoryNeed(weight_bytes, cache, _workspace(model, limits), state_bytes(model, limits))


def _workspace(model: Hyperparameters, limits: PassLimits) -> int:
    """Everything passes hold at once, and the rotation tables; a prediction block has its own of both."""
    columns = 4 * model.hidden_size + _mixer_width(model) + _feed_forward_width(model)
    logits = limits.logit_rows * model.vocabulary
    tables = {model.layer_rope(block) for block in range(model.blocks) if not model.recurrent[block]}
    rotations = len(tables) * limits.context * model.rope.dimensions
    floats = limits.rows * columns + logits + rotations
    if model.prediction_layers:
        joined = 4 * model.hidden_size
        floats += limits.rows * (columns + joined) + model.vocabulary + rotations
    return floats * F32_BYTES


def _mixer_width(model: Hyperparameters) -> int:
    """Columns of everything the widest mixer holds for a row."""
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    attention = (6 if model.family.hybrid else 2) * query + 2 * key
    delta = model.delta_net
    return max(attention, 2 * delta.channels + 5 * delta.value_width if delta is not None else 0)


def _feed_forward_width(model: Hyperparameters) -> int:
    """Columns of everything a feed-forward holds for a row."""
    experts = model.experts
    if experts is None:
        return 3 * model.feed_forward
    routed = experts.used * (3 * experts.width + model.hidden_size) + experts.count + 2 * experts.used
    return 3 * model.feed_forward + 2 * model.hidden_size + routed


def _whole_blocks(positions: int) -> int:
    return -(-positions // KEY_BLOCK) * KEY_BLOCK


def available_memory() -> int:
    """Bytes this process can still take: the machine's, or what its control group leaves if that is less."""
    available = int(psutil.virtual_memory().available)
    for limit_file, usage_file in LIMIT_FILES:
        limit, usage = _number_in(limit_file), _number_in(usage_file)
        if limit is not None and usage is not None:
            available = min(available, max(0, limit - usage))
    return available


def _number_in(path: str) -> int | None:
    try:
        text = Path(path).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def check_memory(need: MemoryNeed, limits: PassLimits, available: int) -> None:
    """Raises MemoryLimitError, with all numbers, when ``need`` exceeds ``available`` bytes."""
    if need.total <= available:
        return
    raise MemoryLimitError(
        f"memory: expected at most {available / MIB:.0f} MiB (what is available), found a need of "
        f"{need.total / MIB:.0f} MiB ({need.describe()}) for a context of {limits.context} positions and "
        f"{limits.sequences} sequences; a smaller ctx needs less"
        f"{', and so do fewer states kept (spec_mtp_recurrent_snapshots)' if need.states else ''}"
    )

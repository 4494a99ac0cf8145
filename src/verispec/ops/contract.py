"""The operations a model graph is written against: what each computes, and what keeps its rows independent.

A graph runs inside one pass. The pass owns its inputs (the token, position and sequence slot of each of its
R rows, and which H of them want an output), so operations do not take them as arguments: an eager
implementation has them at hand, a recording one binds them at every replay. A tensor is an opaque handle of
``[rows, width]`` float32. Weights are addressed by their name in the model file, caches by layer index and
rotations by their specification, so a graph holds no device state and one graph serves every implementation.

Row invariance (contract C1) is part of each operation's meaning: row i of a result over R rows equals, bit
for bit, the result over row i alone, for any number of threads. The rule that achieves it stands under each
operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Tensor = TypeVar("Tensor")

KEY_BLOCK = 16
"""Keys per block of the cache; blocks are aligned by absolute position: block b holds positions 16b .. 16b +
15."""

QUANT_BLOCK = 32
"""Columns that share one activation scale in a quantised linear."""

AFTER_FINAL_NORM = -1
"""The tap after the final norm. Tap i in 0 .. layers - 1 is the residual stream entering layer i, and tap
``layers`` is what leaves the last layer, before the final norm."""


@dataclass(frozen=True)
class RopeSpec:
    """A rotary embedding. Pair i of a head turns by the angle ``position * inverse_frequencies[i]``.

    The product is one float64 multiplication; its cosine and sine are taken in float64, multiplied by
    ``magnitude`` in float64 and rounded once to float32. Scaling schemes are already folded into the
    frequencies.
    """

    inverse_frequencies: tuple[float, ...]
    magnitude: float
    interleaved: bool
    """Pairs are (2i, 2i + 1) when true, (i, i + pairs) otherwise; dimensions past 2 * pairs stay as they
    are."""

    @property
    def pairs(self) -> int:
        return len(self.inverse_frequencies)


@dataclass(frozen=True)
class AttentionSpec:
    """One layer's attention, causal unless ``block``: ``heads`` query heads share ``kv_heads`` key and value heads in
    order."""

    layer: int
    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    """Multiplies the query before the scores."""
    window: int = 0
    """Keys visible to a row, its own included; 0 means all."""
    softcap: float = 0.0
    """Scores become softcap * tanh(score / softcap); 0 means none."""
    first: int = 0
    """Positions below it hold nothing and are never seen."""
    block: bool = False
    """Not causal within the pass: a row sees every row of its sequence in the pass, and all keys before them. Only
    without a window."""


@dataclass(frozen=True)
class ConvolutionSpec:
    """One layer's causal depthwise convolution over the last ``kernel`` inputs of every channel."""

    layer: int
    channels: int
    kernel: int


@dataclass(frozen=True)
class DeltaSpec:
    """One layer's gated delta rule: ``value_heads`` states of ``[key_dim, value_dim]`` float32 each."""

    layer: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    epsilon: float
    """Of the L2 norms of queries and keys: ``x * rsqrt(sum(x^2) + epsilon)``."""
    grouped: bool = False
    """Value head j reads the query and key of head ``j // (value_heads / key_heads)`` when true (qwen3next
    files), of head ``j % key_heads`` otherwise (qwen35 files, whose value heads are reordered)."""

    @property
    def key_width(self) -> int:
        """Columns of all queries, and of all keys."""
        return self.key_heads * self.key_dim

    @property
    def value_width(self) -> int:
        return self.value_heads * self.value_dim

    @property
    def key_head_of(self) -> tuple[int, ...]:
        """The key head that each value head reads."""
        heads, shared = range(self.value_heads), self.value_heads // self.key_heads
        return tuple(j // shared if self.grouped else j % self.key_heads for j in heads)


class Operations(ABC, Generic[Tensor]):
    """Everything a decoder graph may ask for. ``R`` is the pass's rows, ``H`` its output rows."""

    @abstractmethod
    def embedding(self, table: str, scale: float) -> Tensor:
        """``[R, inputs]``: row ``token`` of the matrix, dequantised to float32, times ``scale`` (one
        multiplication).

        Rows are independent by nature.
        """

    @abstractmethod
    def hidden_input(self, width: int) -> Tensor:
        """``[R, width]``: the hidden states given to the pass with its rows, one a row, as they are."""

    @abstractmethod
    def linear(
        self, x: Tensor, weights: Sequence[str], biases: Sequence[str | None] = ()
    ) -> tuple[Tensor, ...]:
        """``x @ W.T + b`` for every matrix ``[outputs, inputs]``, each ``[rows, outputs]``; they share one
        reading of x.

        Float weights multiply x as it is. Quantised weights multiply x rounded to int8 by blocks of 32
        columns: ``amax`` = greatest magnitude, ``q = rne(x * (127 / amax))``, scale ``amax / 127``, both
        divisions in float32 (an all-zero block has scale 0). Integer dot products are exact; block results
        are joined in column order. Rule: a row's scales come from that row alone, and neither tile size,
        thread nor the number of rows changes the order of additions.
        """

    @abstractmethod
    def rms_norm(self, x: Tensor, weight: str, epsilon: float, groups: int = 1) -> Tensor:
        """``x / sqrt(mean(x^2) + epsilon) * weight`` over each of ``groups`` equal parts of a row (heads,
        for q and k).

        ``weight`` has width / groups values. Rule: the sum of squares runs over sixteen fixed lanes and a
        fixed tree.
        """

    @abstractmethod
    def rope(self, x: Tensor, heads: int, spec: RopeSpec) -> Tensor:
        """Rotates the pairs of every head of ``[R, heads * head_dim]`` by the row's position.

        ``(a, b) -> (a cos - b sin, a sin + b cos)`` in float32. Rule: angles depend on the row's position
        alone. The handle given may be reused for the result; the graph never reads it again.
        """

    @abstractmethod
    def attention(self, q: Tensor, k: Tensor, v: Tensor, spec: AttentionSpec) -> Tensor:
        """Stores the pass's k and v in the layer's cache, then attends: ``[R, heads * head_dim]``.

        q is ``[R, heads * head_dim]``, k and v ``[R, kv_heads * head_dim]``. K and V are rounded to float16
        before any use, this pass's included. A row at position p sees the keys of its own sequence at
        positions max(first, p - window + 1) .. p. Rule: online softmax over key blocks aligned by absolute
        position, in ascending order; masked keys take no part, not even as zeros; a chain's rows are stored
        before any is attended.

        With ``spec.block`` it sees positions first .. e, where e is the greatest position that its sequence has in the
        pass. A result then depends on all rows of its own sequence in the pass, and still on nothing else.
        """

    @abstractmethod
    def store(self, k: Tensor, v: Tensor, spec: AttentionSpec) -> None:
        """Stores the pass's k and v in the layer's cache as ``attention`` does, for later passes to attend to."""

    @abstractmethod
    def convolution(self, x: Tensor, weight: str, spec: ConvolutionSpec) -> Tensor:
        """Causal depthwise convolution over the sequence, then SiLU: ``[R, channels]``.

        Column c of the row at position p is ``silu(sum of weight[c, i] * x[p - kernel + 1 + i, c])`` over i in 0 ..
        kernel - 1 (oldest tap first, no bias); what lies before the sequence is 0. ``weight`` is ``[channels,
        kernel]``. The state that a row leaves behind is its last kernel - 1 inputs. Rule: the products of a row are
        added in tap order, whether an input came with this pass or from the state.
        """

    @abstractmethod
    def delta_rule(
        self, qkv: Tensor, beta: Tensor, alpha: Tensor, decay: str, dt_bias: str, spec: DeltaSpec
    ) -> Tensor:
        """The gated delta rule (Yang et al., "Gated Delta Networks"): ``[R, value_heads * value_dim]``.

        qkv is ``[R, 2 * key_heads * key_dim + value_heads * value_dim]``, beta and alpha ``[R, value_heads]`` as
        projected; ``decay`` holds -exp(A_log) and ``dt_bias`` its addend, one value a value head. Queries and keys
        are L2-normalised per head and queries multiplied by ``key_dim ** -0.5``. Per value head, with its state
        S ``[key_dim, value_dim]`` (zeros before position 0), ``b = sigmoid(beta)`` and
        ``a = exp(decay * softplus(alpha + dt_bias))``::

            S <- S * a;  S <- S + k (b (v - S^T k))^T;  result = S^T q

        Rule: a prompt too is taken row by row, so a row's operations are the same in any company; S is float32
        between rows, its sums over key_dim run in ascending order, and value columns are independent.
        """

    @abstractmethod
    def sigmoid_gate(self, x: Tensor, gate: Tensor) -> Tensor:
        """``x`` (``[R, width]``) with column c times ``sigmoid(gate[c // (width / gates)])``; gate is ``[R, gates]``.

        ``gates`` divides the width.
        """

    @abstractmethod
    def split(self, x: Tensor, widths: Sequence[int], groups: int = 1) -> tuple[Tensor, ...]:
        """Cuts each of ``groups`` equal parts of a row into ``widths``; piece i of every part together is result i.

        Result i is ``[R, groups * widths[i]]``. The widths fill a part exactly.
        """

    @abstractmethod
    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        """The parts' columns one after another."""

    @abstractmethod
    def route(self, logits: Tensor, used: int, normalise: bool) -> tuple[Tensor, Tensor]:
        """The ``used`` experts with the greatest logits and the shares of their results, both ``[R, used]``.

        Ids come in descending order of logits, the lowest id first on a tie, as whole numbers in float32. Shares
        are the softmax over ALL of ``logits`` (``[R, experts]``), divided by the sum of the chosen ones when
        ``normalise``. Rule: the softmax's and the chosen ones' sums run in a fixed order.
        """

    @abstractmethod
    def expert_linear(self, x: Tensor, ids: Tensor, weight: str) -> Tensor:
        """``linear`` by each row's own experts: ``[R, used * outputs]``, slot s by expert ``ids[:, s]``.

        ``weight`` is ``[experts, outputs, inputs]``, x ``[R, inputs]`` (every slot reads it) or
        ``[R, used * inputs]`` (slot s reads its own part). Rule: as ``linear``; rows that share an expert do not
        change each other's sums.
        """

    @abstractmethod
    def expert_sum(self, x: Tensor, shares: Tensor) -> Tensor:
        """``[R, used * width]`` to ``[R, width]``: the slots times their shares, added by fma in slot order, from 0."""

    @abstractmethod
    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        """``gate * sigmoid(gate) * up``, element by element."""

    @abstractmethod
    def geglu(self, gate: Tensor, up: Tensor) -> Tensor:
        """``gelu(gate) * up`` with gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))."""

    @abstractmethod
    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """``a + b`` in float32."""

    @abstractmethod
    def scale(self, x: Tensor, factor: float) -> Tensor:
        """``x * factor``, the factor rounded to float32 first."""

    @abstractmethod
    def select_outputs(self, x: Tensor) -> Tensor:
        """``[H, width]``: the rows whose output the caller wants, in the caller's order. H is at least 1."""

    @abstractmethod
    def tap(self, x: Tensor, layer: int) -> None:
        """Keeps ``x`` (``[R, width]``, or ``[H, width]`` after ``select_outputs``) as hidden state ``layer`` of the
        pass's result, with as many rows as ``x`` has."""

    @abstractmethod
    def output_head(self, x: Tensor, weight: str, softcap: float = 0.0, bias: str | None = None) -> None:
        """Ends the pass: logits of the selected rows ``x`` (``[H, width]``) over the whole vocabulary.

        The result holds the greatest logit's token per row, the lowest id on a tie, always taken BEFORE the
        soft-cap (which may merge neighbours in float32), so it is the same whether or not logits are asked
        for. Logits, when asked for, are ``softcap * tanh(logit / softcap)`` if softcap is not 0.
        """

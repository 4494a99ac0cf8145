"""The decoder graph: embedding, layers of mixer and feed-forward around a residual stream, norm, output head.

Written once against the operation contract; Llama, Qwen 2, Qwen 3, Gemma 3 and the Qwen3.5 hybrids differ
only in the parts they are made of. A mixer is anything that gives each row something computed from its
predecessors, a feed-forward anything that works row by row: other kinds join by satisfying the two protocols
of ``layer``.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from verispec.models.hyperparameters import Hyperparameters
from verispec.models.layer import Layer, build_layer
from verispec.models.rope import rope_spec
from verispec.models.tensors import EMBEDDING, OUTPUT, OUTPUT_NORM
from verispec.ops.contract import AFTER_FINAL_NORM, Operations, RopeSpec, Tensor


@dataclass(frozen=True)
class Decoder:
    """A whole model's graph. Holds names and numbers only, so it can be run against any implementation."""

    embedding_scale: float
    epsilon: float
    layers: tuple[Layer, ...]
    head: str
    softcap: float

    @property
    def taps(self) -> tuple[int, ...]:
        """Every hidden state that ``run`` can keep."""
        return (AFTER_FINAL_NORM, *range(len(self.layers) + 1))

    def run(self, ops: Operations[Tensor], outputs: int, taps: Set[int] = frozenset()) -> None:
        """Evaluates the pass of ``ops``, of which ``outputs`` rows want an output, keeping the hidden states
        ``taps``.

        Rows without an output are dropped as soon as nothing needs them: after the last layer's mixing.
        """
        last = len(self.layers)
        whole = bool(taps & {last, AFTER_FINAL_NORM})
        x = ops.embedding(EMBEDDING, self.embedding_scale)
        for index, layer in enumerate(self.layers):
            if index in taps:
                ops.tap(x, index)
            mixed = layer.mix(ops, x)
            if index == last - 1 and not whole:
                if not outputs:
                    return
                mixed, x = ops.select_outputs(mixed), ops.select_outputs(x)
            x = layer.finish(ops, mixed, x)
        if last in taps:
            ops.tap(x, last)
        x = ops.rms_norm(x, OUTPUT_NORM, self.epsilon)
        if AFTER_FINAL_NORM in taps:
            ops.tap(x, AFTER_FINAL_NORM)
        if outputs:
            ops.output_head(ops.select_outputs(x) if whole else x, self.head, self.softcap)


def build_decoder(model: Hyperparameters, tensors: Set[str], rope_factors: Sequence[float] = ()) -> Decoder:
    """The graph of ``model``. ``tensors`` are the file's tensor names, ``rope_factors`` the values of
    ``rope_freqs``.

    The factors belong to layers that attend to everything; a sliding layer's rotation has none.
    """
    full, sliding = rope_spec(model.rope, rope_factors), rope_spec(model.sliding_rope)

    def rope(index: int) -> RopeSpec:
        return sliding if model.windows[index] else full

    return Decoder(
        embedding_scale=model.embedding_scale,
        epsilon=model.norm_epsilon,
        layers=tuple(build_layer(model, index, rope(index), tensors) for index in range(model.layers)),
        head=OUTPUT if OUTPUT in tensors else EMBEDDING,
        softcap=model.final_softcap,
    )

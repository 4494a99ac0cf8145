"""Draft heads beside a native model: their weights, caches and passes, and what they take of the target's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from verispec import _native
from verispec.artifacts.draft_file import DraftFile
from verispec.errors import ArtifactError, UnsupportedError
from verispec.models.draft_hyperparameters import DraftHyperparameters
from verispec.models.draft_tensors import check_binding, check_draft_tensors
from verispec.models.hyperparameters import Hyperparameters
from verispec.models.memory import (
    MemoryNeed,
    PassLimits,
    available_memory,
    check_memory,
    kept_positions,
    memory_need,
)
from verispec.models.tensors import EMBEDDING, OUTPUT, ROPE_FACTORS
from verispec.ops.native import Graph, NativePasses
from verispec.ops.native_weights import NativeWeights, load_weights, packed_bytes

TARGET = "target "
"""Before the names of matrices that are the target's."""


@dataclass(frozen=True)
class TargetParts:
    """What a head shares with its target. ``head`` is the name of the target's output matrix."""

    model: Hyperparameters
    weights: NativeWeights
    head: str
    limits: PassLimits
    pool: _native.ThreadPool
    isa: str


@dataclass(frozen=True)
class HeadParts:
    """A head that is loaded: what its graph is built from and recorded with."""

    key: str
    """The digest of its file."""
    draft: DraftHyperparameters
    tensors: frozenset[str]
    weights: NativeWeights
    cache: _native.KvCache
    embedding: str
    head: str
    rope_factors: tuple[float, ...]
    target: TargetParts

    def passes(self, run: Graph, workspace: _native.Workspace) -> NativePasses:
        """Programs of ``run``; those of one workspace do not keep each other's results."""
        target = self.target
        return NativePasses(run, self.weights, self.cache, target.pool, target.isa, workspace=workspace)


def load_head(file: DraftFile, draft: DraftHyperparameters, target: TargetParts) -> HeadParts:
    """Checks the head against the target and the memory there is, then loads it.

    Raises ArtifactError, UnsupportedError and MemoryLimitError.
    """
    names = check_draft_tensors(file, draft)
    check_binding(file, draft, target.model)
    if EMBEDDING not in names and target.model.embedding_scale != 1.0:
        raise UnsupportedError(
            "scaled-target-embedding",
            f"{file.path}: expected an embedding of its own for a target that scales its own, found none",
            "Use a head that carries one",
        )
    limits = head_limits(draft, target.limits)
    need = head_need(file, draft, names, limits)
    check_memory(need, limits, available_memory())
    weights = load_weights(file, names, target.pool)
    borrowed = {EMBEDDING: EMBEDDING, OUTPUT: target.head}
    for own, others in borrowed.items():
        if own not in names:
            weights.matrices[TARGET + own] = target.weights.matrices[others]
    shape = draft.decoder.kv_heads, draft.decoder.head_dim
    layers = [(*shape, kept) for kept in kept_positions(draft.decoder, limits)]
    return HeadParts(
        key=file.sha256(),
        draft=draft,
        tensors=frozenset(names),
        weights=weights,
        cache=_native.KvCache(limits.sequences, limits.context, layers),
        embedding=EMBEDDING if EMBEDDING in names else TARGET + EMBEDDING,
        head=OUTPUT if OUTPUT in names else TARGET + OUTPUT,
        rope_factors=_rope_factors(file, names),
        target=target,
    )


def head_limits(draft: DraftHyperparameters, target: PassLimits) -> PassLimits:
    """The head's own: no position behind its context or the target's, and a sequence more, which is nobody's."""
    context = min(draft.decoder.trained_context, target.context)
    return PassLimits(context, target.sequences + 1, min(target.rows, context), max(1, draft.width))


def head_need(
    file: DraftFile, draft: DraftHyperparameters, names: Sequence[str], limits: PassLimits
) -> MemoryNeed:
    """Bytes that the head takes beside its target."""
    need = memory_need(draft.decoder, limits, packed_bytes(file, names))
    features = limits.rows * (draft.features + 2 * draft.decoder.hidden_size) * 4
    return MemoryNeed(need.weights, need.cache, need.workspace + features)


def _rope_factors(file: DraftFile, names: Sequence[str]) -> tuple[float, ...]:
    if ROPE_FACTORS not in names:
        return ()
    factors = file.data(ROPE_FACTORS).view("<f4").tolist()
    if not all(np.isfinite(factor) and factor > 0 for factor in factors):
        raise ArtifactError(file.path, f"tensor {ROPE_FACTORS}", "positive factors", str(factors))
    return tuple(factors)

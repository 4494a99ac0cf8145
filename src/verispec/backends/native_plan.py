"""What loading a model natively would take: the file checked, its memory added up, nothing allocated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import psutil

from verispec.artifacts.model_file import ModelFile, open_model_file
from verispec.artifacts.shipped_drafts import shipped_bindings
from verispec.backends.contract import DEFAULT_CONTEXT, Capabilities
from verispec.backends.native_prefixes import PREFIX_BLOCK
from verispec.backends.slots import Ring
from verispec.errors import ArtifactError, OptionError
from verispec.models.decoder import Decoder, build_decoder
from verispec.models.hyperparameters import Hyperparameters, read_hyperparameters
from verispec.models.memory import MemoryNeed, PassLimits, kept_positions, memory_need
from verispec.models.prediction import PredictionBlock, build_prediction
from verispec.models.tensors import EMBEDDING, ROPE_FACTORS, check_tensors
from verispec.ops.native_weights import packed_bytes
from verispec.text.tokenizer import Tokenizer

MAX_THREADS = 256
MAX_SEQUENCES = 1024
MAX_ROWS = 128
DEFAULT_SNAPSHOTS = 7
MAX_SNAPSHOTS = 64
MAX_STATES = 1 << 16
LOGIT_ROWS = 32
"""Output rows of one pass when logits are wanted; more run as several passes, to bound the workspace."""


@dataclass(frozen=True)
class ModelPlan:
    """A checked file and what loading it would take; nothing is allocated yet."""

    file: ModelFile
    model: Hyperparameters
    tensors: tuple[str, ...]
    limits: PassLimits
    need: MemoryNeed

    @cached_property
    def own_draft(self) -> str:
        """Name of the draft artifact that comes with the package for this model; empty where there is none."""
        model = self.model
        shape = (model.architecture, model.layers, model.hidden_size, model.vocabulary)
        for name, bound in shipped_bindings().items():
            if (bound.architecture, bound.layers, bound.hidden_size, bound.vocabulary) != shape:
                continue
            if Tokenizer.from_gguf(self.file.metadata, str(self.file.path)).digest == bound.tokenizer_sha256:
                return name
        return ""


def plan_model(
    path: str | Path, context: int | None = None, sequences: int = 4, snapshots: int | None = None
) -> ModelPlan:
    """Reads and checks the file at ``path``: hyperparameters, every tensor, the memory it needs.

    ``context`` (positions a sequence can hold) is by default 4096 or what the model was trained on, if that
    is less. ``snapshots`` is the rollback window of a recurrent model (S: states kept before the live one), by default
    7. Raises ArtifactError for a bad file, OptionError for an option out of range or without a meaning for the model.
    """
    file = open_model_file(path)
    if EMBEDDING not in file.tensors or len(file.tensors[EMBEDDING].shape) != 2:
        raise ArtifactError(path, f"tensor {EMBEDDING}", "a matrix", "none")
    model = read_hyperparameters(path, file.metadata, file.tensors[EMBEDDING].shape[0])
    names = tuple(tensor.name for tensor in check_tensors(path, model, file.tensors))
    if context is None:
        context = min(DEFAULT_CONTEXT, model.trained_context)
    if not 1 <= context <= model.trained_context:
        limit = f"1 to {model.trained_context} positions, what the model was trained on"
        raise OptionError(f"ctx: expected {limit}, found {context}")
    if not 1 <= sequences <= MAX_SEQUENCES:
        raise OptionError(f"sequences: expected 1 to {MAX_SEQUENCES}, found {sequences}")
    window = _window(model, snapshots)
    if any(model.recurrent) and sequences * (window + 2) > MAX_STATES:
        raise OptionError(
            f"sequences, snapshots: expected at most {MAX_STATES} recurrent states in all, found {sequences} sequences "
            f"of {window + 2}"
        )
    limits = PassLimits(context, sequences, min(MAX_ROWS, context), LOGIT_ROWS, window)
    return ModelPlan(file, model, names, limits, memory_need(model, limits, packed_bytes(file, names)))


def _window(model: Hyperparameters, snapshots: int | None) -> int:
    if not any(model.recurrent):
        if snapshots is not None:
            raise OptionError(
                f"snapshots: not read by a model of architecture {model.architecture}, which has no recurrent state"
            )
        return 0
    if snapshots is None:
        return DEFAULT_SNAPSHOTS
    if not 0 <= snapshots <= MAX_SNAPSHOTS:
        raise OptionError(f"snapshots: expected 0 to {MAX_SNAPSHOTS}, found {snapshots}")
    return snapshots


def default_threads() -> int:
    """The physical cores this process may run on."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed))


def plan_decoder(plan: ModelPlan) -> Decoder:
    """The graph of a checked file. Raises ArtifactError for rotation factors that make no sense."""
    factors: Sequence[float] = ()
    if ROPE_FACTORS in plan.tensors:
        factors = plan.file.data(ROPE_FACTORS).view("<f4").tolist()
        if not all(np.isfinite(f) and f > 0 for f in factors):
            raise ArtifactError(plan.file.path, f"tensor {ROPE_FACTORS}", "positive factors", str(factors))
    return build_decoder(plan.model, frozenset(plan.tensors), factors)


def plan_prediction(plan: ModelPlan) -> PredictionBlock:
    """The graph of the first prediction block, which is applied again and again however many a file has."""
    return build_prediction(plan.model, frozenset(plan.tensors))


def rings(plan: ModelPlan) -> list[Ring]:
    """The layers that keep fewer positions than the context has."""
    kept = kept_positions(plan.model, plan.limits)
    windows = zip(kept, plan.model.windows, strict=True)
    return [Ring(positions, window) for positions, window in windows if 0 < positions < plan.limits.context]


def planned_capabilities(plan: ModelPlan) -> Capabilities:
    """What the backend of ``plan`` will be able to do, known before anything is allocated."""
    model, limits = plan.model, plan.limits
    recurrent = any(model.recurrent)
    rollback = min((ring.kept - ring.window for ring in rings(plan)), default=limits.context)
    return Capabilities(
        exactness="exact",
        architecture=model.architecture,
        vocabulary=model.vocabulary,
        hidden_size=model.hidden_size,
        layers=model.layers,
        context=limits.context,
        sequences=limits.sequences,
        max_rows=limits.rows,
        rollback=min(rollback, limits.window) if recurrent else rollback,
        recurrent=recurrent,
        window=limits.window,
        taps=plan_decoder(plan).taps,
        prediction_layers=model.prediction_layers,
        draft_heads=True,
        own_draft=plan.own_draft,
        prefix_block=PREFIX_BLOCK,
    )

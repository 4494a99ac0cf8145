"""The native backend: a GGUF model on this machine's CPU, exact by contract C1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from verispec import _native
from verispec.artifacts.draft_file import DraftFile
from verispec.backends.contract import BackendAdapter, Capabilities, Checkpoint, Evaluation, PrefixBlock, Row
from verispec.backends.draft_block import DraftBlock
from verispec.backends.native_draft import TargetParts
from verispec.backends.native_heads import NativeHeads
from verispec.backends.native_plan import (
    LOGIT_ROWS,
    MAX_THREADS,
    ModelPlan,
    default_threads,
    plan_decoder,
    plan_model,
    plan_prediction,
    planned_capabilities,
    rings,
)
from verispec.backends.native_prediction import (
    NativePredictionHeads,
    NativePredictionPasses,
    PredictionEntries,
)
from verispec.backends.native_prefixes import PREFIX_BLOCK, NativePrefixes
from verispec.backends.native_states import NativeStates
from verispec.backends.prediction_block import PredictionBlock
from verispec.backends.row_check import check_call, check_rows
from verispec.backends.slots import Slots, SlotState
from verispec.backends.state_window import StateColumns
from verispec.errors import BackendError, OptionError
from verispec.models.draft_hyperparameters import DraftHyperparameters
from verispec.models.memory import MemoryNeed, available_memory, check_memory, kept_positions
from verispec.ops.native import NativePasses, PassKind
from verispec.ops.native_weights import load_weights

NO_COLUMNS = StateColumns([], [])
"""For a model without recurrent layers."""


class NativeBackend(BackendAdapter):
    """One model, its caches and its recorded passes."""

    def __init__(self, plan: ModelPlan, threads: int | None = None, isa: str | None = None) -> None:
        threads = default_threads() if threads is None else threads
        if not 1 <= threads <= MAX_THREADS:
            raise OptionError(f"threads: expected 1 to {MAX_THREADS}, found {threads}")
        isa = _resolve_isa(isa)
        decoder = plan_decoder(plan)
        check_memory(plan.need, plan.limits, available_memory())
        model, limits = plan.model, plan.limits
        pool = _native.ThreadPool(threads)
        weights = load_weights(plan.file, plan.tensors, pool)
        kept = kept_positions(model, limits)
        layers = [
            (model.kv_heads, model.head_dim, positions) if positions else (0, 0, 0) for positions in kept
        ]
        self._cache = _native.KvCache(limits.sequences, limits.context, layers)
        self._isa = isa
        self._states = NativeStates(model, limits, PREFIX_BLOCK) if any(model.recurrent) else None
        states = None if self._states is None else self._states.cache
        self._passes: NativePasses | None = NativePasses(
            decoder.run, weights, self._cache, pool, isa, states=states
        )
        self._slots = Slots(limits.sequences, rings(plan))
        self._plan = plan
        self._threads = threads
        self._capabilities = planned_capabilities(plan)
        self._drafts = NativeHeads(TargetParts(model, weights, decoder.head, limits, pool, isa))
        self._prediction: NativePredictionHeads | None = None
        if model.prediction_layers:
            passes = NativePredictionPasses(
                plan_prediction(plan), weights, self._cache, pool, isa, limits.rows
            )
            self._prediction = NativePredictionHeads(passes, plan.file, model.vocabulary, pool)

    @classmethod
    def load(
        cls,
        path: str | Path,
        ctx: int | None = None,
        threads: int | None = None,
        sequences: int = 4,
        snapshots: int | None = None,
    ) -> NativeBackend:
        """Loads the model at ``path``; see ``plan_model``. ``threads`` defaults to the physical cores."""
        return cls(plan_model(path, ctx, sequences, snapshots), threads)

    @property
    def name(self) -> str:
        return "native"

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def memory(self) -> MemoryNeed:
        """What the model was found to need when it was loaded."""
        return self._plan.need

    @property
    def threads(self) -> int:
        return self._threads

    def open_sequence(self) -> int:
        self._check_open()
        sequence = self._slots.open()
        if self._states is not None:
            self._states.open(sequence)
        return sequence

    def close_sequence(self, sequence: int) -> None:
        self._slots.close(sequence)
        if self._states is not None:
            self._states.close(sequence)
        if self._prediction is not None:
            self._prediction.entries.forget(sequence)
        if not self._cache.closed:
            self._cache.discard_slot(sequence)
            self._drafts.forget(sequence)

    def length(self, sequence: int) -> int:
        return self._slots.state(sequence).length

    def oldest_length(self, sequence: int) -> int:
        oldest = self._slots.oldest_length(sequence)
        if self._states is None:
            return oldest
        return max(oldest, self._states.window(sequence).oldest(self.length(sequence)))

    def holds(self, sequence: int, length: int) -> bool:
        if self._states is not None and not self._states.window(sequence).holds(length):
            return False
        return length == 0 or length >= self._slots.oldest_length(sequence)

    def keep_states(self, sequence: int, states: int, block_ends: bool = False) -> None:
        if self._states is not None:
            self._slots.state(sequence)
            self._states.keep(sequence, states, block_ends)

    def evaluate(
        self, rows: Sequence[Row], outputs: Sequence[int], want_logits: bool, taps: Sequence[int] = ()
    ) -> Evaluation:
        check_call(len(rows), outputs, taps, self._capabilities.taps)
        lengths = {row.sequence: self._slots.state(row.sequence).length for row in rows}
        ends = check_rows(rows, lengths, self._capabilities.vocabulary, self._capabilities.context)
        for sequence in lengths:
            self._slots.begin(sequence)
        columns = NO_COLUMNS if self._states is None else self._states.advance(rows, lengths, outputs)
        for sequence, end in ends.items():
            self._slots.wrote(sequence, end)
            if self._prediction is not None:
                self._prediction.entries.overwritten(sequence, lengths[sequence])
            self._drafts.overwritten(sequence, lengths[sequence])
        kept = frozenset(taps)
        parts = self._split(len(rows), outputs, want_logits)
        try:
            if len(parts) == 1:
                return self._run(rows, columns, outputs, want_logits, kept)
            return self._run_parts(rows, columns, outputs, want_logits, kept, parts)
        except BaseException:
            if self._states is not None:
                self._states.failed(lengths)
            raise

    def _split(self, rows: int, outputs: Sequence[int], want_logits: bool) -> list[tuple[int, int]]:
        """Row ranges of the passes that evaluate ``rows`` rows."""
        most = self._capabilities.max_rows
        if want_logits and len(outputs) > LOGIT_ROWS:
            most = min(most, LOGIT_ROWS)
        return [(begin, min(begin + most, rows)) for begin in range(0, rows, most)]

    def _run(
        self,
        rows: Sequence[Row],
        columns: StateColumns,
        outputs: Sequence[int],
        want_logits: bool,
        taps: frozenset[int],
    ) -> Evaluation:
        kind = PassKind(len(rows), len(outputs), want_logits and len(outputs) > 0, taps)
        if self._passes is None:
            raise BackendError("backend: expected an open one, found a closed one")
        program = self._passes.program(kind)
        if columns.state_from:
            argmax = program.evaluate(rows, outputs, columns.state_from, columns.state_to)
        else:
            argmax = program.evaluate(rows, outputs)
        logits = program.logits() if kind.logits else None
        return Evaluation(argmax, logits, {tap: program.hidden(tap) for tap in taps})

    def _run_parts(
        self,
        rows: Sequence[Row],
        columns: StateColumns,
        outputs: Sequence[int],
        want_logits: bool,
        taps: frozenset[int],
        parts: list[tuple[int, int]],
    ) -> Evaluation:
        """Several passes, their results joined."""
        results: list[Evaluation] = []
        for begin, end in parts:
            wanted = [output - begin for output in outputs if begin <= output < end]
            part = StateColumns(columns.state_from[begin:end], columns.state_to[begin:end])
            result = self._run(rows[begin:end], part, wanted, want_logits, taps)
            copied = {tap: values.copy() for tap, values in result.hidden.items()}
            logits = None if result.logits is None else result.logits.copy()
            results.append(Evaluation(result.argmax, logits, copied))
        argmax = [token for result in results for token in result.argmax]
        logit_parts = [result.logits for result in results if result.logits is not None]
        hidden = {tap: np.concatenate([result.hidden[tap] for result in results]) for tap in taps}
        return Evaluation(argmax, np.concatenate(logit_parts) if logit_parts else None, hidden)

    def checkpoint(self, sequence: int) -> Checkpoint:
        return Checkpoint(sequence, self.length(sequence), self._slots.checkpoint(sequence))

    def commit(self, sequence: int, length: int) -> None:
        if self._states is not None and length <= self._slots.state(sequence).evaluated:
            self._states.window(sequence).place(length)
        self._slots.commit(sequence, length)

    def restore(self, checkpoint: Checkpoint) -> None:
        if not isinstance(checkpoint.state, SlotState):
            raise BackendError("restore: expected a checkpoint of this backend, found another's")
        if self._states is not None and self._slots.is_open(checkpoint.sequence):
            self._states.window(checkpoint.sequence).place(checkpoint.length)
        self._slots.restore(checkpoint.sequence, checkpoint.length, checkpoint.state)

    def save_block(self, sequence: int, index: int) -> PrefixBlock:
        self._check_open()
        return self._prefixes.save(sequence, index)

    def load_blocks(self, sequence: int, blocks: Sequence[PrefixBlock]) -> None:
        self._check_open()
        self._prefixes.load(sequence, blocks)

    def prediction_block(self, rows: int | None, ranked: npt.NDArray[np.int64] | None) -> PredictionBlock:
        self._check_open()
        if self._prediction is None:
            return super().prediction_block(rows, ranked)
        return self._prediction.block(rows, ranked)

    def draft_head(self, file: DraftFile, draft: DraftHyperparameters) -> PredictionBlock | DraftBlock:
        self._check_open()
        return self._drafts.open(file, draft)

    @cached_property
    def _prefixes(self) -> NativePrefixes:
        layout = self.name, _native.arithmetic_version, self._plan.file.sha256(), PREFIX_BLOCK
        entries = PredictionEntries() if self._prediction is None else self._prediction.entries
        context = self._capabilities.context
        return NativePrefixes(layout, context, self._cache, self._slots, self._states, entries, self._drafts)

    def _check_open(self) -> None:
        if self._cache.closed:
            raise BackendError("backend: expected an open one, found a closed one")

    def identity(self) -> dict[str, str | int]:
        return {
            "backend": self.name,
            "arithmetic": _native.arithmetic_version,
            "isa": self._isa,
            "compiler": _native.compiler(),
            "architecture": self._plan.model.architecture,
            "artifact_sha256": self._plan.file.sha256(),
        }

    def close(self) -> None:
        if not self._cache.closed:
            self._cache.close()
            self._drafts.close()
            if self._states is not None:
                self._states.cache.close()
            self._passes = self._prediction = None
            self._plan.file.close()


def _resolve_isa(isa: str | None) -> str:
    """The instruction set asked for here or by VERISPEC_ISA, or the best. Raises OptionError."""
    try:
        return _native.resolve_isa(isa)
    except ValueError as error:
        raise OptionError(str(error)) from error

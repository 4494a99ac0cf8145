"""The native backend: a GGUF model on this machine's CPU, exact by contract C1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from verispec import _native
from verispec.backends.contract import (
    BackendAdapter,
    Capabilities,
    Checkpoint,
    Evaluation,
    PrefixBlock,
    Row,
)
from verispec.backends.native_plan import (
    LOGIT_ROWS,
    MAX_THREADS,
    ModelPlan,
    default_threads,
    plan_decoder,
    plan_model,
)
from verispec.backends.row_check import check_call, check_rows
from verispec.backends.slots import Ring, Slots, SlotState
from verispec.errors import BackendError, OptionError
from verispec.models.memory import MemoryNeed, available_memory, check_memory, kept_positions
from verispec.ops.contract import KEY_BLOCK
from verispec.ops.native import NativePasses, PassKind
from verispec.ops.native_weights import load_weights

PREFIX_BLOCK = KEY_BLOCK
"""Positions of a saved block. A ring keeps its window and a whole pass, rounded up to key blocks: no pass displaces a
part of a key block that it completes, whatever the window."""


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
        layers = [(model.kv_heads, model.head_dim, positions) for positions in kept]
        self._cache = _native.KvCache(limits.sequences, limits.context, layers)
        self._isa = isa
        self._passes: NativePasses | None = NativePasses(decoder.run, weights, self._cache, pool, isa)
        self._slots = Slots(limits.sequences, _rings(plan))
        self._plan = plan
        self._threads = threads
        self._capabilities = planned_capabilities(plan)

    @classmethod
    def load(
        cls, path: str | Path, ctx: int | None = None, threads: int | None = None, sequences: int = 4
    ) -> NativeBackend:
        """Loads the GGUF file at ``path``; see ``plan_model``. ``threads`` defaults to the physical cores."""
        return cls(plan_model(path, ctx, sequences), threads)

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
        return self._slots.open()

    def close_sequence(self, sequence: int) -> None:
        self._slots.close(sequence)
        if not self._cache.closed:
            self._cache.discard_slot(sequence)

    def length(self, sequence: int) -> int:
        return self._slots.state(sequence).length

    def oldest_length(self, sequence: int) -> int:
        return self._slots.oldest_length(sequence)

    def evaluate(
        self, rows: Sequence[Row], outputs: Sequence[int], want_logits: bool, taps: Sequence[int] = ()
    ) -> Evaluation:
        check_call(len(rows), outputs, taps, self._capabilities.taps)
        lengths = {row.sequence: self._slots.state(row.sequence).length for row in rows}
        ends = check_rows(rows, lengths, self._capabilities.vocabulary, self._capabilities.context)
        for sequence in lengths:
            self._slots.begin(sequence)
        for sequence, end in ends.items():
            self._slots.wrote(sequence, end)
        kept = frozenset(taps)
        parts = self._split(len(rows), outputs, want_logits)
        if len(parts) == 1:
            return self._run(rows, outputs, want_logits, kept)
        return self._run_parts(rows, outputs, want_logits, kept, parts)

    def _split(self, rows: int, outputs: Sequence[int], want_logits: bool) -> list[tuple[int, int]]:
        """Row ranges of the passes that evaluate ``rows`` rows."""
        most = self._capabilities.max_rows
        if want_logits and len(outputs) > LOGIT_ROWS:
            most = min(most, LOGIT_ROWS)
        return [(begin, min(begin + most, rows)) for begin in range(0, rows, most)]

    def _run(
        self, rows: Sequence[Row], outputs: Sequence[int], want_logits: bool, taps: frozenset[int]
    ) -> Evaluation:
        kind = PassKind(len(rows), len(outputs), want_logits and len(outputs) > 0, taps)
        if self._passes is None:
            raise BackendError("backend: expected an open one, found a closed one")
        program = self._passes.program(kind)
        argmax = program.evaluate(rows, outputs)
        logits = program.logits() if kind.logits else None
        return Evaluation(argmax, logits, {tap: program.hidden(tap) for tap in taps})

    def _run_parts(
        self,
        rows: Sequence[Row],
        outputs: Sequence[int],
        want_logits: bool,
        taps: frozenset[int],
        parts: list[tuple[int, int]],
    ) -> Evaluation:
        """Several passes, their results joined."""
        results: list[Evaluation] = []
        for begin, end in parts:
            wanted = [output - begin for output in outputs if begin <= output < end]
            result = self._run(rows[begin:end], wanted, want_logits, taps)
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
        self._slots.commit(sequence, length)

    def restore(self, checkpoint: Checkpoint) -> None:
        if not isinstance(checkpoint.state, SlotState):
            raise BackendError("restore: expected a checkpoint of this backend, found another's")
        self._slots.restore(checkpoint.sequence, checkpoint.length, checkpoint.state)

    def save_block(self, sequence: int, index: int) -> PrefixBlock:
        self._check_open()
        begin, end = index * PREFIX_BLOCK, (index + 1) * PREFIX_BLOCK
        if index < 0:
            raise BackendError(f"block: expected a number of at least 0, found {index}")
        self._slots.check_held(sequence, begin, end)
        saved = self._cache.save(sequence, begin, end)
        return PrefixBlock(self._block_layout, index, len(saved), saved)

    def load_blocks(self, sequence: int, blocks: Sequence[PrefixBlock]) -> None:
        self._check_open()
        length = len(blocks) * PREFIX_BLOCK
        if self.length(sequence):
            raise BackendError(
                f"sequence {sequence}: expected an empty one, found {self.length(sequence)} positions"
            )
        if length > self._capabilities.context:
            most = self._capabilities.context // PREFIX_BLOCK
            raise BackendError(f"blocks: expected at most {most} (the context), found {len(blocks)}")
        states = [self._block_state(block, index) for index, block in enumerate(blocks)]
        self._slots.begin(sequence)
        for index, saved in enumerate(states):
            self._cache.load(sequence, index * PREFIX_BLOCK, (index + 1) * PREFIX_BLOCK, saved)
        self._slots.loaded(sequence, length)

    def _block_state(self, block: PrefixBlock, index: int) -> bytes:
        if block.layout != self._block_layout or not isinstance(block.state, bytes):
            raise BackendError(
                f"block {index}: expected one of the layout {self._block_layout}, found {block.layout}"
            )
        if block.index != index:
            raise BackendError(f"block {index}: expected blocks in order from 0, found block {block.index}")
        return block.state

    @cached_property
    def _block_layout(self) -> tuple[str | int, ...]:
        """What decides the bits of a block and their order; how much a window keeps does not."""
        return self.name, _native.arithmetic_version, self._plan.file.sha256(), PREFIX_BLOCK

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
            self._passes = None
            self._plan.file.close()


def _resolve_isa(isa: str | None) -> str:
    """The instruction set asked for here or by VERISPEC_ISA, or the best. Raises OptionError."""
    try:
        return _native.resolve_isa(isa)
    except ValueError as error:
        raise OptionError(str(error)) from error


def _rings(plan: ModelPlan) -> list[Ring]:
    """The layers that keep fewer positions than the context has."""
    kept = kept_positions(plan.model, plan.limits)
    windows = zip(kept, plan.model.windows, strict=True)
    return [Ring(positions, window) for positions, window in windows if positions < plan.limits.context]


def planned_capabilities(plan: ModelPlan) -> Capabilities:
    """What the backend of ``plan`` will be able to do, known before anything is allocated."""
    model, limits = plan.model, plan.limits
    return Capabilities(
        exactness="exact",
        architecture=model.architecture,
        vocabulary=model.vocabulary,
        hidden_size=model.hidden_size,
        layers=model.layers,
        context=limits.context,
        sequences=limits.sequences,
        max_rows=limits.rows,
        rollback=min((ring.kept - ring.window for ring in _rings(plan)), default=limits.context),
        taps=plan_decoder(plan).taps,
        prefix_block=PREFIX_BLOCK,
    )

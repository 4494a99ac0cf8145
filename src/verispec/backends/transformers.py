"""Any causal model of the ``transformers`` library as a target, labelled token-checked.

Its kernels give a row other bits alone than among others, so contract C1 cannot hold here: the round is the same, the
arithmetic is not. It exists to show that the contract belongs to no backend.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from verispec.backends.contract import BackendAdapter, Capabilities, Checkpoint, Evaluation, Row
from verispec.backends.row_check import check_call, check_rows
from verispec.backends.slots import Slots, SlotState
from verispec.backends.transformers_plan import TransformersPlan
from verispec.errors import BackendError


class TransformersBackend(BackendAdapter):
    """Runs one model in float32, a sequence's rows in one forward."""

    name = "transformers"

    def __init__(self, plan: TransformersPlan, threads: int | None = None) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        if threads is not None:
            torch.set_num_threads(threads)
        try:
            model = AutoModelForCausalLM.from_pretrained(
                local_files_only=True, dtype=torch.float32, **plan.source
            )
        except Exception as error:  # the library's loading errors share no base
            raise BackendError(f"{plan.path}: transformers cannot load it: {error}") from error
        self._model: Any = model.eval()
        parameters = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._plan = plan
        self._slots = Slots(plan.capabilities.sequences, ())
        self._caches: dict[int, Any] = {}

    @property
    def capabilities(self) -> Capabilities:
        return self._plan.capabilities

    def open_sequence(self) -> int:
        self._check_open()
        sequence = self._slots.open()
        self._caches[sequence] = self._new_cache()
        return sequence

    def close_sequence(self, sequence: int) -> None:
        self._slots.close(sequence)
        self._caches.pop(sequence, None)

    def length(self, sequence: int) -> int:
        return self._slots.state(sequence).length

    def oldest_length(self, sequence: int) -> int:
        return self._slots.oldest_length(sequence)

    def evaluate(
        self, rows: Sequence[Row], outputs: Sequence[int], want_logits: bool, taps: Sequence[int] = ()
    ) -> Evaluation:
        check_call(len(rows), outputs, taps, self.capabilities.taps)
        self._check_open()
        lengths = {row.sequence: self.length(row.sequence) for row in rows}
        ends = check_rows(rows, lengths, self.capabilities.vocabulary, self.capabilities.context)
        logits = np.empty((len(rows), self.capabilities.vocabulary), np.float32)
        for sequence, end in ends.items():
            self._slots.begin(sequence)
            indices = [index for index, row in enumerate(rows) if row.sequence == sequence]
            logits[indices] = self._forward(sequence, [rows[index].token for index in indices])
            self._slots.wrote(sequence, end)
        chosen = logits[list(outputs)]
        argmax = [int(token) for token in chosen.argmax(axis=1)] if len(outputs) else []
        return Evaluation(argmax, chosen if want_logits and len(outputs) else None)

    def _forward(self, sequence: int, tokens: list[int]) -> npt.NDArray[np.float32]:
        import torch

        length = self.length(sequence)
        if length == 0:
            self._caches[sequence] = self._new_cache()
        cache = self._caches[sequence]
        for layer in cache.layers:  # each by itself: a forward that was interrupted reached some of them
            excess = int(layer.get_seq_length()) - length
            if excess:
                layer.crop(-excess)
        with torch.inference_mode():
            output = self._model(
                input_ids=torch.tensor([tokens]), use_cache=True, **{self._cache_argument: cache}
            )
        return np.asarray(output.logits[0].float().numpy(), dtype=np.float32)

    def checkpoint(self, sequence: int) -> Checkpoint:
        return Checkpoint(sequence, self.length(sequence), self._slots.checkpoint(sequence))

    def commit(self, sequence: int, length: int) -> None:
        self._slots.commit(sequence, length)

    def restore(self, checkpoint: Checkpoint) -> None:
        if not isinstance(checkpoint.state, SlotState):
            raise BackendError("restore: expected a checkpoint of this backend, found another's")
        self._slots.restore(checkpoint.sequence, checkpoint.length, checkpoint.state)

    def identity(self) -> dict[str, str | int]:
        import torch
        import transformers

        return {
            "backend": self.name,
            "arithmetic": f"torch-{torch.__version__}",
            "transformers": transformers.__version__,
            "threads": torch.get_num_threads(),
            "architecture": self.capabilities.architecture,
            "artifact_sha256": self._plan.sha256(),
        }

    def close(self) -> None:
        self._model = None
        self._caches.clear()

    def _new_cache(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self._plan.config)

    def _check_open(self) -> None:
        if self._model is None:
            raise BackendError("backend: expected an open one, found a closed one")

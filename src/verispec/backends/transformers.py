"""Any causal model of the ``transformers`` library as a target, labelled token-checked.

Its kernels give a row other bits alone than among others, so contract C1 cannot hold here: the round is the same, the
arithmetic is not. It exists to show that the contract belongs to no backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from verispec.backends.contract import (
    COMMITTED,
    BackendAdapter,
    Capabilities,
    Checkpoint,
    Evaluation,
    Row,
)
from verispec.errors import BackendError, ContextOverflowError, UnsupportedError


@dataclass(slots=True)
class _Sequence:
    cache: Any
    length: int = 0


class TransformersBackend(BackendAdapter):
    """Runs ``model`` (a ``transformers`` causal language model in evaluation mode) row list by row list."""

    name = "transformers"

    def __init__(self, model: Any, context: int, sequences: int = 4) -> None:
        config = model.config.get_text_config()
        self._model = model.eval()
        self._config = config
        self._limit = sequences
        self._open: dict[int, _Sequence] = {}
        self._refuse_uncroppable()
        self._capabilities = Capabilities(
            exactness="token-checked",
            architecture=str(config.model_type),
            vocabulary=int(config.vocab_size),
            hidden_size=int(config.hidden_size),
            layers=int(config.num_hidden_layers),
            context=min(context, int(config.max_position_embeddings)),
            sequences=sequences,
            max_rows=512,
            rollback=context,
        )

    @classmethod
    def load(cls, path: str | Path, context: int, threads: int | None = None) -> TransformersBackend:
        """Loads a folder in the library's format, or a GGUF file, which the library dequantises to float32."""
        try:
            import torch
            from transformers import AutoModelForCausalLM
        except ImportError as error:
            raise UnsupportedError(
                "needs-transformers",
                f"the transformers backend needs torch and transformers ({error})",
                "Install verispec[transformers]",
            ) from error
        if threads is not None:
            torch.set_num_threads(threads)
        path = Path(path)
        source = {"gguf_file": path.name} if path.is_file() else {}
        folder = path.parent if path.is_file() else path
        try:
            model = AutoModelForCausalLM.from_pretrained(
                str(folder), local_files_only=True, dtype=torch.float32, **source
            )
        except Exception as error:  # the library's loading errors share no base
            raise BackendError(f"{path}: transformers cannot load it: {error}") from error
        return cls(model, context)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def _new_cache(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self._config)

    def _refuse_uncroppable(self) -> None:
        """A sliding or recurrent layer forgets what a rejected row would have to bring back."""
        for index, layer in enumerate(getattr(self._new_cache(), "layers", [])):
            kind = type(layer).__name__
            if kind != "DynamicLayer":
                raise UnsupportedError(
                    "needs-croppable-cache",
                    f"layer {index} keeps its state in a {kind}, which cannot be cropped",
                    "Use the native backend for this model",
                )

    def open_sequence(self) -> int:
        for sequence in range(self._limit):
            if sequence not in self._open:
                self._open[sequence] = _Sequence(self._new_cache())
                return sequence
        raise BackendError(f"sequences: expected at most {self._limit} open at once, found one more")

    def close_sequence(self, sequence: int) -> None:
        self._open.pop(sequence, None)

    def length(self, sequence: int) -> int:
        return self._state(sequence).length

    def oldest_length(self, sequence: int) -> int:
        self._state(sequence)
        return 0

    def evaluate(
        self, rows: Sequence[Row], outputs: Sequence[int], want_logits: bool, taps: Sequence[int] = ()
    ) -> Evaluation:
        if taps:
            raise BackendError(f"taps: the transformers backend captures none, found {list(taps)}")
        chosen = self._evaluate_all(rows)[list(outputs)] if rows else np.zeros((0, 0), np.float32)
        argmax = [int(i) for i in chosen.argmax(axis=1)] if len(outputs) else []
        return Evaluation(argmax, chosen if want_logits else None)

    def _evaluate_all(self, rows: Sequence[Row]) -> npt.NDArray[np.float32]:
        """Logits of every row, in row order, one forward a sequence."""
        logits = np.empty((len(rows), self._capabilities.vocabulary), np.float32)
        for sequence in dict.fromkeys(row.sequence for row in rows):
            indices = [i for i, row in enumerate(rows) if row.sequence == sequence]
            self._check_chain(rows, indices)
            logits[indices] = self._forward(sequence, [rows[i].token for i in indices])
        return logits

    def _forward(self, sequence: int, tokens: list[int]) -> npt.NDArray[np.float32]:
        import torch

        state = self._state(sequence)
        excess = int(state.cache.get_seq_length()) - state.length
        if state.length == 0:
            state.cache = self._new_cache()
        elif excess:
            state.cache.crop(-excess)
        with torch.inference_mode():
            output = self._model(
                input_ids=torch.tensor([tokens]), past_key_values=state.cache, use_cache=True
            )
        return np.asarray(output.logits[0].float().numpy(), dtype=np.float32)

    def _check_chain(self, rows: Sequence[Row], indices: list[int]) -> None:
        expected = self._state(rows[indices[0]].sequence).length
        parent = COMMITTED
        for index in indices:
            row = rows[index]
            if row.position >= self._capabilities.context:
                raise ContextOverflowError(
                    f"row {index}: expected a position below {self._capabilities.context}, found {row.position}"
                )
            if (row.position, row.parent) != (expected, parent):
                raise BackendError(
                    f"row {index}: expected position {expected} with parent {parent} (this backend takes chains), "
                    f"found position {row.position} with parent {row.parent}"
                )
            if not 0 <= row.token < self._capabilities.vocabulary:
                raise BackendError(
                    f"row {index}: expected a token in 0..{self._capabilities.vocabulary - 1}, found {row.token}"
                )
            expected += 1
            parent = index

    def checkpoint(self, sequence: int) -> Checkpoint:
        return Checkpoint(sequence, self._state(sequence).length)

    def commit(self, sequence: int, length: int) -> None:
        state = self._state(sequence)
        held = int(state.cache.get_seq_length())
        if not 0 <= length <= held:
            raise BackendError(f"commit: expected a length in 0..{held}, found {length}")
        state.length = length

    def restore(self, checkpoint: Checkpoint) -> None:
        self._state(checkpoint.sequence).length = checkpoint.length

    def identity(self) -> dict[str, str | int]:
        import torch
        import transformers

        return {
            "backend": self.name,
            "arithmetic": f"torch-{torch.__version__}",
            "transformers": transformers.__version__,
            "threads": torch.get_num_threads(),
        }

    def close(self) -> None:
        self._open.clear()
        self._model = None

    def _state(self, sequence: int) -> _Sequence:
        state = self._open.get(sequence)
        if state is None:
            raise BackendError(f"sequence {sequence}: expected an open one, found {sorted(self._open)}")
        return state

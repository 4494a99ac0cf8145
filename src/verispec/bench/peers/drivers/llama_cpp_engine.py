"""llama.cpp through llama-cpp-python's low-level functions. Imports numpy and llama_cpp, nothing of verispec."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import llama_cpp as lib
import numpy as np

FLASH_ATTENTION = {"on": 1, "off": 0, "auto": -1}
MOST_ROWS = 2048


class Engine:
    """One model in one context, sequence 0.

    ``repack`` lets llama.cpp rearrange weights for its fast kernels; ``flash_attention`` is on, off or auto.
    """

    def __init__(
        self, model: str, context: int, threads: int, repack: bool = True, flash_attention: str = "auto"
    ) -> None:
        lib.llama_backend_init()
        parameters = lib.llama_model_default_params()
        parameters.use_extra_bufts = repack
        self.model = lib.llama_model_load_from_file(model.encode(), parameters)
        if not self.model:
            raise RuntimeError(f"llama.cpp could not load {model}")
        settings = lib.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = context, MOST_ROWS, 512
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn_type = FLASH_ATTENTION[flash_attention]
        settings.no_perf = True
        self.context = lib.llama_init_from_model(self.model, settings)
        if not self.context:
            raise RuntimeError("llama.cpp could not make a context")
        self.memory = lib.llama_get_memory(self.context)
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.batch = lib.llama_batch_init(MOST_ROWS, 0, 1)

    def describe(self) -> dict[str, Any]:
        system = lib.llama_print_system_info().decode().strip()
        return {"llama-cpp-python": lib.__version__, "system": system}

    def passes(self, context: list[int], rows: list[int], repeats: int) -> dict[str, Any]:
        self._keep(0)
        if context:
            self._evaluate(context, 0, 1)
        self._evaluate(rows, len(context), len(rows))
        seconds = []
        for _ in range(repeats):
            self._keep(len(context))
            seconds.append(self._evaluate(rows, len(context), len(rows)))
        return {"seconds": seconds}

    def prompt(self, tokens: list[int], repeats: int) -> dict[str, Any]:
        seconds = []
        for _ in range(repeats):
            self._keep(0)
            seconds.append(self._evaluate(tokens, 0, 1))
        return {"seconds": seconds}

    def decode(self, prompt: list[int], max_tokens: int, end_tokens: list[int]) -> dict[str, Any]:
        self._keep(0)
        prompt_seconds = self._evaluate(prompt, 0, 1)
        tokens = [self._best_token()]
        started = time.perf_counter()
        while len(tokens) < max_tokens and tokens[-1] not in end_tokens:
            self._evaluate(tokens[-1:], len(prompt) + len(tokens) - 1, 1)
            tokens.append(self._best_token())
        return {
            "tokens": tokens,
            "counted": len(tokens) - 1,
            "seconds": time.perf_counter() - started,
            "prompt_seconds": prompt_seconds,
            "passes": len(tokens),
        }

    def close(self) -> None:
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)

    def _evaluate(self, tokens: list[int], position: int, outputs: int) -> float:
        """Evaluates tokens from ``position``, with logits of the last ``outputs`` of them; seconds."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for row, token in enumerate(tokens):
            batch.token[row] = token
            batch.pos[row] = position + row
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = 0
            batch.logits[row] = row >= len(tokens) - outputs
        started = time.perf_counter()
        status = lib.llama_decode(self.context, batch)
        lib.llama_get_logits_ith(self.context, -1)  # waits until they are there
        seconds = time.perf_counter() - started
        if status:
            raise RuntimeError(f"llama_decode gave {status}")
        return seconds

    def _keep(self, length: int) -> None:
        lib.llama_memory_seq_rm(self.memory, 0, length, -1)

    def _best_token(self) -> int:
        logits = lib.llama_get_logits_ith(self.context, -1)
        address = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float))
        return int(np.ctypeslib.as_array(address, (self.vocabulary,)).argmax())

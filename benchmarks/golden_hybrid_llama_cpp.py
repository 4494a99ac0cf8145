"""Golden values of the little hybrid models from llama.cpp: it reads the same GGUF files, prediction block included.

    PYTHONPATH=src:tests python benchmarks/golden_hybrid_llama_cpp.py

``transformers`` says what the numbers are (benchmarks/golden_hybrid.py) but knows neither the file format nor the
prediction block; this shows both. The trunk's hidden states after the final norm go into the block as llama.cpp's own
speculation hands them over. Writes tests/data/golden_hybrid_llama_cpp.npz. Needs llama-cpp-python.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from tiny_hybrid import HYBRIDS, LLAMA_CPP_ROWS, TOKENS, Values, write_hybrid

GOLDEN = Path(__file__).parent.parent / "tests" / "data" / "golden_hybrid_llama_cpp.npz"
PROMPT = TOKENS[:40]


def evaluate(model: Any, tokens: Sequence[int], hidden: Values | None = None) -> tuple[Values, Values | None]:
    """Logits of every row, by the trunk with its hidden states, or by the prediction block over ``hidden``."""
    options = llama_cpp.llama_context_default_params()
    options.n_ctx, options.n_batch, options.n_ubatch, options.n_threads = 128, 64, 64, 1
    options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
    if hidden is None:
        options.embeddings = True
    else:
        options.ctx_type = llama_cpp.LLAMA_CONTEXT_TYPE_MTP
    context = llama_cpp.llama_init_from_model(model, options)
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for row, token in enumerate(tokens):
        batch.token[row], batch.pos[row], batch.logits[row] = token, row, 1
        batch.n_seq_id[row], batch.seq_id[row][0] = 1, 0
    if hidden is not None:
        given = np.ascontiguousarray(hidden, np.float32)
        batch.embd = given.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    if llama_cpp.llama_decode(context, batch):
        raise SystemExit("llama.cpp did not decode")
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    logits = rows_of(llama_cpp.llama_get_logits_ith, context, len(tokens), vocabulary)
    if hidden is not None:
        return logits, None
    width = llama_cpp.llama_model_n_embd(model)
    return logits, rows_of(llama_cpp.llama_get_embeddings_ith, context, len(tokens), width)


def rows_of(get: Any, context: Any, rows: int, width: int) -> Values:
    return np.stack([np.ctypeslib.as_array(get(context, row), shape=(width,)).copy() for row in range(rows)])


def main() -> None:
    found: dict[str, Any] = {"peer": f"llama-cpp-python {llama_cpp.__version__}"}
    options = llama_cpp.llama_model_default_params()
    options.load_mtp = True
    for name, described in HYBRIDS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tiny.gguf"
            write_hybrid(path, replace(described, tokeniser=True))
            model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        logits, hidden = evaluate(model, PROMPT)
        found[f"{name}/logits"] = logits[LLAMA_CPP_ROWS]
        if described.prediction and hidden is not None:
            predicted, _ = evaluate(model, PROMPT[1:], hidden[:-1])
            found[f"{name}/predicted"] = predicted[LLAMA_CPP_ROWS]
    np.savez_compressed(GOLDEN, **found)
    print(f"{GOLDEN.name}: {GOLDEN.stat().st_size} bytes, {found['peer']}")


if __name__ == "__main__":
    main()

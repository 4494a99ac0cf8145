"""Golden values for the decoder graph, from independent implementations.

    python benchmarks/golden_logits.py NAME MODEL.gguf transformers
    python benchmarks/golden_logits.py NAME MODEL.gguf llama.cpp

The first runs ``transformers`` in float32 over the dequantised weights of MODEL and writes
tests/data/golden_NAME.json: the token ids of tests/data/golden_text.txt, the most likely next token at every
position, the greatest logits at a few positions, and the perplexity. The second adds llama.cpp's perplexity over
the same ids. Needs torch, transformers and accelerate, or llama-cpp-python; ``make test`` needs only the file.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

DATA = Path(__file__).parent.parent / "tests" / "data"
TEXT = DATA / "golden_text.txt"
TOP = 8
STEP = 29
"""Distance of the positions whose greatest logits are kept."""
LLAMA_CPP_BATCH = 32
"""Rows a decode; llama-cpp-python 0.3.36 crashes when it keeps the logits of larger ones."""

Logits = npt.NDArray[np.float64]


def with_transformers(model_path: Path) -> dict[str, Any]:
    """Everything the golden file holds from ``transformers``."""
    import torch
    import transformers

    source = {"gguf_file": model_path.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_path.parent, **source)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        model_path.parent, dtype=torch.float32, attn_implementation="eager", **source
    )
    tokens = tokenizer(TEXT.read_text())["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].to(torch.float64).numpy()
    return {
        "sha256": sha256(model_path.read_bytes()).hexdigest(),
        "peer": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32",
        "text_sha256": sha256(TEXT.read_bytes()).hexdigest(),
        "perplexity": perplexity(logits, tokens),
        "rows": [top_row(logits[p], p) for p in range(0, len(tokens), STEP)],
        "tokens": tokens,
        "argmax": logits.argmax(axis=1).tolist(),
    }


def with_llama_cpp(model_path: Path, tokens: list[int]) -> dict[str, Any]:
    """llama.cpp's perplexity over ``tokens``, with the int8 activations it uses too."""
    import llama_cpp

    model = llama_cpp.Llama(
        str(model_path), n_ctx=1024, n_batch=LLAMA_CPP_BATCH, logits_all=True, verbose=False
    )
    model.eval(tokens)
    logits = np.array(model.scores[: len(tokens)], np.float64)
    version = f"llama-cpp-python {llama_cpp.__version__}"
    return {"llama_cpp": {"version": version, "perplexity": perplexity(logits, tokens)}}


def perplexity(logits: Logits, tokens: list[int]) -> float:
    """Of ``tokens``, the first of which is given."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(tokens) - 1), tokens[1:]]
    return round(float(np.exp(np.mean(np.log(np.exp(shifted[:-1]).sum(axis=1)) - chosen))), 4)


def top_row(logits: Logits, position: int) -> dict[str, Any]:
    """The greatest logits of one row, and the mean and deviation of all of them."""
    top = np.argsort(-logits)[:TOP]
    return {
        "position": position,
        "tokens": top.tolist(),
        "logits": [round(float(logits[t]), 4) for t in top],
        "mean": round(float(logits.mean()), 4),
        "deviation": round(float(logits.std()), 4),
    }


def main() -> None:
    name, model_path, peer = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    golden = DATA / f"golden_{name}.json"
    values = json.loads(golden.read_text()) if golden.exists() else {}
    if peer == "transformers":
        values |= with_transformers(model_path)
    else:
        values |= with_llama_cpp(model_path, values["tokens"])
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items()]
    golden.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

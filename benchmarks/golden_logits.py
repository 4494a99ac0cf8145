"""Golden values for the decoder graph, from an independent implementation.

    python benchmarks/golden_logits.py NAME MODEL.gguf

runs ``transformers`` in float32 over the dequantised weights of MODEL and writes
tests/data/golden_NAME.json: the token ids of tests/data/golden_text.txt, the most likely next token at every
position, the greatest logits at a few positions, and the perplexity. Needs torch, transformers and
accelerate; ``make test`` needs only what this wrote.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

DATA = Path(__file__).parent.parent / "tests" / "data"
TEXT = DATA / "golden_text.txt"
TOP = 8
STEP = 61
"""Distance of the positions whose greatest logits are kept."""


def measure(model_path: Path) -> dict[str, Any]:
    """Everything the golden file holds."""
    source = {"gguf_file": model_path.name}
    tokenizer = AutoTokenizer.from_pretrained(model_path.parent, **source)
    model = AutoModelForCausalLM.from_pretrained(
        model_path.parent, dtype=torch.float32, attn_implementation="eager", **source
    )
    tokens = tokenizer(TEXT.read_text())["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].to(torch.float64)
    losses = -torch.log_softmax(logits[:-1], dim=1)[torch.arange(len(tokens) - 1), torch.tensor(tokens[1:])]
    return {
        "sha256": sha256(model_path.read_bytes()).hexdigest(),
        "peer": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32",
        "text_sha256": sha256(TEXT.read_bytes()).hexdigest(),
        "perplexity": round(float(losses.mean().exp()), 4),
        "rows": [top_row(logits[p].numpy(), p) for p in range(0, len(tokens), STEP)],
        "tokens": tokens,
        "argmax": logits.argmax(dim=1).tolist(),
    }


def top_row(logits: np.ndarray, position: int) -> dict[str, Any]:
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
    name, model_path = sys.argv[1], Path(sys.argv[2])
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in measure(model_path).items()]
    (DATA / f"golden_{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

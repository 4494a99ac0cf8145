"""What transformers computes with the little published models of ``tests/tiny_published.py``.

    python benchmarks/golden_published.py tests/data/golden_published.json

needs torch and transformers; the tests compare converted models with the result, and need neither.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import torch
import transformers

sys.path[:0] = [str(Path(__file__).parent.parent / folder) for folder in ("tests", "src")]

from tiny_published import FAMILIES, Published, write_published  # noqa: E402 - the path to it is set above

PROMPT = [(7 * position * position + 3 * position + 11) % 280 for position in range(40)]
"""Longer than a sliding window and than a chunk of the delta rule's published form."""


def last_logits(family: str) -> list[float]:
    """Logits behind the prompt, rounded to a tenth of the tests' tolerance."""
    with tempfile.TemporaryDirectory() as folder:
        write_published(Path(folder), Published(family, tied=family in ("qwen2", "gemma3_text")))
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        with torch.no_grad():
            logits = model(torch.tensor([PROMPT])).logits[0, -1].float()
    return [round(value, 5) for value in logits.tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the golden logits of published models.")
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    golden = {"made_with": versions, "prompt": PROMPT, "logits": {one: last_logits(one) for one in FAMILIES}}
    output.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()

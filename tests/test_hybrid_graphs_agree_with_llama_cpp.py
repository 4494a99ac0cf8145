"""llama.cpp reads the same files as the same models, prediction block included.

Its golden values (benchmarks/golden_hybrid_llama_cpp.py) carry what its own arithmetic loses: float16 in attention.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reference_model import ReferenceModel
from tiny_hybrid import HYBRIDS, LLAMA_CPP_ROWS, TOKENS, Values, write_hybrid
from verispec.ops.contract import AFTER_FINAL_NORM

GOLDEN = np.load(Path(__file__).parent / "data" / "golden_hybrid_llama_cpp.npz")
CLOSE = 1e-3
"""Of the greatest logit."""
PROMPT = TOKENS[:40]


def distance(found: Values, expected: Values) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", HYBRIDS)
def test_trunk_and_prediction_agree(name: str, tmp_path: Path) -> None:
    write_hybrid(tmp_path / "tiny.gguf", replace(HYBRIDS[name], tokeniser=True))
    model = ReferenceModel(tmp_path / "tiny.gguf", as_peers=True)
    run = model.run(PROMPT, taps=[AFTER_FINAL_NORM])
    assert run.logits is not None
    assert distance(run.logits[LLAMA_CPP_ROWS], GOLDEN[f"{name}/logits"]) < CLOSE
    if HYBRIDS[name].prediction:
        predicted = model.predict(PROMPT[1:], run.hidden[AFTER_FINAL_NORM][:-1]).logits
        assert predicted is not None
        assert distance(predicted[LLAMA_CPP_ROWS], GOLDEN[f"{name}/predicted"]) < CLOSE

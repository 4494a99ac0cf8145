"""Hybrid graphs, run by the reference operations, compute what the published models compute.

The golden values are of ``transformers`` in float32 (benchmarks/golden_hybrid.py), each prompt evaluated by itself. The
library differs from itself by up to 6e-6 of the greatest logit when it cuts a prompt.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reference_model import ReferenceModel
from tiny_hybrid import HYBRIDS, LENGTHS, TOKENS, Values, write_hybrid
from verispec.ops.contract import AFTER_FINAL_NORM

GOLDEN = np.load(Path(__file__).parent / "data" / "golden_hybrid.npz")
CLOSE = 1e-5
"""Of the greatest value compared."""
LAST_ROWS = [length - 1 for length in LENGTHS]
CUTS = {"whole": (70,), "in chunks": (40, 1, 23, 1, 5), "row by row": (1,) * 70}


@pytest.fixture(scope="module", params=HYBRIDS)
def named_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp("hybrid") / "tiny.gguf"
    write_hybrid(path, replace(HYBRIDS[request.param], vocabulary=96))
    return request.param, path


def distance(found: Values, expected: Values) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("chunks", CUTS.values(), ids=CUTS)
def test_logits_and_hidden_states_agree(named_model: tuple[str, Path], chunks: tuple[int, ...]) -> None:
    name, path = named_model
    model = ReferenceModel(path, as_peers=True)
    inner = range(model.hyperparameters.layers)
    logits, hidden, begin = [], [], 0
    for chunk in chunks:
        run = model.run(TOKENS[begin : begin + chunk], start=begin, taps=model.decoder.taps)
        assert run.logits is not None
        logits.append(run.logits)
        hidden.append(np.stack([run.hidden[tap] for tap in (*inner, AFTER_FINAL_NORM)], axis=1))
        begin += chunk
    assert distance(np.concatenate(logits)[LAST_ROWS], GOLDEN[f"{name}/logits"]) < CLOSE
    found, expected = np.concatenate(hidden)[LAST_ROWS], GOLDEN[f"{name}/hidden"]
    for tap in range(expected.shape[1]):
        assert distance(found[:, tap], expected[:, tap]) < CLOSE

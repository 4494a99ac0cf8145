"""Both models against golden values of other implementations (made by benchmarks/golden_logits.py).

``transformers`` computes in float32; llama.cpp rounds activations to int8 as the native kernels do.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from reference_model import ReferenceModel
from verispec.artifacts.gguf import GgufFile
from verispec.backends.contract import chain
from verispec.backends.native import NativeBackend

DATA = Path(__file__).parent / "data"
FIXTURES = {"smollm2-135m": "smollm2_path", "gemma3-270m": "gemma3_path"}


def golden(name: str, path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((DATA / f"golden_{name}.json").read_text())
    assert values["sha256"] == GgufFile.open(path).sha256()
    assert values["text_sha256"] == hashlib.sha256((DATA / "golden_text.txt").read_bytes()).hexdigest()
    return values


@pytest.mark.parametrize("name", FIXTURES)
def test_the_graph_computes_the_same_logits(name: str, request: pytest.FixtureRequest) -> None:
    """The reference operations with the peer's precision: only float32 rounding is left."""
    path = request.getfixturevalue(FIXTURES[name])
    values = golden(name, path)
    rows = values["rows"][:2]
    outputs = [row["position"] for row in rows]
    found = ReferenceModel(path, as_peers=True).logits(values["tokens"][: outputs[-1] + 1], outputs=outputs)
    for logits, row in zip(found, rows, strict=True):
        assert np.abs(logits[row["tokens"]] - row["logits"]).max() < 5e-4
        assert abs(logits.mean(dtype=np.float64) - row["mean"]) < 2e-4
        assert abs(logits.std(dtype=np.float64) - row["deviation"]) < 2e-4


@pytest.mark.parametrize("name", FIXTURES)
def test_the_native_backend_writes_the_same_text(name: str, request: pytest.FixtureRequest) -> None:
    """Int8 activations and float16 keys cost less than half a percent of perplexity."""
    path = request.getfixturevalue(FIXTURES[name])
    values = golden(name, path)
    tokens = values["tokens"]
    backend = NativeBackend.load(path, ctx=1024, threads=2)
    found = backend.evaluate(chain(backend.open_sequence(), 0, tokens), range(len(tokens)), True)
    assert found.logits is not None
    agreeing = np.mean(np.array(found.argmax) == values["argmax"])
    measured = perplexity(found.logits, tokens)
    assert abs(measured / values["perplexity"] - 1) < 0.005
    assert abs(measured / values["llama_cpp"]["perplexity"] - 1) < 0.005
    assert agreeing > 0.95
    errors = [
        np.abs(found.logits[row["position"], row["tokens"]] - row["logits"]).max() for row in values["rows"]
    ]
    assert max(errors) < 1.0  # llama.cpp's are up to 0.6
    assert np.mean(errors) < 0.35
    backend.close()


def perplexity(logits: npt.NDArray[np.float32], tokens: list[int]) -> float:
    losses = []
    for row, token in zip(logits, tokens[1:], strict=False):
        shifted = row.astype(np.float64) - row.max()
        losses.append(np.log(np.exp(shifted).sum()) - shifted[token])
    return float(np.exp(np.mean(losses)))

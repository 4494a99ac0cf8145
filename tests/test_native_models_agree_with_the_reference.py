"""The native backend agrees with the reference operations for every architecture and tensor type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from native_graphs import TYPES
from reference_model import ReferenceModel
from tiny_models import VOCABULARY, TinyModel, write_model
from verispec.backends.contract import chain
from verispec.backends.native import NativeBackend

TOKENS = np.random.default_rng(4).integers(0, VOCABULARY, 40).tolist()

MODELS = {
    **{f"llama in {kind}": TinyModel("llama", matrices=kind) for kind in TYPES},
    "llama with everything": TinyModel("llama", "Q8_0", head="Q6_K", biases=True, rope_factors=True),
    "qwen2": TinyModel("qwen2", matrices="Q4_K"),
    "qwen3": TinyModel("qwen3", matrices="Q5_0", heads=6, kv_heads=2),
    "gemma3": TinyModel("gemma3", matrices="F16", window=9, period=2),
    "gemma3 with a soft-cap": TinyModel("gemma3", "Q8_0", extra=(("final_logit_softcapping", 20.0),)),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_logits_agree(model: TinyModel, tmp_path: Path) -> None:
    """Activations between two int8 values may round to either side, so quantised types differ by more."""
    write_model(tmp_path / "tiny.gguf", model)
    reference = ReferenceModel(tmp_path / "tiny.gguf")
    expected = reference.run(TOKENS, taps=reference.decoder.taps)
    backend = NativeBackend.load(tmp_path / "tiny.gguf", threads=1)
    rows = chain(backend.open_sequence(), 0, TOKENS)
    found = backend.evaluate(rows, range(len(rows)), True, reference.decoder.taps)
    tolerance = 3e-5 if model.matrices in ("F32", "F16", "BF16") else 1e-2
    assert expected.logits is not None
    assert found.logits is not None
    assert relative_error(found.logits, expected.logits) < tolerance
    assert set(found.hidden) == set(expected.hidden)
    for tap, values in expected.hidden.items():
        assert relative_error(found.hidden[tap], values) < tolerance, tap
    assert relative_error(found.hidden[1], expected.hidden[1]) < 1e-3
    backend.close()


def relative_error(found: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> float:
    """Root mean square of the difference over that of the values."""
    difference = found.astype(np.float64) - expected
    return float(np.sqrt((difference**2).mean() / (expected.astype(np.float64) ** 2).mean()))

"""Every architecture's graph, run by the reference operations, computes what the published models compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from plain_decoder import plain_logits
from reference_model import ReferenceModel
from tiny_models import VOCABULARY, TinyModel, write_model

TOKENS = np.random.default_rng(3).integers(0, VOCABULARY, 30).tolist()

MODELS = {
    "llama": TinyModel("llama"),
    "llama with a head, biases and factors": TinyModel("llama", head="F32", biases=True, rope_factors=True),
    "llama, one head": TinyModel("llama", heads=1, kv_heads=1, head_dim=256),
    "qwen2": TinyModel("qwen2"),
    "qwen3": TinyModel("qwen3", head="F16", heads=6, kv_heads=3),
    "gemma3": TinyModel("gemma3", window=7, layers=7, extra=(("rope.freq_base", 1e6),)),
    "gemma3 with a pattern": TinyModel("gemma3", window=9, period=2),
    "gemma3 without a window": TinyModel("gemma3", layers=2),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_logits_agree(model: TinyModel, tmp_path: Path) -> None:
    values = write_model(tmp_path / "tiny.gguf", model)
    expected = plain_logits(model, values, TOKENS)
    found = ReferenceModel(tmp_path / "tiny.gguf", as_peers=True).logits(TOKENS)
    assert np.abs(found - expected).max() < 2e-5 * np.abs(expected).max()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_pass_can_be_cut_anywhere(model: TinyModel, tmp_path: Path) -> None:
    write_model(tmp_path / "tiny.gguf", model)
    whole = ReferenceModel(tmp_path / "tiny.gguf").logits(TOKENS)
    parts = ReferenceModel(tmp_path / "tiny.gguf")
    parts.run(TOKENS[:11])
    assert np.abs(whole[11:] - parts.logits(TOKENS[11:], start=11)).max() < 1e-4


def test_taps_are_the_residual_stream(tmp_path: Path) -> None:
    model = TinyModel("llama")
    values = write_model(tmp_path / "tiny.gguf", model)
    reference = ReferenceModel(tmp_path / "tiny.gguf", as_peers=True)
    run = reference.run(TOKENS, outputs=[4, 9], taps=reference.decoder.taps)
    assert sorted(run.hidden) == [-1, 0, 1, 2, 3]
    assert np.array_equal(run.hidden[0], values["token_embd.weight"][TOKENS].astype(np.float32))
    last, normed = run.hidden[3].astype(np.float64), run.hidden[-1]
    scale = np.sqrt((last**2).mean(1, keepdims=True) + model.epsilon)
    assert np.allclose(normed, last / scale * values["output_norm.weight"], rtol=1e-5, atol=1e-6)
    assert run.logits is not None
    assert np.allclose(run.logits, reference.logits(TOKENS, outputs=[4, 9]), rtol=1e-6, atol=1e-5)

"""What ``verispec quantize`` writes loads in llama.cpp as it is, prediction block and draft head included.

And is the same model there: both runtimes round activations in their own way, so logits agree roughly, as they would
not if one block, scale or tensor were laid out otherwise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xllamacpp
from numpy.typing import NDArray

from tiny_published import FAMILIES, HYBRIDS, VOCABULARY, Published, write_published
from verispec.artifacts.model_file import open_model_file
from verispec.artifacts.quantise import quantise
from verispec.artifacts.recipe import load_recipe
from verispec.bench.artifact_comparison import log_softmax
from verispec.engine.loading import load

PROMPT = [(5 * position * position + 2 * position + 3) % 280 for position in range(24)]


def log_probabilities_of_llama_cpp(path: Path) -> NDArray[np.float64]:
    """Of every token behind the prompt."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = 64
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 2
    parameters.warmup = False
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    question = {"prompt": PROMPT, "n_predict": 1, "n_probs": VOCABULARY, "temperature": 0.0}
    answer = server.handle_completions(question)
    found = np.full(VOCABULARY, np.nan)
    for entry in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
        found[entry["id"]] = entry["logprob"]
    return found


@pytest.mark.parametrize(
    ("family", "recipe"),
    [("qwen3_5_text", "tbq4"), ("qwen3_5_moe_text", "q4_k_m"), ("qwen3", "q6_k"), ("qwen3_next", "q8")],
)
def test_llama_cpp_computes_the_same_model(family: str, recipe: str, tmp_path: Path) -> None:
    assert family in FAMILIES
    write_published(tmp_path / "published", Published(family, prediction=int(family in HYBRIDS)))
    with open_model_file(tmp_path / "published") as parent:
        quantise(parent, tmp_path / "model.gguf", load_recipe(recipe))
    theirs = log_probabilities_of_llama_cpp(tmp_path / "model.gguf")
    with load(tmp_path / "model.gguf", ctx=64, sequences=1, threads=2) as model:
        ours = log_softmax(model.logits(PROMPT)[None])[0]
    assert np.isfinite(theirs).all()
    divergence = np.sum(np.exp(ours) * (ours - theirs))
    assert divergence < 0.03
    assert np.corrcoef(ours, theirs)[0, 1] > 0.97

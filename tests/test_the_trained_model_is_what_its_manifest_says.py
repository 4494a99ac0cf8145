"""The trained hybrid model in the test data: what its manifest says of it holds, and it computes what torch does.

How it was made: training/README.md. ``transformers`` computed the golden values in float32 on the same weights.
"""

from __future__ import annotations

import json
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training.corpus import Document

from reference_model import ReferenceModel
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.tensor_types import TensorType
from verispec.engine.loading import load
from verispec.ops.contract import AFTER_FINAL_NORM

DATA = Path(__file__).parent / "data"
PATH = DATA / "tiny-hybrid.gguf"
MANIFEST: dict[str, Any] = json.loads((DATA / "tiny-hybrid.json").read_text())
PROMPTS: dict[str, Any] = json.loads((DATA / "tiny-hybrid-prompts.json").read_text())
GOLDEN = np.load(DATA / "golden_tiny-hybrid.npz")
CLOSE = 1e-5
"""Of the greatest logit."""


def test_it_is_the_file_that_was_measured() -> None:
    data = PATH.read_bytes()
    assert sha256(data).hexdigest() == MANIFEST["sha256"]
    assert len(data) == MANIFEST["bytes"] < 9e6


def test_it_has_the_parameters_it_claims_and_rows_that_every_block_type_fits() -> None:
    with GgufFile.open(PATH) as file:
        tensors = file.tensors
        assert sum(prod(tensor.shape) for tensor in tensors.values()) == MANIFEST["parameters"]
        matrices = {name: tensor for name, tensor in tensors.items() if tensor.type is TensorType.BF16}
        assert len(matrices) > 30
        assert {tensor.shape[-1] % 256 for tensor in matrices.values()} == {0}
        assert file.metadata["qwen35.nextn_predict_layers"] == 1
        assert file.metadata["qwen35.ssm.time_step_rank"] == 2 * file.metadata["qwen35.ssm.group_count"]


def test_its_text_is_licensed_and_the_held_out_part_is_decided_by_name() -> None:
    for statement in (MANIFEST["text"], PROMPTS):
        assert "Python Software Foundation License" in statement["licence"]
    held_out = MANIFEST["text"]["held_out_documents"]
    assert all(Document(name, "").held_out for name in held_out)
    assert {prompt["document"] for prompt in PROMPTS["prompts"]} <= set(held_out)
    assert len(PROMPTS["prompts"]) >= 300


def test_no_prompt_is_there_twice() -> None:
    texts = [prompt["text"] for prompt in PROMPTS["prompts"]]
    assert len(set(texts)) == len(texts)


def test_its_proposals_are_far_above_chance() -> None:
    along = MANIFEST["quality"]["along_the_text"]
    first, *later = along["agreement_with_target_argmax_by_position"]
    assert min(first, *later) > 20 * along["agreement_by_chance"]


@pytest.fixture(scope="module")
def model() -> ReferenceModel:
    return ReferenceModel(PATH, as_peers=True)


def test_its_logits_are_those_of_torch(model: ReferenceModel) -> None:
    found = model.logits(GOLDEN["tokens"].tolist())
    expected = GOLDEN["logits"]
    assert np.abs(found[GOLDEN["rows"]] - expected).max() < CLOSE * np.abs(expected).max()
    assert found.argmax(axis=1).tolist() == GOLDEN["argmax"].tolist()


def test_its_proposals_are_those_of_torch(model: ReferenceModel) -> None:
    """The first of every chain in one pass, and the last chain token by token from the block's own states."""
    tokens, proposals = GOLDEN["tokens"].tolist(), GOLDEN["proposals"]
    states = model.run(tokens, taps=[AFTER_FINAL_NORM]).hidden[AFTER_FINAL_NORM]
    chains, depths = proposals.shape
    found = model.predict(tokens[1 : chains + 1], states[:chains])
    assert found.argmax == proposals[:, 0].tolist()
    chain, hidden = [found.argmax[-1]], found.hidden[AFTER_FINAL_NORM][-1:]
    for position in range(chains + 1, chains + depths):
        found = model.predict([tokens[position]], hidden, start=position)
        hidden = found.hidden[AFTER_FINAL_NORM]
        chain += found.argmax
    assert chain == proposals[-1].tolist()


def test_the_engine_accepts_about_as_many_as_torch_did() -> None:
    """On some of the prompts, with int8 activations where torch had float32: within a third."""
    texts = [prompt["text"] for prompt in PROMPTS["prompts"][::20]]
    every = {"spec_mode": "mtp", "spec_draft_max": 7, "spec_draft_policy": "fixed", "spec_draft_p_min": 0.0}
    with load(PATH, ctx=512, threads=2) as model:
        answers = [model.generate(text, max_tokens=64, ignore_eos=True, **every) for text in texts]
    found = sum(len(answer.tokens) for answer in answers) / sum(answer.passes for answer in answers)
    measured = MANIFEST["quality"]["greedy_generation"]["tokens_per_pass"]
    assert measured / 1.33 < found < measured * 1.33

"""The prediction block's graph computes what a plain restatement in float64 computes from the same states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from plain_prediction import PlainPrediction
from reference_model import ReferenceModel
from tiny_hybrid import TOKENS, TinyHybrid, Values, write_hybrid
from verispec.models.prediction import build_prediction
from verispec.ops.contract import AFTER_FINAL_NORM
from verispec.ops.reference_arrays import Array

PROMPT = TOKENS[:24]
CLOSE = 1e-5

MODELS = {
    "dense, the trunk's head": TinyHybrid("qwen35", prediction=1),
    "dense, parts of its own": TinyHybrid(
        "qwen35", prediction=1, head="F32", draft_head="F32", own_embedding=True
    ),
    "dense, the trunk's norm": TinyHybrid("qwen35", prediction=1, own_norm=False, interval=2, layers=2),
    "experts": TinyHybrid("qwen35moe", prediction=1, head="F32"),
    "qwen3next": TinyHybrid("qwen3next", prediction=1),
}


@pytest.fixture(scope="module", params=MODELS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, PlainPrediction]:
    path = tmp_path_factory.mktemp("prediction") / "tiny.gguf"
    model = MODELS[request.param]
    return path, PlainPrediction(model, write_hybrid(path, model))


def target_states(model: ReferenceModel) -> Array:
    return model.run(PROMPT, taps=[AFTER_FINAL_NORM]).hidden[AFTER_FINAL_NORM]


def distance(found: Array | None, expected: Values) -> float:
    assert found is not None
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def test_predictions_over_the_prompt_agree(pair: tuple[Path, PlainPrediction]) -> None:
    path, plain = pair
    model = ReferenceModel(path, as_peers=True)
    states = target_states(model)
    found = model.predict(PROMPT[1:], states[:-1])
    assert distance(found.logits, plain.logits(PROMPT, states[:-1])) < CLOSE
    assert distance(found.hidden[AFTER_FINAL_NORM], plain.hidden(PROMPT, states[:-1])) < CLOSE


def test_further_tokens_follow_from_the_blocks_own_states(pair: tuple[Path, PlainPrediction]) -> None:
    """The prompt only fills the cache; then three tokens, each from the hidden state of the one before."""
    path, plain = pair
    model = ReferenceModel(path, as_peers=True)
    tokens, states = [*PROMPT, 5], target_states(model).astype(np.float64)
    model.predict(PROMPT[1:], states[:-1].astype(np.float32), outputs=[])
    hidden = states[-1:].astype(np.float32)
    for _ in range(3):
        found = model.predict(tokens[-1:], hidden, start=len(tokens) - 1)
        assert distance(found.logits, plain.logits(tokens, states)[-1:]) < CLOSE
        hidden = found.hidden[AFTER_FINAL_NORM]
        tokens, states = [*tokens, found.argmax[0]], np.vstack([states, plain.hidden(tokens, states)[-1:]])


def test_entries_are_rewritten_from_the_targets_states(pair: tuple[Path, PlainPrediction]) -> None:
    """What the block wrote from its own states is overwritten when the target's are known."""
    path, plain = pair
    model = ReferenceModel(path, as_peers=True)
    states = target_states(model)
    model.predict(PROMPT[1:12], states[:11])
    model.predict(PROMPT[12:16], np.ones_like(states[:4]), start=12)  # advice that came to nothing
    model.predict(PROMPT[12:20], states[11:19], start=12)
    found = model.predict(PROMPT[20:], states[19:-1], start=20)
    assert distance(found.logits, plain.logits(PROMPT, states[:-1])[19:]) < CLOSE


def test_only_output_rows_are_kept(pair: tuple[Path, PlainPrediction]) -> None:
    path, _ = pair
    whole, some = ReferenceModel(path), ReferenceModel(path)
    states = target_states(whole)
    every = whole.predict(PROMPT[1:], states[:-1])
    few = some.predict(PROMPT[1:], states[:-1], outputs=[20, 3])
    assert every.logits is not None
    assert distance(few.logits, every.logits[[20, 3]].astype(np.float64)) < 1e-6
    assert few.hidden[AFTER_FINAL_NORM].shape == (2, states.shape[1])


def test_another_head_can_take_the_blocks_place(pair: tuple[Path, PlainPrediction]) -> None:
    path, plain = pair
    model = ReferenceModel(path, as_peers=True)
    states = target_states(model)
    found = model.predict(PROMPT[1:], states[:-1], head="token_embd.weight")
    expected = plain.hidden(PROMPT, states[:-1]) @ model.weights["token_embd.weight"].values.T.astype(
        np.float64
    )
    assert distance(found.logits, expected) < CLOSE


def test_states_kept_without_a_head_are_read_later(pair: tuple[Path, PlainPrediction]) -> None:
    """Filling the cache without a head, and a head over what was kept, make one ordinary pass."""
    path, plain = pair
    model = ReferenceModel(path, as_peers=True)
    states = target_states(model)
    filling = model.prediction_pass(PROMPT[1:], states[:-1], 1, [22])
    model.predictions[0].fill(filling, 1)
    assert filling.logits is None
    kept = filling.hidden[AFTER_FINAL_NORM]
    assert distance(kept, plain.hidden(PROMPT, states[:-1])[-1:]) < CLOSE
    reading = model.prediction_pass([0], kept, 1, [0])
    model.predictions[0].read(reading)
    assert distance(reading.logits, plain.logits(PROMPT, states[:-1])[-1:]) < CLOSE


def test_the_blocks_cache_is_its_own_and_begins_at_position_1(pair: tuple[Path, PlainPrediction]) -> None:
    path, _ = pair
    model = ReferenceModel(path)
    block = model.hyperparameters.layers
    model.predict(PROMPT[1:], target_states(model)[:-1])
    kept = {position for layer, _, position in model.cache.keys if layer == block}
    assert kept == set(range(1, len(PROMPT)))


def test_a_block_that_is_not_there_is_not_built(tmp_path: Path) -> None:
    write_hybrid(tmp_path / "tiny.gguf", TinyHybrid("qwen35", prediction=1))
    model = ReferenceModel(tmp_path / "tiny.gguf")
    with pytest.raises(IndexError, match="prediction block 1 of 1"):
        build_prediction(model.hyperparameters, frozenset(model.weights), 1)


def test_states_of_another_shape_are_refused(tmp_path: Path) -> None:
    write_hybrid(tmp_path / "tiny.gguf", TinyHybrid("qwen35", prediction=1))
    model = ReferenceModel(tmp_path / "tiny.gguf")
    with pytest.raises(ValueError, match=r"expected shape \(3, 64\), found shape \(2, 64\)"):
        model.predict(PROMPT[1:4], np.zeros((2, 64), np.float32))

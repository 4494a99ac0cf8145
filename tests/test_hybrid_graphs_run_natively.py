"""Hybrid graphs on native kernels: what the reference computes, the same bits however a text is cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from native_graphs import pool
from reference_model import ReferenceModel
from tiny_hybrid import HYBRIDS, TOKENS, wide_hybrid, write_hybrid
from verispec import _native
from verispec.backends.contract import chain
from verispec.backends.native import NativeBackend
from verispec.backends.native_plan import ModelPlan, plan_model, plan_prediction
from verispec.models.memory import kept_positions
from verispec.ops.contract import AFTER_FINAL_NORM
from verispec.ops.native import NativePasses, PassKind
from verispec.ops.native_weights import load_weights

Floats = npt.NDArray[np.float32]

SHORT = {"layers": 2, "interval": 2, "experts": 4, "prediction": 1}
MODELS = {
    **HYBRIDS,
    "dense in Q4_K": wide_hybrid("qwen35", matrices="Q4_K", head="Q6_K", draft_head="Q4_K", **SHORT),
    "experts in Q8_0": wide_hybrid("qwen35moe", matrices="Q8_0", **SHORT),
    "grouped heads in Q6_K": wide_hybrid("qwen3next", matrices="Q6_K", **SHORT),
}
PROMPT = TOKENS[:40]
QUANTISED = ("dense in Q4_K", "experts in Q8_0", "grouped heads in Q6_K")


def relative_error(found: Floats, expected: Floats) -> float:
    """Root mean square of the difference over that of the values."""
    difference = found.astype(np.float64) - expected
    return float(np.sqrt((difference**2).mean() / (expected.astype(np.float64) ** 2).mean()))


def prediction_passes(plan: ModelPlan) -> NativePasses:
    """The prediction block by itself, over a cache of its own."""
    model = plan.model
    kept = kept_positions(model, plan.limits)
    layers = [(model.kv_heads, model.head_dim, positions) if positions else (0, 0, 0) for positions in kept]
    cache = _native.KvCache(1, plan.limits.context, layers)
    weights = load_weights(plan.file, plan.tensors, pool(1))
    return NativePasses(plan_prediction(plan).run, weights, cache, pool(1))


def predicted(passes: NativePasses, hidden: Floats, cuts: Sequence[int]) -> tuple[Floats, Floats]:
    """Logits and hidden states of the block over ``TOKENS[1:]``, evaluated in passes of ``cuts`` rows."""
    logits, kept, begin = [], [], 0
    for rows in cuts:
        program = passes.program(PassKind(rows, rows, True, frozenset({AFTER_FINAL_NORM})))
        part = range(begin, begin + rows)
        cells = [(0, row + 1, TOKENS[row + 1], -1) for row in part]
        given = np.ascontiguousarray(hidden[begin : begin + rows])
        program.evaluate(cells, list(range(rows)), inputs=[given])
        logits.append(program.logits().copy())
        kept.append(program.hidden(AFTER_FINAL_NORM).copy())
        begin += rows
    return np.concatenate(logits), np.concatenate(kept)


@pytest.mark.parametrize("name", MODELS)
def test_trunk_and_prediction_agree_with_the_reference(name: str, tmp_path: Path) -> None:
    """Activations between two int8 values may round to either side, so quantised types differ by more."""
    path = tmp_path / "tiny.gguf"
    write_hybrid(path, MODELS[name])
    tolerance = 1e-2 if name in QUANTISED else 3e-5
    reference = ReferenceModel(path)
    expected = reference.run(PROMPT, taps=reference.decoder.taps)
    backend = NativeBackend.load(path, threads=1)
    rows = chain(backend.open_sequence(), 0, PROMPT)
    found = backend.evaluate(rows, range(len(rows)), True, reference.decoder.taps)
    assert found.logits is not None
    assert expected.logits is not None
    assert relative_error(found.logits, expected.logits) < tolerance
    for tap, values in expected.hidden.items():
        assert relative_error(found.hidden[tap], values) < tolerance, tap
    backend.close()
    if MODELS[name].prediction:
        hidden = expected.hidden[AFTER_FINAL_NORM]
        restated = reference.predict(PROMPT[1:], hidden[:-1])
        assert restated.logits is not None
        logits, kept = predicted(prediction_passes(plan_model(path)), hidden[:-1], [len(PROMPT) - 1])
        assert relative_error(logits, restated.logits) < tolerance
        assert relative_error(kept, restated.hidden[AFTER_FINAL_NORM]) < tolerance


def trunk_bits(path: Path, cuts: Sequence[int], threads: int, isa: str | None) -> bytes:
    """Every row's logits, ``TOKENS`` evaluated and committed in passes of ``cuts`` rows."""
    backend = NativeBackend(plan_model(path, sequences=1), threads, isa)
    sequence, rows = backend.open_sequence(), []
    for begin, count in zip(np.cumsum([0, *cuts[:-1]]).tolist(), cuts, strict=True):
        part = chain(sequence, begin, TOKENS[begin : begin + count])
        found = backend.evaluate(part, range(count), True)
        assert found.logits is not None
        rows.append(found.logits.copy())
        backend.commit(sequence, begin + count)
    backend.close()
    return np.concatenate(rows).tobytes()


@pytest.mark.parametrize("name", QUANTISED)
def test_the_same_bits_however_a_text_is_cut(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_hybrid(path, MODELS[name])
    expected = trunk_bits(path, (1,) * 70, 1, None)
    assert trunk_bits(path, (40, 1, 23, 1, 5), 2, None) == expected
    for isa in _native.available_isas():
        assert trunk_bits(path, (64, 6), 3, isa) == expected, isa


@pytest.mark.parametrize("name", QUANTISED)
def test_predictions_are_the_same_bits_however_they_are_cut(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_hybrid(path, MODELS[name])
    passes = prediction_passes(plan_model(path))
    hidden = np.random.default_rng(5).normal(0, 1, (69, MODELS[name].hidden)).astype(np.float32)
    whole, kept = predicted(passes, hidden, [69])
    for cuts in ([1] * 69, [30, 1, 38], [16, 16, 16, 16, 5]):
        logits, states = predicted(passes, hidden, cuts)
        assert logits.tobytes() == whole.tobytes()
        assert states.tobytes() == kept.tobytes()


@pytest.mark.parametrize("name", QUANTISED)
def test_passes_fit_the_workspace_that_was_stated(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_hybrid(path, MODELS[name])
    plan = plan_model(path)
    backend = NativeBackend(plan, threads=2)
    passes = backend._passes
    assert passes is not None
    for rows, outputs, logits in ((128, 0, False), (128, 128, False), (32, 32, True)):
        trunk = passes.program(PassKind(rows, outputs, logits, frozenset({AFTER_FINAL_NORM})))
        block = prediction_passes(plan).program(PassKind(rows, min(outputs, 1), logits, frozenset()))
        assert trunk.workspace_bytes + block.workspace_bytes <= plan.need.workspace
    backend.close()

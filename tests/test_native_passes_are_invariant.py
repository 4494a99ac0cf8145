"""C1 and C3 for whole passes: a small model gives the same bits however its rows are cut into passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_graphs import TYPES, ids, pool
from tiny_llama import VOCABULARY, tiny_llama
from verispec import _native
from verispec.artifacts.tensor_types import TensorType
from verispec.backends.native_plan import ModelPlan, plan_decoder, plan_model
from verispec.ops.native import NativePasses, PassKind
from verispec.ops.native_weights import load_weights

LENGTH = 48
TOKENS = np.random.default_rng(7).integers(0, VOCABULARY, LENGTH).astype(np.int32)


@pytest.fixture(name="plan", scope="module")
def fixture_plan(tmp_path_factory: pytest.TempPathFactory) -> ModelPlan:
    path: Path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    path.write_bytes(tiny_llama())
    return plan_model(path, 64, 2)


def evaluate(
    plan: ModelPlan, cuts: Sequence[int], threads: int, isa: str | None = None
) -> tuple[bytes, list[int]]:
    """Logits and hidden states of all positions, and the tokens chosen, from passes of ``cuts`` rows."""
    weights = load_weights(plan.file, plan.tensors, pool(1))
    cache = _native.KvCache(2, 64, [(plan.model.kv_heads, plan.model.head_dim, 64)] * plan.model.layers)
    passes = NativePasses(plan_decoder(plan).run, weights, cache, pool(threads), isa)
    parts, chosen, begin = [], [], 0
    for rows in cuts:
        part = slice(begin, begin + rows)
        program = passes.program(PassKind(rows, rows, True, frozenset({0, 1, -1})))
        places = ids(range(part.start, part.stop))
        program.run(TOKENS[part], places, np.ones(rows, np.int32), ids(range(rows)))
        parts.append(np.hstack([program.logits(), program.hidden(0), program.hidden(1), program.hidden(-1)]))
        chosen += program.argmax
        begin += rows
    assert begin == LENGTH
    return np.concatenate(parts).tobytes(), chosen


@pytest.fixture(name="alone", scope="module")
def fixture_alone(plan: ModelPlan) -> tuple[bytes, list[int]]:
    """One row a pass, one thread."""
    return evaluate(plan, [1] * LENGTH, 1)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_cut_on_any_threads_and_isa(
    plan: ModelPlan, alone: tuple[bytes, list[int]], data: st.DataObject
) -> None:
    cuts: list[int] = []
    while sum(cuts) < LENGTH:
        cuts.append(data.draw(st.integers(1, min(16, LENGTH - sum(cuts))), "rows"))
    threads = data.draw(st.integers(1, 4), "threads")
    isa = data.draw(st.sampled_from(_native.available_isas()), "isa")
    assert evaluate(plan, cuts, threads, isa) == alone


def test_rows_without_an_output_and_without_logits(plan: ModelPlan, alone: tuple[bytes, list[int]]) -> None:
    """The lean programs, in which unwanted rows leave early, choose the same tokens."""
    weights = load_weights(plan.file, plan.tensors, pool(1))
    cache = _native.KvCache(1, 64, [(plan.model.kv_heads, plan.model.head_dim, 64)] * plan.model.layers)
    passes = NativePasses(plan_decoder(plan).run, weights, cache, pool(2))
    for begin in range(0, LENGTH, 12):
        part = slice(begin, begin + 12)
        outputs = [] if begin < 12 else [3, 11]
        program = passes.program(PassKind(12, len(outputs), False, frozenset()))
        program.run(TOKENS[part], ids(range(begin, begin + 12)), np.zeros(12, np.int32), ids(outputs))
        assert program.argmax == [alone[1][begin + output] for output in outputs]


@pytest.mark.parametrize("kind", TYPES)
def test_packed_weights_take_little_more_than_the_file(kind: str) -> None:
    file_bytes = 1024 * TensorType[kind].row_bytes(1536)
    assert file_bytes <= _native.Weights.packed_size(kind, 1024, 1536) <= 1.05 * file_bytes

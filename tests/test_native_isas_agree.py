"""C3: every instruction set gives the same bits."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_graphs import TYPES, block_of, evaluate, ids, matrix, pack, rows_of, same_bits, vector
from verispec import _native

ISAS = _native.available_isas()


def digest(arrays: list[np.ndarray]) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def test_the_best_isa_is_the_default_and_each_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERISPEC_ISA", raising=False)
    assert _native.resolve_isa() == ISAS[0]
    for isa in ISAS:
        monkeypatch.setenv("VERISPEC_ISA", isa)
        assert _native.resolve_isa() == isa
    monkeypatch.setenv("VERISPEC_ISA", "sse9")
    with pytest.raises(ValueError, match=r"VERISPEC_ISA: expected .*portable.*, found 'sse9'"):
        _native.resolve_isa()


@settings(max_examples=40, deadline=None)
@given(data=st.data(), kind=st.sampled_from(TYPES))
def test_linear_of_any_shape(data: st.DataObject, kind: str) -> None:
    block = block_of(kind)
    inputs = block * data.draw(st.integers(1, max(1, 512 // block)), "blocks")
    outputs = data.draw(st.integers(1, 40), "outputs")
    rows = data.draw(st.integers(1, 20), "rows")
    weights = [matrix(kind, outputs, inputs)]
    x = rows_of(rows, inputs, rows)
    found = {
        isa: digest(evaluate(lambda program, ins: program.linear(ins[0], weights), [x], isa=isa))
        for isa in ISAS
    }
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("rows", "inputs"), [(64, 256), (79, 768), (150, 256), (65, 2304)])
def test_linear_of_many_rows(kind: str, rows: int, inputs: int) -> None:
    weights = [matrix(kind, 21, inputs)]
    x = rows_of(rows, inputs, rows)
    found = {
        isa: digest(evaluate(lambda program, ins: program.linear(ins[0], weights), [x], isa=isa))
        for isa in ISAS
    }
    assert len(set(found.values())) == 1, found


def test_integer_dot_does_not_saturate() -> None:
    """Extreme codes against extreme activations, where a 16-bit pairwise sum would overflow."""
    stored = np.zeros((16, 8, 34), np.uint8)
    stored[..., :2] = np.float16(1).view(np.uint16).reshape(1).view(np.uint8)
    codes = np.array([127, -127, -128], np.int8)[np.arange(16) % 3]
    stored[..., 2:] = codes[:, None, None].view(np.uint8)
    weights = [pack("Q8_0", stored.reshape(16, -1), 256)]
    for sign in (1, -1):
        x = np.full((66, 256), 127.0 * sign, np.float32)
        for isa in ISAS:
            (result,) = evaluate(lambda p, ins: p.linear(ins[0], weights), [x], isa=isa)
            expected = 127.0 * sign * codes.astype(np.float64) * 256
            assert np.array_equal(result.astype(np.float64), np.stack([expected] * 66)), isa


def test_row_operations_and_attention() -> None:
    cache_shape = [(2, 48, 64)]

    def graph(program: _native.Program, x: list[int]) -> list[int]:
        cache = _native.KvCache(1, 64, cache_shape)
        normed = program.rms_norm(x[0], vector(48), 1e-6, 4)
        attended = program.attention(normed, x[1], x[2], cache, 0, 4, 0.2, 0, 30.0)
        capped = program.softcap(attended, 3.0)
        return [
            normed,
            attended,
            capped,
            program.swiglu(capped, x[0]),
            program.geglu(x[0], program.add(capped, x[0])),
        ]

    inputs = [rows_of(50, 192, 3), rows_of(50, 96, 4), rows_of(50, 96, 5)]
    found = {isa: digest(evaluate(graph, inputs, isa=isa, threads=2)) for isa in ISAS}
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("kind", TYPES)
def test_embedding(kind: str) -> None:
    table = matrix(kind, 50, 256)
    found = [
        evaluate(lambda p, _: [p.embedding(table, 0.7)], [], tokens=ids(range(50)), rows=50, isa=isa)[0]
        for isa in ISAS
    ]
    assert all(same_bits(found[0], other) for other in found[1:])


def test_hostile_values_agree_too() -> None:
    """Infinities, NaN, denormals and the largest finite numbers through every row operation."""
    extremes = [0.0, -0.0, 1e-45, -1e-40, 3.4e38, -3.4e38, np.inf, -np.inf, 88.8, -103.9, 1e-30, 65504.0]
    x = np.resize(np.array(extremes, np.float32), (3, 64))

    def graph(program: _native.Program, ins: list[int]) -> list[int]:
        return [program.swiglu(ins[0], ins[0]), program.geglu(ins[0], ins[0]), program.softcap(ins[0], 30.0)]

    results = [evaluate(graph, [x], isa=isa) for isa in ISAS]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert np.array_equal(a, b, equal_nan=True)

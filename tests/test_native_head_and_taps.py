"""The end of a pass: output rows, argmax with and without logits, soft-cap, and hidden states."""

from __future__ import annotations

import numpy as np
import pytest

from native_graphs import ids, matrix, matrix_bytes, pack, pool, rows_of, same_bits
from verispec import _native

WIDTH, VOCABULARY = 64, 1003


def run_head(
    x: np.ndarray,
    outputs: list[int],
    weight: _native.Matrix,
    *,
    logits: bool,
    softcap: float = 0.0,
    threads: int = 1,
    isa: str | None = None,
) -> _native.Program:
    program = _native.Program(pool(threads), _native.Workspace(), x.shape[0], len(outputs), logits, isa)
    program.output_head(program.select_outputs(program.input(x.shape[1])), weight, None, softcap)
    program.finish()
    zeros = np.zeros(x.shape[0], np.int32)
    program.run(zeros, zeros, zeros, ids(outputs), [x])
    return program


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "F16"])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_argmax_is_the_same_with_and_without_logits_and_for_any_outputs(kind: str, threads: int) -> None:
    weight = matrix(kind, VOCABULARY, WIDTH)
    x = rows_of(16, WIDTH)
    alone = [run_head(x[row : row + 1], [0], weight, logits=True) for row in range(16)]
    for outputs in ([3], [15, 0], list(range(16)), [5] * 4, list(range(16)) * 3):
        lean = run_head(x, outputs, weight, logits=False, threads=threads)
        full = run_head(x, outputs, weight, logits=True, threads=threads)
        assert lean.argmax == full.argmax == [alone[row].argmax[0] for row in outputs]
        assert same_bits(full.logits(), np.concatenate([alone[row].logits() for row in outputs]))
        assert full.argmax == full.logits().argmax(axis=1).tolist()


def test_equal_logits_give_the_lowest_token() -> None:
    """Every row of the matrix occurs many times, in different chunks and groups."""
    stored = np.tile(matrix_bytes("Q8_0", 59, WIDTH, 0), (17, 1))
    x = rows_of(4, WIDTH)
    for isa in _native.available_isas():
        program = run_head(x, [0, 1, 2, 3], pack("Q8_0", stored, WIDTH), logits=False, threads=3, isa=isa)
        assert all(token < 59 for token in program.argmax)
        assert program.argmax == run_head(x, [0, 1, 2, 3], matrix("Q8_0", 59, WIDTH), logits=True).argmax


def test_argmax_is_taken_before_the_soft_cap() -> None:
    """A cap so low that float32 merges all large logits must not move the choice."""
    weight = matrix("Q8_0", VOCABULARY, WIDTH)
    x = rows_of(3, WIDTH) * np.float32(100)
    plain = run_head(x, [0, 1, 2], weight, logits=True)
    capped = run_head(x, [0, 1, 2], weight, logits=True, softcap=0.5)
    lean = run_head(x, [0, 1, 2], weight, logits=False, softcap=0.5)
    assert plain.argmax == capped.argmax == lean.argmax
    assert capped.logits().argmax(axis=1).tolist() != plain.argmax  # the merge does happen here
    assert np.abs(capped.logits() - 0.5 * np.tanh(plain.logits() / 0.5)).max() < 1e-6


def test_a_view_outlives_its_program_and_workspace() -> None:
    view = run_head(rows_of(2, WIDTH), [0, 1], matrix("F32", VOCABULARY, WIDTH), logits=True).logits()
    assert not view.flags.writeable
    assert np.isfinite(view.sum())


def test_tap_keeps_what_a_rotation_would_overwrite() -> None:
    table = _native.RopeTable([1.0, 0.1], 1.0, True, 16)
    program = _native.Program(pool(1), _native.Workspace(), 2, 0)
    x = program.input(8)
    program.tap(x, 0)
    program.tap(program.rope(x, 2, table), 1)
    program.finish()
    values = rows_of(2, 8)
    program.run(ids([0, 0]), ids([3, 4]), ids([0, 0]), ids([]), [values])
    assert same_bits(program.hidden(0), values)
    assert not same_bits(program.hidden(1), values)


def test_programs_share_a_workspace() -> None:
    """A bigger program recorded later moves the memory; the smaller one still runs right."""
    workspace = _native.Workspace()
    weight = matrix("Q8_0", VOCABULARY, WIDTH)
    programs = []
    for rows in (1, 16):
        program = _native.Program(pool(2), workspace, rows, rows, True)
        program.output_head(program.select_outputs(program.input(WIDTH)), weight)
        program.finish()
        programs.append(program)
    x = rows_of(16, WIDTH)
    for program in (programs[0], programs[1], programs[0]):
        rows = program.rows
        zeros = np.zeros(rows, np.int32)
        program.run(zeros, zeros, zeros, ids(range(rows)), [x[:rows]])
        assert same_bits(program.logits()[:1], run_head(x[:1], [0], weight, logits=True).logits())

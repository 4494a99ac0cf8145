"""C1: a row's result has the same bits alone, among other rows, and on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_graphs import (
    TYPES,
    Graph,
    block_of,
    evaluate,
    ids,
    matrix,
    rows_of,
    same_bits,
    vector,
)
from verispec import _native

ROW_GRAPHS: dict[str, Graph] = {
    "rms_norm": lambda p, x: [p.rms_norm(x[0], vector(224), 1e-5)],
    "rms_norm by heads": lambda p, x: [p.rms_norm(x[0], vector(56), 1e-5, 4)],
    "add": lambda p, x: [p.add(x[0], x[1])],
    "scale": lambda p, x: [p.scale(x[0], 0.3)],
    "softcap": lambda p, x: [p.softcap(x[0], 2.5)],
    "swiglu": lambda p, x: [p.swiglu(x[0], x[1])],
    "geglu": lambda p, x: [p.geglu(x[0], x[1])],
}


def assert_rows_alone_agree(graph: Graph, inputs: list[np.ndarray], threads: int) -> None:
    together = evaluate(graph, inputs, threads=threads)
    for row in range(inputs[0].shape[0]):
        position = ids([row])
        alone = evaluate(graph, [x[row : row + 1] for x in inputs], positions=position)
        for several, one in zip(together, alone, strict=True):
            assert same_bits(several[row : row + 1], one), f"row {row}"


@pytest.mark.parametrize("name", ROW_GRAPHS)
@pytest.mark.parametrize("rows", [1, 2, 7, 16])
def test_row_operations(name: str, rows: int) -> None:
    inputs = [rows_of(rows, 224, 1), rows_of(rows, 224, 2)]
    assert_rows_alone_agree(ROW_GRAPHS[name], inputs, threads=1 + rows % 4)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_linear_of_every_type_over_1_to_16_rows(kind: str, threads: int) -> None:
    weights = [matrix(kind, 45, 256), matrix(kind, 80, 256, 1)]
    bias = vector(80)

    def graph(program: _native.Program, x: list[int]) -> list[int]:
        return program.linear(x[0], weights, [None, bias])

    x = rows_of(16, 256)
    alone = [evaluate(graph, [x[row : row + 1]]) for row in range(16)]
    for rows in range(1, 17):
        together = evaluate(graph, [x[:rows]], threads=threads)
        for part in range(2):
            expected = np.concatenate([alone[row][part] for row in range(rows)])
            assert same_bits(together[part], expected), f"{rows} rows, matrix {part}"


@settings(max_examples=60, deadline=None)
@given(data=st.data(), kind=st.sampled_from(TYPES))
def test_linear_of_any_shape(data: st.DataObject, kind: str) -> None:
    block = block_of(kind)
    inputs = block * data.draw(st.integers(1, max(1, 512 // block)), "blocks")
    outputs = data.draw(st.integers(1, 70), "outputs")
    rows = data.draw(st.integers(1, 40), "rows")
    threads = data.draw(st.integers(1, 4), "threads")
    weights = [matrix(kind, outputs, inputs)]
    x = rows_of(rows, inputs, rows)
    assert_rows_alone_agree(lambda program, ins: program.linear(ins[0], weights), [x], threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_feed_forward_with_work_done_inside_chunks(threads: int) -> None:
    """Activation, quantisation and residual of a feed-forward run on columns as soon as a chunk has them."""
    gate, up, down = matrix("Q4_1", 160, 96), matrix("Q8_0", 160, 96), matrix("Q5_0", 96, 160)

    def graph(program: _native.Program, x: list[int]) -> list[int]:
        opened = program.linear(program.rms_norm(x[0], vector(96), 1e-5), [gate, up])
        (closed,) = program.linear(program.swiglu(*opened), [down])
        return [program.add(closed, x[0])]

    for rows in (1, 5, 16, 19):
        assert_rows_alone_agree(graph, [rows_of(rows, 96)], threads)


@pytest.mark.parametrize("window", [0, 24])
@pytest.mark.parametrize("threads", [1, 3])
def test_attention_row_by_row_and_all_at_once(window: int, threads: int) -> None:
    """A pass of 1 to 16 rows over a shared prefix equals the same rows one pass at a time, in two slots."""
    heads, kv_heads, head_dim = 6, 2, 40
    length = 70

    def passes(sizes: list[int], threads: int) -> np.ndarray:
        cache = _native.KvCache(2, 128, [(kv_heads, head_dim, 48 if window else 128)])

        def graph(program: _native.Program, x: list[int]) -> list[int]:
            return [program.attention(x[0], x[1], x[2], cache, 0, heads, 0.16, window)]

        widths = [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]
        whole = [rows_of(2 * length, width, seed) for seed, width in enumerate(widths)]
        slots, positions = ids([0, 1] * length), ids(np.repeat(np.arange(length), 2))
        results, begin = [], 0
        while begin < 2 * length:
            end = min(begin + sizes[len(results) % len(sizes)], 2 * length)
            part = slice(begin, end)
            results += evaluate(
                graph, [x[part] for x in whole], threads=threads, positions=positions[part], slots=slots[part]
            )
            begin = end
        return np.concatenate(results)

    alone = passes([1], 1)
    for sizes in ([16], list(range(1, 17)), [7, 3, 12]):
        assert same_bits(passes(sizes, threads), alone), f"passes of {sizes} rows"


@pytest.mark.parametrize("rows", [1, 6, 16])
def test_embedding(rows: int) -> None:
    tokens = ids(np.arange(rows) * 5 % 77)
    for kind in TYPES:
        table = matrix(kind, 77, 256)
        together = evaluate(lambda p, _: [p.embedding(table, 1.5)], [], tokens=tokens, rows=rows, threads=2)  # noqa: B023
        for row in range(rows):
            alone = evaluate(lambda p, _: [p.embedding(table, 1.5)], [], tokens=tokens[row : row + 1], rows=1)  # noqa: B023
            assert same_bits(together[0][row : row + 1], alone[0])

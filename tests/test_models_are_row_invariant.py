"""C1 end to end: logits are the same bits for every cut of a text into passes and every thread count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tiny_models import VOCABULARY, TinyModel, write_model
from verispec import _native
from verispec.backends.contract import Row, chain
from verispec.backends.native import NativeBackend
from verispec.backends.native_plan import plan_model

DATA = Path(__file__).parent / "data"
FIXTURES = {"smollm2-135m": "smollm2_path", "gemma3-270m": "gemma3_path"}

Bits = list[bytes]


def golden_tokens(name: str) -> list[int]:
    tokens: list[int] = json.loads((DATA / f"golden_{name}.json").read_text())["tokens"]
    return tokens


def bits(values: npt.NDArray[np.float32] | None) -> Bits:
    assert values is not None
    return [row.tobytes() for row in values]


def evaluated(backend: NativeBackend, tokens: Sequence[int], cuts: Sequence[int]) -> Bits:
    """Each row's logits, ``tokens`` evaluated and committed in passes of ``cuts`` rows, over and over."""
    sequence = backend.open_sequence()
    rows: Bits = []
    turn = 0
    while len(rows) < len(tokens):
        part = tokens[len(rows) : len(rows) + cuts[turn % len(cuts)]]
        found = backend.evaluate(chain(sequence, len(rows), part), range(len(part)), True)
        assert found.logits is not None
        assert found.argmax == found.logits.argmax(axis=1).tolist()
        rows += bits(found.logits)
        backend.commit(sequence, len(rows))
        turn += 1
    backend.close_sequence(sequence)
    return rows


@pytest.mark.parametrize("name", FIXTURES)
def test_every_row_count_and_thread_count_gives_the_same_bits(
    name: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(FIXTURES[name])
    tokens = golden_tokens(name)[:20]
    expected: Bits = []
    for threads in range(1, 5):
        backend = NativeBackend.load(path, ctx=64, threads=threads)
        for rows in range(1, 17) if threads == 2 else (1, 3, 16):
            found = evaluated(backend, tokens, [rows])
            expected = expected or found
            assert found == expected, f"{rows} rows, {threads} threads"
        backend.close()


@pytest.mark.parametrize("name", FIXTURES)
def test_a_long_prompt_can_be_cut_in_any_way(name: str, request: pytest.FixtureRequest) -> None:
    """Past the sliding window too: the last rows' logits are the same bits."""
    path = request.getfixturevalue(FIXTURES[name])
    tokens = golden_tokens(name)[:640]
    backend = NativeBackend.load(path, ctx=1024, threads=2)
    found = []
    for cuts in ([128], [97, 16, 1, 61], [640]):
        sequence = backend.open_sequence()
        length, turn = 0, 0
        while length < len(tokens) - 3:
            part = tokens[length : length + cuts[turn % len(cuts)]][: len(tokens) - 3 - length]
            backend.evaluate(chain(sequence, length, part), (), False)
            length, turn = length + len(part), turn + 1
            backend.commit(sequence, length)
        last = backend.evaluate(chain(sequence, length, tokens[length:]), range(3), True)
        found.append(bits(last.logits))
        backend.close_sequence(sequence)
    assert found[0] == found[1] == found[2]
    backend.close()


SMALL = {
    "llama": TinyModel("llama", matrices="Q4_K", head="Q6_K", rope_factors=True),
    "qwen3": TinyModel("qwen3", matrices="Q5_1"),
    "gemma3": TinyModel("gemma3", matrices="Q8_0", window=20, period=3, layers=4),
}
TOKENS = np.random.default_rng(6).integers(0, VOCABULARY, 220).tolist()


@pytest.mark.parametrize("model", SMALL.values(), ids=SMALL)
def test_small_models_under_every_instruction_set(model: TinyModel, tmp_path: Path) -> None:
    write_model(tmp_path / "tiny.gguf", model)
    isas = _native.available_isas()
    found = {}
    for isa in isas:
        backend = NativeBackend(plan_model(tmp_path / "tiny.gguf", sequences=2), threads=2, isa=isa)
        for cuts in ([1], [7], [128], [16, 3, 90]) if isa == isas[0] else ([128], [61]):
            found[isa, str(cuts)] = evaluated(backend, TOKENS, cuts)
        backend.close()
    assert all(value == found[isas[0], "[1]"] for value in found.values())


@pytest.mark.parametrize("model", SMALL.values(), ids=SMALL)
def test_neighbours_of_other_sequences_change_nothing(model: TinyModel, tmp_path: Path) -> None:
    write_model(tmp_path / "tiny.gguf", model)
    backend = NativeBackend.load(tmp_path / "tiny.gguf", threads=2)
    alone = evaluated(backend, TOKENS[:90], [5])
    first, second = backend.open_sequence(), backend.open_sequence()
    together: Bits = []
    for start in range(0, 90, 5):
        rows: list[Row] = []
        for index in range(5):  # interleaved, the second sequence in another text
            parents = (-1, -1) if index == 0 else (len(rows) - 2, len(rows) - 1)
            rows.append(Row(first, start + index, TOKENS[start + index], parents[0]))
            rows.append(Row(second, start + index, TOKENS[start + index + 100], parents[1]))
        found = backend.evaluate(rows, range(0, 10, 2), True)
        together += bits(found.logits)
        backend.commit(first, start + 5)
        backend.commit(second, start + 5)
    assert together == alone
    backend.close()

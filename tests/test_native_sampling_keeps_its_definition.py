"""The native sampler chooses what its definition chooses, on every instruction set and in any order of calls."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sampling_restated as restated
from sampling_restated import Restated
from verispec import _native

ISAS = _native.available_isas()


def native(parameters: Restated, isa: str | None = None) -> _native.Sampler:
    return _native.Sampler(**asdict(parameters), isa=isa)


def some_logits(seed: int, size: int, spread: float, quantum: float = 0.0) -> np.ndarray:
    row = np.random.default_rng(seed).normal(0.0, spread, size).astype(np.float32)
    return np.round(row / quantum).astype(np.float32) * np.float32(quantum) if quantum else row


@pytest.mark.parametrize("token", [0, 1, 49151, 2**31 - 1])
@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_noise_is_the_published_function(seed: int, token: int) -> None:
    for choice, position in [(0, 0), (3, 17), (1, 2**40)]:
        expected = restated.gumbel(seed, choice, position, token)
        assert _native.gumbel(seed, choice, position, token) == pytest.approx(expected, rel=1e-13)


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**64 - 1),
    size=st.integers(1, 400),
    spread=st.sampled_from([0.0, 0.5, 2.0, 8.0]),
    quantum=st.sampled_from([0.0, 1.0]),
    temperature=st.sampled_from([0.0, 0.05, 0.8, 1.0, 5.0]),
    top_k=st.sampled_from([0, 1, 2, 7, 50, 1000]),
    top_p=st.sampled_from([1.0, 0.999, 0.9, 0.5, 1e-9]),
    min_p=st.sampled_from([0.0, 0.01, 0.2, 1.0]),
)
@example(  # two tokens of half the mass each, but for the 2e-9 that a third one has
    seed=67, size=3, spread=2.0, quantum=1.0, temperature=0.05, top_k=0, top_p=0.5, min_p=0.0
)
def test_filters_and_temperature(
    seed: int,
    size: int,
    spread: float,
    quantum: float,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
) -> None:
    parameters = Restated(temperature, top_k, top_p, min_p, seed=seed)
    logits = some_logits(seed % 1000, size, spread, quantum)
    expected = [parameters.choose(logits, position) for position in range(3)]
    for isa in ISAS:
        sampler = native(parameters, isa)
        assert [sampler.choose(logits, position) for position in range(3)] == expected


@settings(deadline=None, max_examples=100)
@given(
    data=st.data(),
    temperature=st.sampled_from([0.0, 1.0]),
    repetition=st.sampled_from([1.0, 1.3, 0.7]),
    presence=st.sampled_from([0.0, 1.5, -1.0]),
    frequency=st.sampled_from([0.0, 0.5]),
)
def test_bias_and_penalties(
    data: st.DataObject, temperature: float, repetition: float, presence: float, frequency: float
) -> None:
    size = data.draw(st.integers(1, 60))
    token = st.integers(0, size - 1)
    prompt, output = data.draw(st.lists(token, max_size=20)), data.draw(st.lists(token, max_size=20))
    bias = data.draw(st.dictionaries(token, st.sampled_from([-100.0, -1.0, 0.7, 100.0]), max_size=4))
    parameters = Restated(
        temperature=temperature,
        repetition_penalty=repetition,
        presence_penalty=presence,
        frequency_penalty=frequency,
        logit_bias=tuple(bias.items()),
        seed=data.draw(st.integers(0, 100)),
    )
    logits = some_logits(size, size, 2.0)
    history = _native.TokenHistory(prompt)
    history.append([*output, *prompt])
    history.truncate(len(output))  # what was cut off again leaves no trace
    assert len(history) == len(output)
    assert native(parameters).choose(logits, 5, history) == parameters.choose(logits, 5, prompt, output)


def bits(allowed: Collection[int], size: int) -> npt.NDArray[np.uint32]:
    words = np.zeros((size + 31) // 32, np.uint32)
    for token in allowed:
        words[token // 32] |= np.uint32(1 << token % 32)
    return words


@settings(deadline=None, max_examples=150)
@given(
    data=st.data(),
    spread=st.sampled_from([0.0, 2.0, 8.0]),
    quantum=st.sampled_from([0.0, 1.0]),
    temperature=st.sampled_from([0.0, 0.8, 5.0]),
    top_k=st.sampled_from([0, 1, 7, 1000]),
    top_p=st.sampled_from([1.0, 0.9, 1e-9]),
    min_p=st.sampled_from([0.0, 0.2]),
    presence=st.sampled_from([0.0, 1.5]),
)
def test_a_choice_among_some_tokens_is_the_same_definition_over_those(
    data: st.DataObject,
    spread: float,
    quantum: float,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    presence: float,
) -> None:
    size = data.draw(st.integers(1, 200))
    allowed = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
    output = data.draw(st.lists(st.integers(0, size - 1), max_size=8))
    parameters = Restated(temperature, top_k, top_p, min_p, presence_penalty=presence, seed=size)
    logits = some_logits(size, size, spread, quantum)
    history = _native.TokenHistory([])
    history.append(output)
    for position in range(3):
        expected = parameters.choose(logits, position, (), output, allowed)
        for isa in ISAS:
            found = native(parameters, isa).choose(logits, position, history, bits(allowed, size))
            assert found == expected


def test_a_mask_acts_over_a_large_vocabulary_and_leaves_the_logits_as_they_are() -> None:
    size = 50_001
    logits = some_logits(9, size, 3.0)
    before = logits.copy()
    words = np.random.default_rng(4).integers(0, 2**32, (size + 31) // 32, np.uint32)
    inside = np.unpackbits(words.view(np.uint8), bitorder="little")[:size].astype(bool)
    noise = np.array([restated.gumbel(7, 0, 5, token) for token in range(size)])
    heights = np.where(inside, logits.astype(np.float64) / 0.9 + noise, -np.inf)
    for isa in ISAS:
        sampler = _native.Sampler(temperature=0.9, seed=7, isa=isa)
        assert sampler.choose(logits, 5, None, words) == int(np.argmax(heights))
        greedy = _native.Sampler(temperature=0.0, isa=isa)
        assert greedy.choose(logits, 5, None, words) == int(np.argmax(np.where(inside, logits, -np.inf)))
    assert np.array_equal(logits, before)


def test_nothing_can_be_chosen_where_nothing_allowed_has_a_finite_logit() -> None:
    logits = np.array([1.0, -np.inf, 2.0], np.float32)
    for allowed in (bits([], 3), bits([1], 3), np.array([~7 & 2**32 - 1], np.uint32)):
        with pytest.raises(ValueError, match="finite greatest"):
            _native.Sampler().choose(logits, 0, None, allowed)
    assert _native.Sampler().choose(np.array([1.0, np.inf], np.float32), 0, None, bits([0], 2)) == 0


@pytest.mark.parametrize("words", [0, 1, 3])
def test_a_mask_of_another_size_is_refused(words: int) -> None:
    with pytest.raises(ValueError, match=f"2 words, found {words}"):
        _native.Sampler().choose(np.zeros(40, np.float32), 0, None, np.zeros(words, np.uint32))


@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0, 12.0])
def test_no_possible_winner_is_passed_by(spread: float) -> None:
    """The kernel skips tokens by a bound; over a large vocabulary the winner must be the true one."""
    logits = some_logits(3, 20_000, spread)
    for position in range(3):
        noise = np.array([restated.gumbel(7, 1, position, token) for token in range(len(logits))])
        expected = int(np.argmax(logits.astype(np.float64) / 0.9 + noise))
        for isa in ISAS:
            sampler = _native.Sampler(temperature=0.9, seed=7, choice=1, isa=isa)
            assert sampler.choose(logits, position) == expected


def test_ties_go_to_the_lowest_id() -> None:
    logits = np.zeros(100, np.float32)
    logits[[41, 17, 99]] = 3.0
    assert _native.Sampler(temperature=0.0).choose(logits, 0) == 17
    assert {_native.Sampler(top_k=2, seed=s).choose(logits, 0) for s in range(40)} == {17, 41}
    assert {_native.Sampler(top_p=0.5, top_k=3, seed=s).choose(logits, 0) for s in range(40)} == {17, 41}


def test_a_choice_leaves_no_trace() -> None:
    logits = some_logits(1, 3000, 2.0)
    sampler = _native.Sampler(seed=5, repetition_penalty=1.2)
    history = _native.TokenHistory([1, 2, 3])
    first = [sampler.choose(logits, position, history) for position in range(30)]
    for position in reversed(range(30)):
        assert sampler.choose(logits, position, history) == first[position]
    assert len(set(first)) > 10


def test_masked_tokens_are_never_chosen() -> None:
    logits = np.full(5000, -np.inf, np.float32)
    logits[[3, 4999]] = [-80.0, -81.0]
    for parameters in ({}, {"top_p": 0.99}, {"min_p": 0.01}, {"top_k": 10}, {"temperature": 100.0}):
        assert {_native.Sampler(seed=s, **parameters).choose(logits, 9) for s in range(20)} <= {3, 4999}


@pytest.mark.parametrize("size", [1, 15, 1024, 1025, 5000])
def test_log_probabilities_are_the_log_softmax(size: int) -> None:
    logits = some_logits(size, size, 3.0)
    wide = logits.astype(np.float64)
    expected = wide - wide.max() - math.log(np.exp(wide - wide.max()).sum())
    order = sorted(range(size), key=lambda token: (-logits[token], token))[:20]
    results = [_native.log_probabilities(logits, size // 2, 20, isa) for isa in ISAS]
    assert all(result == results[0] for result in results)
    chosen, alternatives = results[0]
    assert chosen == pytest.approx(expected[size // 2], abs=2e-6)
    assert [token for token, _ in alternatives] == order
    for token, logprob in alternatives:
        assert logprob == pytest.approx(expected[token], abs=2e-6)


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"min_p": 1.5}, "min_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"logit_bias": [(8, 1.0)]}, "logit_bias"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        _native.Sampler(**parameters).choose(np.zeros(8, np.float32), 0)


@pytest.mark.parametrize("row", [[-np.inf, -np.inf], [1.0, np.inf], [np.nan, np.nan]])
def test_a_row_without_a_finite_greatest_logit_is_refused(row: list[float]) -> None:
    with pytest.raises(ValueError, match="finite greatest"):
        _native.Sampler().choose(np.array(row, np.float32), 0)

"""What the measuring programs for external drafters count: acceptance by each rule, places, intervals, and a journal
that survives a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.drafter_intervals import mean, share
from benchmarks.drafter_journal import Journal
from benchmarks.drafter_parity import first_difference
from benchmarks.drafter_rules import Drawn, greedy, matching, not_rejected, probabilities, sampler
from benchmarks.drafter_writer import by_position

from verispec.errors import OptionError

DRAWS = 4000
NEAR = 0.025
"""Three standard deviations of a share over DRAWS."""


@pytest.fixture(scope="module")
def logits() -> tuple[Any, Any]:
    """Of a target and of a draft that knows something of it: ``[8]`` float32 each."""
    random = np.random.default_rng(3)
    target = random.normal(0, 2, 8).astype(np.float32)
    return target, (target + random.normal(0, 1, 8)).astype(np.float32)


def test_rejection_sampling_accepts_what_two_distributions_have_in_common(logits: tuple[Any, Any]) -> None:
    p, q = map(probabilities, logits)
    random = np.random.default_rng(1)
    accepted = 0
    for _ in range(DRAWS):
        drawn = Drawn(random)
        proposal = [drawn(logits[1], 5)]
        accepted += not_rejected(proposal, p[None], drawn.q, random)
    assert accepted / DRAWS == pytest.approx(np.minimum(p, q).sum(), abs=NEAR)


def test_a_rejection_ends_the_proposal() -> None:
    certain, impossible = np.asarray([1.0, 0.0]), np.asarray([0.0, 1.0])
    p = np.stack([certain, impossible, certain])
    assert not_rejected([0, 0, 0], p, [certain] * 3, np.random.default_rng(0)) == 1
    assert not_rejected([0], p, [certain], np.random.default_rng(0)) == 1
    assert matching([4, 5, 6], [4, 7, 6]) == 1
    assert matching([4, 5, 6], [4, 5, 6]) == 3


def test_shared_noise_accepts_as_often_as_its_formula_says(logits: tuple[Any, Any]) -> None:
    """Two Gumbel races with one noise have the same winner i with probability 1 / sum over j of
    max(p_j / p_i, q_j / q_i)."""
    p, q = map(probabilities, logits)
    expected = sum(1 / np.maximum(p / p[i], q / q[i]).sum() for i in range(len(p)))
    own, other = sampler([1], 7).guess, sampler([1], 8).guess
    places = range(1, DRAWS + 1)
    text = [own(logits[0], place) for place in places]
    assert np.mean(
        [own(logits[1], i) == token for i, token in zip(places, text, strict=True)]
    ) == pytest.approx(expected, abs=NEAR)
    assert np.mean(
        [other(logits[1], i) == token for i, token in zip(places, text, strict=True)]
    ) == pytest.approx((p * q).sum(), abs=NEAR)
    assert np.mean(
        [greedy(logits[1], i) == token for i, token in zip(places, text, strict=True)]
    ) == pytest.approx(p[q.argmax()], abs=NEAR)


def test_tokens_outside_a_reduced_vocabulary_are_never_drawn() -> None:
    reduced = np.asarray([-np.inf, 1.0, -np.inf, 0.0], np.float32)
    drawn = Drawn(np.random.default_rng(0))
    assert {drawn(reduced, place) for place in range(100)} == {1, 3}
    assert drawn.q[0][[0, 2]].tolist() == [0.0, 0.0]


def test_places_are_counted_among_the_proposals_that_reach_them() -> None:
    rounds = [[(3, 3), (3, 1), (1, 1), (0, 0)], [(3, 0)]]
    values = [one["value"] for one in by_position(rounds, False) if one]
    assert values == [0.75, round(1 / 3, 4), round(1 / 3, 4)]
    behind = [one["value"] for one in by_position(rounds, True) if one]
    assert behind == [0.75, 0.5, 1.0]


def test_an_interval_draws_prompts_not_tokens() -> None:
    found = share([10, 90], [100, 100])
    assert (found.value, found.low, found.high) == (0.5, 0.1, 0.9)
    assert share([1, 5, 0], [2, 10, 0]).prompts == 2
    same = mean([1.5] * 12)
    assert (same.value, same.low, same.high) == (1.5, 1.5, 1.5)
    with pytest.raises(ValueError, match="found none"):
        share([0], [0])


def test_a_journal_goes_on_behind_a_line_that_was_cut_short(tmp_path: Path) -> None:
    path, run = tmp_path / "run.jsonl", {"model": "a", "tokens": 20}
    with Journal(path, run) as journal:
        journal.add({"begin": 0})
        journal.add({"begin": 20})
    path.write_bytes(path.read_bytes()[:-3])
    with Journal(path, run) as journal:
        assert journal.entries == [{"begin": 0}]
        journal.add({"begin": 40})
    with Journal(path, run) as journal:
        assert journal.entries == [{"begin": 0}, {"begin": 40}]
    with pytest.raises(OptionError, match="expected a run of the same tokens"):
        Journal(path, {"model": "a", "tokens": 21})
    path.write_bytes(b"no journal\n")
    with pytest.raises(OptionError, match="line 1: expected JSON"):
        Journal(path, run)


def answer(tokens: list[int], text: str = "x", reason: str = "length") -> dict[str, Any]:
    return {"tokens": tokens, "text": text, "finish_reason": reason}


@pytest.mark.parametrize(
    ("found", "what", "position"),
    [
        (answer([1, 2, 4]), "token", 2),
        (answer([1, 2]), "token", 2),
        (answer([1, 2, 3, 4]), "token", 3),
        (answer([1, 2, 3], "y"), "text", None),
        (answer([1, 2, 3], "x", "stop"), "finish_reason", None),
    ],
)
def test_parity_says_where_two_answers_part(found: dict[str, Any], what: str, position: int | None) -> None:
    difference = first_difference(answer([1, 2, 3]), found)
    assert difference is not None
    assert (difference["what"], difference["position"]) == (what, position)
    assert first_difference(found, found) is None

"""Verification: only a target-only replay that gives the same tokens is a success."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from verispec.errors import ArtifactError, ContextOverflowError, FetchError, OptionError
from verispec.evidence.receipt import Evidence, Receipt
from verispec.evidence.verify import Verdict, Verification, verify

TARGET = "ab" * 32
SAMPLING = {"temperature": 0.8, "seed": 11, "logit_bias": {"5": -1.5}, "logprobs": None, "top_k": 40}
PROMPT = [7, 8, 9]


@dataclasses.dataclass
class Answer:
    tokens: list[int]
    text: str
    finish_reason: str
    stop_string: str | None = None
    logprobs: list[Any] | None = None


def answer(prompt: Sequence[int], seed: int, limit: int, ends_at: int = 80) -> Answer:
    """A pretended model: tokens follow from prompt and seed; it stops by itself after ``ends_at``."""
    tokens = [(sum(prompt) + seed + index * index) % 50_000 for index in range(min(limit, ends_at))]
    reason = "stop" if limit >= ends_at else "length"
    return Answer(
        tokens, " ".join(map(str, tokens)), reason, logprobs=[[token, -0.1 * token] for token in tokens]
    )


class Target:
    """A replayer over that model. ``shift`` makes it another one."""

    def __init__(self, **facts: Any) -> None:
        self.identity: Mapping[str, Any] = {"backend": "native", "arithmetic": 1, "isa": "portable"}
        self.artifacts: Mapping[str, str] = {"target": TARGET}
        self.tokenizer_digest = "cd" * 32
        self.asked: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
        self.change = lambda found: found
        for name, value in facts.items():
            setattr(self, name, value)

    def encodings(self, prompt: Any) -> Iterable[Sequence[int]]:
        yield [len(prompt)]
        yield [ord(character) - 48 for character in prompt]

    def generate_tokens(
        self, prompt: Sequence[int], sampling: Mapping[str, Any], limits: Mapping[str, Any]
    ) -> Answer:
        self.asked.append((sampling, limits))
        found = answer(prompt, sampling["seed"], limits["max_tokens"])
        return self.change(
            dataclasses.replace(found, logprobs=found.logprobs if sampling["logprobs"] else None)
        )


def receipt(limit: int = 70, include_text: bool = False, **changes: Any) -> Receipt:
    given = answer(PROMPT, SAMPLING["seed"], limit)
    facts: dict[str, Any] = {
        "runtime": {"backend": "native", "arithmetic": 1, "isa": "avx512"},
        "artifacts": {"target": TARGET},
        "tokenizer": "cd" * 32,
        "sampling": SAMPLING,
        "limits": {"max_tokens": limit, "stop": [], "ignore_eos": False},
        "prompt_tokens": PROMPT,
        "tokens": given.tokens,
        "text": given.text,
        "finish_reason": given.finish_reason,
        **changes,
    }
    return Receipt.of(Evidence(**facts), include_text=include_text)


def check(one: Receipt, target: Target | None = None, prompt: Any = "789") -> Verification:
    return verify(one.to_bytes(), lambda facts: target or Target(), prompt)


@pytest.mark.parametrize("limit", [1, 32, 70, 80, 500])
def test_the_same_tokens_are_verified_on_another_instruction_set(limit: int) -> None:
    assert check(receipt(limit)).verdict is Verdict.VERIFIED
    assert check(receipt(limit, include_text=True), prompt=None).verdict is Verdict.VERIFIED


def test_parameters_come_back_exactly() -> None:
    target = Target()
    assert check(receipt(), target).verdict is Verdict.VERIFIED
    sampling, limits = target.asked[0]
    assert sampling == {**SAMPLING, "logit_bias": {5: -1.5}}
    assert limits == {"max_tokens": 70, "stop": [], "ignore_eos": False}


def test_without_the_prompt_there_is_no_success() -> None:
    assert check(receipt(), prompt=None).verdict is Verdict.PROMPT_REQUIRED
    assert check(receipt(), prompt="780").verdict is Verdict.PROMPT_REQUIRED
    assert check(receipt(include_text=True), prompt="780").verdict is Verdict.PROMPT_REQUIRED


@pytest.mark.parametrize(
    "error", [FetchError("not here"), FileNotFoundError("x"), ArtifactError("f", "w", "e", "g")]
)
def test_a_target_that_is_not_here(error: Exception) -> None:
    def load(_: Any) -> Target:
        raise error

    assert verify(receipt(), load, "789").verdict is Verdict.ARTIFACT_MISSING
    assert check(receipt(), Target(artifacts={"target": "00" * 32})).verdict is Verdict.ARTIFACT_MISSING
    assert check(receipt(artifacts={}), Target()).verdict is Verdict.ARTIFACT_MISSING


@pytest.mark.parametrize(
    "facts",
    [
        {"identity": {"backend": "native", "arithmetic": 2}},
        {"identity": {"backend": "transformers", "arithmetic": 1}},
        {"identity": {}},
        {"tokenizer_digest": "00" * 32},
    ],
)
def test_another_arithmetic_is_refused(facts: dict[str, Any]) -> None:
    target = Target(**facts)
    assert check(receipt(), target).verdict is Verdict.ARITHMETIC_MISMATCH
    assert target.asked == []


@pytest.mark.parametrize("position", [0, 1, 31, 32, 33, 63, 64, 69])
@pytest.mark.parametrize("include_text", [False, True])
def test_a_mismatch_names_where_it_begins(position: int, include_text: bool) -> None:
    tokens = answer(PROMPT, SAMPLING["seed"], 70).tokens
    tokens[position] += 1
    found = check(receipt(tokens=tokens, include_text=include_text))
    assert found.verdict is Verdict.MISMATCH
    assert found.position is not None
    assert found.position <= position <= found.position + found.uncertainty
    assert found.uncertainty < 32
    if include_text:
        assert (found.position, found.uncertainty) == (position, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "other"},
        {"finish_reason": "stop"},
        {"stop_string": "END"},
        {"logprobs": [[1, -0.5]]},
        {"limits": {"max_tokens": 69, "stop": []}, "tokens": answer(PROMPT, 11, 69).tokens},
        {"sampling": {**SAMPLING, "seed": 12}},
        {"limits": {"max_tokens": 81, "stop": []}, "tokens": [*answer(PROMPT, 11, 80).tokens, 1]},
    ],
)
def test_a_receipt_that_says_more_than_the_replay_gives(changes: dict[str, Any]) -> None:
    found = check(receipt(**changes))
    assert found.verdict is Verdict.MISMATCH
    assert found.position is not None


def test_log_probabilities_are_replayed_to_the_bit() -> None:
    sampling = {**SAMPLING, "logprobs": 1}
    logprobs = answer(PROMPT, 11, 70).logprobs
    assert check(receipt(sampling=sampling, logprobs=logprobs)).verdict is Verdict.VERIFIED
    assert logprobs is not None
    logprobs[3] = [logprobs[3][0], math.nextafter(logprobs[3][1], 0.0)]
    assert check(receipt(sampling=sampling, logprobs=logprobs)).verdict is Verdict.MISMATCH


def test_what_was_cancelled_is_verified_as_far_as_it_went() -> None:
    tokens = answer(PROMPT, 11, 70).tokens
    cut = receipt(500, tokens=tokens[:20], text="held back", finish_reason="cancelled")
    assert check(cut).verdict is Verdict.VERIFIED
    assert check(receipt(tokens=[], text="", finish_reason="cancelled")).verdict is Verdict.VERIFIED
    other = receipt(500, tokens=[*tokens[:19], 0], finish_reason="cancelled")
    assert check(other).verdict is Verdict.MISMATCH


@pytest.mark.parametrize("field", ["prompt_tokens", "tokens", "text"])
def test_stored_text_that_is_not_the_digested_one_is_altered(field: str) -> None:
    one = receipt(include_text=True)
    for wrong in ([1, 2], "other", None, [-1], ["x"]):
        one.replayed["included"][field] = wrong
        assert check(one, prompt=None).verdict is Verdict.ALTERED


@pytest.mark.parametrize(
    "changes",
    [
        {"finish_reason": "because"},
        {"finish_reason": "context"},
        {"finish_reason": "cancelled"},
        {"limits": {"max_tokens": 71}},
        {"limits": {"max_tokens": 69}},
        {"limits": {"max_tokens": "70"}},
        {"tokens": [], "text": ""},
    ],
)
def test_an_end_that_no_generation_can_have_is_altered(changes: dict[str, Any]) -> None:
    assert check(receipt(**changes)).verdict is Verdict.ALTERED


@pytest.mark.parametrize(("field", "value"), [("tokens", 0), ("tokens", -1), ("text_sha256", None)])
def test_a_rehashed_output_is_altered(field: str, value: Any) -> None:
    one = receipt(500, tokens=answer(PROMPT, 11, 80).tokens[:40], finish_reason="cancelled")
    assert check(one).verdict is Verdict.VERIFIED
    whole = receipt()
    for changed in (one, whole) if field == "tokens" else (whole,):
        changed.replayed["output"][field] = value
        assert check(changed).verdict is Verdict.ALTERED


def test_every_digest_of_the_output_is_replayed() -> None:
    one = receipt()
    one.replayed["output"]["prefixes"][1] = "0" * 16
    assert check(one).verdict is Verdict.MISMATCH
    cut = receipt(500, True, tokens=answer(PROMPT, 11, 20).tokens, text="11", finish_reason="cancelled")
    assert check(cut, prompt=None).verdict is Verdict.MISMATCH


def test_parameters_that_no_generation_can_have_are_altered() -> None:
    def refuse(_: Answer) -> Answer:
        raise OptionError("top_k: expected 0 to 2147483647, found -1")

    assert check(receipt(), Target(change=refuse)).verdict is Verdict.ALTERED


def test_a_target_without_room_gives_no_verdict() -> None:
    def cut(found: Answer) -> Answer:
        return dataclasses.replace(found, tokens=found.tokens[:9], finish_reason="context")

    with pytest.raises(ContextOverflowError, match="room for 70 tokens"):
        check(receipt(), Target(change=cut))


def test_hashed_nonsense_is_altered_not_a_crash() -> None:
    assert check(receipt(sampling={"temperature": "warm"})).verdict is Verdict.ALTERED
    one = receipt()
    one.replayed["prompt"]["salt"] = "salt"
    assert check(one).verdict is Verdict.ALTERED


def test_verdicts_are_stable_words() -> None:
    assert [verdict.value for verdict in Verdict] == [
        "verified",
        "mismatch",
        "prompt-required",
        "altered",
        "arithmetic-mismatch",
        "artifact-missing",
    ]
    assert check(receipt()).as_dict()["verdict"] == "verified"

"""Receipts that a real model makes are verified by replaying its target alone, and what they say is true."""

from __future__ import annotations

from typing import Any

import pytest

from verispec.drafting.resolution import BY_NAME
from verispec.engine.completion import Completion
from verispec.engine.model import Model
from verispec.engine.replay import ModelReplayer
from verispec.errors import ReceiptError
from verispec.evidence.receipt import Receipt
from verispec.evidence.verify import Verdict, Verification, verify

PROMPT = "salt pepper salt pepper salt pepper salt"
ANSWERS: list[dict[str, Any]] = [
    {"spec_mode": "suffix"},
    {"spec_mode": "off", "temperature": 0.8, "seed": 2**64 - 1, "logprobs": 2},
    {
        "spec_mode": "prompt-lookup",
        "spec_draft_policy": "fixed",
        "temperature": 0.7,
        "top_p": 0.9,
        "logit_bias": {30: -1.5},
        "repetition_penalty": 1.1,
        "logprobs": 0,
    },
    {"spec_mode": "auto", "stop": ["pepper"], "temperature": 0.3, "seed": 1},
]


def check(model: Model, receipt: Receipt, prompt: Any = None) -> Verification:
    return verify(receipt.to_bytes(), lambda facts: ModelReplayer(model), prompt)


@pytest.mark.parametrize("options", ANSWERS, ids=lambda options: options["spec_mode"])
def test_a_receipt_verifies_with_and_without_its_text(smollm2: Model, options: dict[str, Any]) -> None:
    found = smollm2.generate(PROMPT, max_tokens=12, **options)
    alone = smollm2.receipt(found, include_text=True)
    assert check(smollm2, alone).verdict is Verdict.VERIFIED
    bare = smollm2.receipt(found)
    assert PROMPT.encode() not in bare.to_bytes()
    assert check(smollm2, bare).verdict is Verdict.PROMPT_REQUIRED
    assert check(smollm2, bare, PROMPT + " ").verdict is Verdict.PROMPT_REQUIRED
    assert check(smollm2, bare, PROMPT).verdict is Verdict.VERIFIED
    assert check(smollm2, bare, PROMPT + "\n").verdict is Verdict.VERIFIED
    assert check(smollm2, bare, list(found.prompt_tokens)).verdict is Verdict.VERIFIED
    assert_says_what_happened(smollm2, alone, found)


def assert_says_what_happened(model: Model, receipt: Receipt, found: Completion) -> None:
    facts = receipt.replayed
    assert facts["runtime"] == model.backend.identity()
    assert facts["artifacts"]["target"] == model.artifacts["target"]
    assert facts["sampling"]["seed"] == found.seed
    assert facts["output"]["tokens"] == len(found.tokens)
    assert facts["output"]["finish_reason"] == found.finish_reason
    assert facts["output"]["stop_string"] == found.stop_string
    assert facts["included"]["text"] == found.text
    rounds = receipt.body["recomputed-with-drafter"]
    assert [tuple(one) for one in rounds["rounds"]] == list(found.rounds)
    assert rounds["accepted_by_position"] == found.accepted_by_position()
    assert rounds["speculation"]["strategy"] == found.strategy
    assert {*found.strategy.split("+")} <= BY_NAME.keys()


def test_the_phases_of_an_answer_are_parts_of_its_time(smollm2: Model) -> None:
    found = smollm2.generate(PROMPT, max_tokens=24, spec_mode="suffix", temperature=0.8, seed=3)
    told = smollm2.receipt(found).body["attested"]["timings"]
    seconds = {name: float(value) for name, value in told.items()}  # a receipt writes numbers out
    phases = [seconds[f"{name}_seconds"] for name in ("queued", "prompt", "draft", "pass", "sampling")]
    assert sum(phases) <= seconds["total_seconds"]
    assert all(seconds[f"{name}_seconds"] > 0 for name in ("draft", "pass", "sampling"))


def test_a_chat_message_is_found_by_its_text(smollm2: Model) -> None:
    found = smollm2.generate([{"role": "user", "content": "Name a colour."}], max_tokens=6)
    assert check(smollm2, smollm2.receipt(found), "Name a colour.").verdict is Verdict.VERIFIED


def test_a_cancelled_answer_has_a_receipt_too(smollm2: Model) -> None:
    generation = smollm2.stream(PROMPT, max_tokens=12, logprobs=1, temperature=0.5)
    next(generation)
    generation.cancel()
    found = generation.result()
    assert found.finish_reason == "cancelled"
    assert check(smollm2, smollm2.receipt(found), PROMPT).verdict is Verdict.VERIFIED
    assert check(smollm2, smollm2.receipt(found, include_text=True)).verdict is Verdict.VERIFIED


def test_a_receipt_is_about_one_model(smollm2: Model, gemma3: Model) -> None:
    receipt = smollm2.receipt(smollm2.generate(PROMPT, max_tokens=4), include_text=True)
    assert check(gemma3, receipt).verdict is Verdict.ARTIFACT_MISSING


def test_a_forged_receipt_does_not_verify(smollm2: Model) -> None:
    """Whoever hashes a changed receipt anew cannot make the target say it."""
    found = smollm2.generate(PROMPT, max_tokens=8, temperature=0.6, seed=4)
    forged = Receipt.from_bytes(smollm2.receipt(found).to_bytes())
    forged.replayed["sampling"]["seed"] = 5
    outcome = check(smollm2, forged, PROMPT)
    assert outcome.verdict is Verdict.MISMATCH
    assert outcome.position is not None
    raw = bytearray(smollm2.receipt(found).to_bytes())
    raw[len(raw) // 2] ^= 1
    with pytest.raises(ReceiptError):
        Receipt.from_bytes(bytes(raw))
    assert verify(bytes(raw), lambda facts: ModelReplayer(smollm2), PROMPT).verdict is Verdict.ALTERED

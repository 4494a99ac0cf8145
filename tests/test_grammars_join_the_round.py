"""A grammar is a participant of the round: the same answer under every schedule, and the receipt replays it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from adversarial_drafters import WrongDrafter
from verispec.conformance.faults import STEPS, resume_after_fault
from verispec.conformance.parity import Case, first_difference
from verispec.engine.model import Model
from verispec.engine.replay import ModelReplayer
from verispec.errors import GrammarError, OptionError
from verispec.evidence.digests import text_digest, token_digest
from verispec.evidence.receipt import Receipt
from verispec.evidence.verify import Verdict, verify
from verispec.text.grammar import Grammar

PERSON = Grammar.json_schema(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "age": {"type": "integer"},
            "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 4},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": False,
    }
)
PROMPT = [{"role": "user", "content": "Describe a person as JSON."}]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("logprobs", [None, 2])
def test_every_strategy_writes_the_same_object(
    smollm2: Model, temperature: float, logprobs: int | None
) -> None:
    options: dict[str, Any] = {"max_tokens": 64, "temperature": temperature, "seed": 4}
    options |= {"grammar": PERSON, "logprobs": logprobs}
    reference = smollm2.generate(PROMPT, spec_mode="off", **options)
    assert reference.finish_reason == "stop"
    assert json.loads(reference.text).keys() == {"name", "age", "tags"}
    assert reference.drafted == 0
    for mode in ("suffix", "prompt-lookup", "ngram-context"):
        for width in (1, 4, 12):
            speculation = {"spec_mode": mode, "spec_draft_max": width, "spec_draft_policy": "fixed"}
            found = smollm2.generate(PROMPT, **options, **speculation)
            assert first_difference(Case(0, mode, width, 4, temperature), reference, found) is None


def test_forced_tokens_are_proposed_and_always_accepted(smollm2: Model) -> None:
    grammar = Grammar.ebnf('start: "The answer to the question that was asked is " ("yes" | "no") "."')
    options: dict[str, Any] = {"max_tokens": 40, "grammar": grammar}
    off = smollm2.generate(PROMPT, spec_mode="off", **options)
    found = smollm2.generate(PROMPT, spec_mode="suffix", spec_draft_policy="fixed", **options)
    assert found.text == off.text
    assert found.text in {f"The answer to the question that was asked is {word}." for word in ("yes", "no")}
    assert found.drafted == found.accepted > 0
    assert found.passes < off.passes / 2


def test_illegal_proposals_are_not_evaluated(smollm2: Model) -> None:
    grammar = Grammar.regex("[ab]{12}")
    reference = smollm2.generate("x", spec_mode="off", grammar=grammar, max_tokens=20)
    text = [*reference.prompt_tokens, *reference.tokens]
    found = smollm2.generate("x", drafter=WrongDrafter(text, 49152), grammar=grammar, max_tokens=20)
    assert found.text == reference.text
    assert len(found.text) == 12
    assert found.drafted == 0


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_takes_the_grammar_back_too(smollm2: Model, step: str, after: bool) -> None:
    options: dict[str, Any] = {"max_tokens": 48, "temperature": 0.9, "seed": 4, "grammar": PERSON}
    options |= {"spec_mode": "suffix", "spec_draft_policy": "fixed"}
    reference = smollm2.generate(PROMPT, **options)
    last = len(reference.rounds) - 1
    for index in sorted({0, last // 2, last}):
        found = resume_after_fault(smollm2.stream(PROMPT, **options), step, index, after)
        assert first_difference(Case(0, step, 5, 4, 0.9), reference, found) is None
        assert found.rounds == reference.rounds


def test_a_receipt_replays_the_grammar(smollm2: Model) -> None:
    completion = smollm2.generate(PROMPT, grammar=PERSON, max_tokens=48, temperature=0.9, seed=1)
    receipt = smollm2.receipt(completion, include_text=True)
    assert receipt.replayed["limits"]["grammar"] == PERSON.as_dict()
    replayer = ModelReplayer(smollm2)
    assert verify(receipt, lambda _: replayer).verdict is Verdict.VERIFIED
    without = smollm2.receipt(
        smollm2.generate(PROMPT, max_tokens=48, temperature=0.9, seed=1), include_text=True
    )
    assert without.replayed["output"] != receipt.replayed["output"]


def test_a_bad_grammar_fails_before_anything_runs(smollm2: Model) -> None:
    with pytest.raises(GrammarError, match="ebnf"):
        smollm2.generate(PROMPT, grammar=Grammar.ebnf("start: nowhere"))
    with pytest.raises(OptionError, match="grammar: expected a Grammar, found str"):
        smollm2.generate(PROMPT, grammar="start: /a/")


def test_a_grammar_of_no_text_is_over_at_once(smollm2: Model) -> None:
    for mode in ("off", "suffix"):
        found = smollm2.generate(PROMPT, spec_mode=mode, grammar=Grammar.ebnf('start: ""'), max_tokens=8)
        assert (found.text, found.tokens, found.finish_reason) == ("", (), "stop")
        assert found.ended_by == "grammar"
        receipt = smollm2.receipt(found, include_text=True)
        assert verify(receipt, lambda _: ModelReplayer(smollm2)).verdict is Verdict.VERIFIED
    whole = smollm2.generate(PROMPT, grammar=Grammar.regex("[ab]{4}"), max_tokens=8)
    emptied = copy.deepcopy(smollm2.receipt(whole).body)
    output = emptied["replayed"]["output"]
    output |= {"tokens": 0, "sha256": token_digest([]), "prefixes": [], "text_sha256": text_digest("")}
    verdict = verify(Receipt(emptied), lambda _: ModelReplayer(smollm2), PROMPT).verdict
    assert verdict is Verdict.MISMATCH  # an answer cut to nothing is not one of no text


def test_a_receipt_of_a_scored_prompt_verifies(smollm2: Model) -> None:
    scored = smollm2.generate(PROMPT, max_tokens=0, prompt_logprobs=1)
    receipt = smollm2.receipt(scored, include_text=True)
    assert verify(receipt, lambda _: ModelReplayer(smollm2)).verdict is Verdict.VERIFIED


def test_control_tokens_are_shown_where_asked_and_replayed_so(smollm2: Model) -> None:
    """A tool call may begin with a control token: a text that shows it is another text, with the same tokens."""
    end = min(smollm2.tokenizer.eos_ids)
    ending: dict[str, Any] = {"max_tokens": 6, "ignore_eos": True, "logit_bias": {end: 1e6}}
    plain = smollm2.generate(PROMPT, **ending)
    shown = smollm2.generate(PROMPT, shown_tokens=[end], **ending)
    assert plain.tokens == shown.tokens
    assert plain.text == ""
    assert shown.text == smollm2.tokenizer.token_bytes(end).decode() * 6
    replayer = ModelReplayer(smollm2)
    receipt = smollm2.receipt(shown, include_text=True)
    assert verify(receipt, lambda _: replayer).verdict is Verdict.VERIFIED

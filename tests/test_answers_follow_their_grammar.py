"""A real model's answers match what they must follow, the same with and without anything drafted."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from verispec.backends.contract import chain
from verispec.engine.model import Model
from verispec.engine.options import SamplingParameters
from verispec.engine.sampler import Sampled, Sampler
from verispec.errors import BackendError
from verispec.text.grammar import Grammar
from verispec.text.grammar_state import GrammarState

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 16},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
MESSAGES = [{"role": "user", "content": "Describe a person as JSON: name, age and favourite colours."}]
SAMPLINGS = {
    "greedy": SamplingParameters(),
    "greedy with logprobs": SamplingParameters(logprobs=2),
    "penalised": SamplingParameters(repetition_penalty=1.3),
    "sampled": SamplingParameters(temperature=1.0),
    "hot": SamplingParameters(temperature=3.0),
    "nucleus": SamplingParameters(temperature=1.0, top_p=0.8, top_k=40, logprobs=0),
}


def answer(
    model: Model, grammar: Grammar | None, sampling: SamplingParameters, *, ahead: bool, limit: int = 80
) -> list[Sampled]:
    """An answer token by token; ``ahead``: forced tokens are evaluated in one pass, after a detour that is undone."""
    prompt = model.encode(MESSAGES)
    capabilities = model.backend.capabilities
    matcher = grammar.matcher(model.tokenizer, capabilities.vocabulary) if grammar else None
    sampler = Sampler(sampling, 7, prompt, matcher)
    assert sampler.needs_logits or grammar is None
    sequence = model.backend.open_sequence()
    try:
        written: list[Sampled] = []
        start, pending = 0, prompt
        while len(written) < limit and not sampler.finished:
            proposal = sampler.forced() if ahead else []
            assert sampler.legal_prefix([*proposal, -1]) == len(proposal) or not ahead
            rows = chain(sequence, start, [*pending, *proposal])
            wanted = list(range(len(pending) - 1, len(rows)))
            evaluation = model.backend.evaluate(rows, wanted, sampler.needs_logits)
            if ahead:
                mark = sampler.checkpoint()
                sampler.accept(sampler.sample(evaluation, 0).token)
                sampler.restore(mark)
            new = []
            for row, proposed in enumerate([*proposal, None]):
                sampled = sampler.sample(evaluation, row)
                sampler.accept(sampled.token)
                new.append(sampled)
                if sampled.token != proposed or sampler.finished:
                    break
            start += len(pending) + len(new) - 1
            model.backend.commit(sequence, start)
            written += new
            pending = [new[-1].token]
            if pending[0] in model.tokenizer.eos_ids:
                break
        return written
    finally:
        model.backend.close_sequence(sequence)


def text_of_answer(model: Model, written: list[Sampled]) -> str:
    return model.tokenizer.decode([sampled.token for sampled in written], at_text_start=False)


def check(value: Any) -> None:
    assert list(value) == ["name", "age", "tags"]
    assert isinstance(value["name"], str)
    assert len(value["name"]) <= 16
    assert type(value["age"]) is int
    assert 0 <= value["age"] <= 130
    assert 1 <= len(value["tags"]) <= 2
    assert set(value["tags"]) <= {"red", "green", "blue"}


@pytest.mark.parametrize("name", SAMPLINGS)
def test_an_answer_under_a_schema_is_json_of_that_schema(smollm2: Model, name: str) -> None:
    grammar = Grammar.json_schema(SCHEMA)
    written = answer(smollm2, grammar, SAMPLINGS[name], ahead=False)
    assert len(written) < 80
    check(json.loads(text_of_answer(smollm2, written)))
    assert answer(smollm2, grammar, SAMPLINGS[name], ahead=True) == written


def test_logprobs_do_not_change_a_constrained_answer_and_are_the_models_own(smollm2: Model) -> None:
    grammar = Grammar.json_schema(SCHEMA)
    plain = answer(smollm2, grammar, SAMPLINGS["greedy"], ahead=False)
    scored = answer(smollm2, grammar, SAMPLINGS["greedy with logprobs"], ahead=False)
    assert [sampled.token for sampled in scored] == [sampled.token for sampled in plain]
    # The model would not begin with a brace: its own first choices are shown, and are not what was chosen.
    assert scored[0].token not in [token for token, _ in scored[0].alternatives]
    assert scored[0].logprob is not None
    assert scored[0].logprob < scored[0].alternatives[-1][1]


@pytest.mark.parametrize("sampling", [SamplingParameters(), SamplingParameters(temperature=1.0)])
def test_a_grammar_that_allows_everything_changes_nothing(
    smollm2: Model, sampling: SamplingParameters
) -> None:
    free = answer(smollm2, None, sampling, ahead=False, limit=24)
    anything = answer(smollm2, Grammar.regex(r"(?s:.*)"), sampling, ahead=False, limit=24)
    assert anything == free


def test_an_answer_under_gbnf_matches_it(smollm2: Model) -> None:
    grammar = Grammar.ebnf('root ::= item item\nitem ::= "- " [a-z ]{1,20} "\\n"')
    written = text_of_answer(smollm2, answer(smollm2, grammar, SAMPLINGS["sampled"], ahead=True))
    assert re.fullmatch(r"(- [a-z ]{1,20}\n){2}", written)


@pytest.mark.parametrize(("name", "most"), [("greedy", 1), ("sampled", 0)])
def test_a_choice_is_not_asked_about_again(
    smollm2: Model, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    """The grammar is asked for one token or for the mask; accepting what was chosen from them asks nothing."""
    asked: list[int] = []
    allows = GrammarState.allows

    def counted(state: GrammarState, token: int) -> bool:
        asked.append(token)
        return allows(state, token)

    monkeypatch.setattr(GrammarState, "allows", counted)
    capabilities = smollm2.backend.capabilities
    prompt = smollm2.encode(MESSAGES)
    matcher = Grammar.json_schema(SCHEMA).matcher(smollm2.tokenizer, capabilities.vocabulary)
    sampler = Sampler(SAMPLINGS[name], 7, prompt, matcher)
    sequence = smollm2.backend.open_sequence()
    try:
        evaluation = smollm2.backend.evaluate(chain(sequence, 0, prompt), [len(prompt) - 1], True)
        for _ in range(8):  # the same logits every time: which tokens come of them does not matter here
            asked.clear()
            sampler.accept(sampler.sample(evaluation, 0).token)
            assert len(asked) <= most
    finally:
        smollm2.backend.close_sequence(sequence)


def test_a_row_without_a_possible_choice_is_the_backends_error(smollm2: Model) -> None:
    prompt = smollm2.encode(MESSAGES)
    matcher = Grammar.regex("[xy]+").matcher(smollm2.tokenizer, smollm2.backend.capabilities.vocabulary)
    sampler = Sampler(SamplingParameters(), 1, prompt, matcher)
    sequence = smollm2.backend.open_sequence()
    try:
        evaluation = smollm2.backend.evaluate(chain(sequence, 0, prompt), [len(prompt) - 1], True)
        assert evaluation.logits is not None
        evaluation = replace(evaluation, logits=np.full_like(evaluation.logits, -np.inf))
        with pytest.raises(BackendError, match="that the grammar allows"):
            sampler.sample(evaluation, 0)
    finally:
        smollm2.backend.close_sequence(sequence)

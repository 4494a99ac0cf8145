"""The seventh step, everywhere: an interrupt between any two bytecodes of a request loses and repeats nothing."""

from __future__ import annotations

import random
import sys
from types import FrameType
from typing import Any

from verispec.engine.completion import Completion
from verispec.engine.generation import Generation
from verispec.engine.model import Model
from verispec.text.grammar import Grammar

INTERRUPTED = (
    "round.py",
    "step.py",
    "shared_pass.py",
    "request.py",
    "target.py",
    "guarded_drafter.py",
    "sampler.py",
    "decoder.py",
    "history.py",
    "grammar_matcher.py",
    "grammar_lookahead.py",
    "grammar_state.py",
)
REPEATING = "one two three four five, " * 3
OPTIONS: dict[str, Any] = {
    "max_tokens": 10,
    "temperature": 0.6,
    "seed": 5,
    "logprobs": 1,
    "frequency_penalty": 0.1,
    "stop": ["two q"],
}


class Interrupter:
    """Raises KeyboardInterrupt before the given bytecode, counted over the engine's own files."""

    def __init__(self, countdown: int) -> None:
        self.countdown = countdown

    def __call__(self, frame: FrameType, event: str, _: Any) -> Interrupter | None:
        if not frame.f_code.co_filename.endswith(INTERRUPTED):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.countdown -= 1
            if self.countdown == 0:
                raise KeyboardInterrupt
        return self


def finish_through_interrupts(generation: Generation, countdowns: list[int]) -> Completion:
    for countdown in countdowns:
        sys.settrace(Interrupter(countdown))
        try:
            for _ in generation:
                pass
        except KeyboardInterrupt:
            continue
        finally:
            sys.settrace(None)
    return generation.result()


def test_an_interrupt_at_any_bytecode_is_invisible(smollm2: Model) -> None:
    prompt = smollm2.encode(REPEATING) * 8  # more than one chunk
    reference = smollm2.generate(prompt, spec_mode="off", **OPTIONS)
    draws = random.Random(3)
    with smollm2.conversation() as conversation:
        for case in range(8):
            options = {**OPTIONS, "spec_mode": "suffix", "spec_draft_policy": "fixed", "spec_draft_max": 4}
            kept = conversation if case % 2 else None
            countdowns = [draws.randrange(1, 10 ** draws.randrange(1, 5)) for _ in range(4)]
            found = finish_through_interrupts(smollm2.start(prompt, kept, options), countdowns)
            assert found.tokens == reference.tokens, countdowns
            assert (found.text, found.logprobs) == (reference.text, reference.logprobs), countdowns


def test_an_interrupt_inside_a_grammar_is_invisible(smollm2: Model) -> None:
    options = {
        **OPTIONS,
        "stop": None,
        "grammar": Grammar.regex(r"(red|green|blue)(, (red|green|blue)){3}\."),
    }
    reference = smollm2.generate(REPEATING, spec_mode="off", **options)
    draws = random.Random(4)
    for _ in range(12):
        countdowns = [draws.randrange(1, 10 ** draws.randrange(1, 5)) for _ in range(4)]
        found = finish_through_interrupts(
            smollm2.stream(REPEATING, spec_mode="suffix", spec_draft_policy="fixed", **options), countdowns
        )
        assert found.tokens == reference.tokens, countdowns
        assert (found.text, found.logprobs) == (reference.text, reference.logprobs), countdowns


def test_an_interrupted_prompt_chunk_is_not_evaluated_twice(smollm2: Model) -> None:
    prompt = smollm2.encode(REPEATING) * 8
    reference = smollm2.generate(prompt, spec_mode="off", **OPTIONS)
    generation = smollm2.stream(prompt, spec_mode="off", **OPTIONS)
    backend, commit = smollm2.backend, smollm2.backend.commit
    interrupts = [True]

    def interrupted_commit(sequence: int, length: int) -> None:
        commit(sequence, length)
        if interrupts:
            interrupts.clear()
            raise KeyboardInterrupt

    backend.commit = interrupted_commit  # type: ignore[method-assign]
    try:
        finish = None
        while finish is None:
            try:
                finish = generation.result()
            except KeyboardInterrupt:
                continue
    finally:
        del backend.commit  # type: ignore[method-assign]
    assert (finish.tokens, finish.text) == (reference.tokens, reference.text)

"""C3 on real models: every instruction set of this machine writes the same tokens with the same
log-probabilities.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verispec import _native
from verispec.engine.loading import load
from verispec.engine.model import Model

PROMPT = "The sea is"
OPTIONS: list[dict[str, Any]] = [
    {"max_tokens": 5, "logprobs": 3, "spec_mode": "off"},
    {
        "max_tokens": 4,
        "logprobs": 3,
        "temperature": 1.0,
        "seed": 7,
        "spec_mode": "ngram-context",
        "spec_draft_policy": "fixed",
    },
]


def answers(model: Model) -> list[Any]:
    found = [model.generate(PROMPT, **options) for options in OPTIONS]
    return [(one.tokens, one.text, one.logprobs, one.finish_reason) for one in found]


@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_answers_are_the_same_bits(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    best: Model = request.getfixturevalue(name)
    path: Path = request.getfixturevalue(f"{name}_path")
    expected = answers(best)
    for isa in _native.available_isas():
        monkeypatch.setenv("VERISPEC_ISA", isa)
        with load(path, ctx=32, threads=2) as model:
            assert model.backend.identity()["isa"] == isa
            assert answers(model) == expected

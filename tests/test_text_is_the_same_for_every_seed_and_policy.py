"""C2 at the ends of the range of seeds, under the adaptive policy, and for whatever ``auto`` picks."""

from __future__ import annotations

from typing import Any

import pytest

from verispec.conformance.parity import Case, first_difference, run_parity
from verispec.engine.model import Model

COPYING = "alpha beta gamma delta; alpha beta gamma delta; alpha beta"
PROSE = "A harbour at night is"
SEEDS = (0, 1, 2**64 - 1)
STRATEGIES = ("prompt-lookup", "ngram-context", "suffix")


@pytest.fixture(params=["smollm2", "gemma3"])
def model(request: pytest.FixtureRequest) -> Model:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Model)
    return found


def test_every_seed_gives_the_text_of_off(model: Model) -> None:
    report = run_parity(model, [COPYING, PROSE], STRATEGIES, (7,), SEEDS, (0.7,), 10, 1)
    assert report.first_differences == []
    assert report.identical == report.cases == 18


def test_seeds_differ_from_one_another(model: Model) -> None:
    answers = {model.generate(PROSE, max_tokens=10, temperature=1.0, seed=seed).tokens for seed in SEEDS}
    assert len(answers) == len(SEEDS)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("prompt", [COPYING, PROSE], ids=["copying", "prose"])
def test_adaptive_widths_and_auto_give_the_text_of_off(model: Model, prompt: str, temperature: float) -> None:
    options: dict[str, Any] = {"max_tokens": 12, "temperature": temperature, "seed": 2**64 - 1, "logprobs": 2}
    reference = model.generate(prompt, spec_mode="off", **options)
    cells: list[dict[str, Any]] = [{"spec_mode": "auto"}, {"spec_mode": "auto", "spec_draft_max": 3}]
    cells += [{"spec_mode": mode, "spec_draft_policy": "adaptive"} for mode in STRATEGIES]
    cells.append({"spec_mode": "suffix", "spec_draft_policy": "adaptive", "spec_draft_min": 3})
    for speculation in cells:
        found = model.generate(prompt, **speculation, **options)
        assert first_difference(Case(0, found.strategy, 0, 0, temperature), reference, found) is None


def test_auto_says_what_it_picked(model: Model) -> None:
    found = model.generate(PROSE, max_tokens=2, spec_mode="auto", spec_ngram_max=2)
    with_a_head = model.backend.capabilities.architecture == "llama"  # the other model comes without one
    assert found.strategy == ("suffix+eagle3" if with_a_head else "suffix")
    assert found.options.resolution.requested == "auto"
    assert found.options.resolution.unread == ("spec_ngram_max",)


def test_a_seed_that_was_drawn_is_recorded_and_repeats_the_text(model: Model) -> None:
    drawn = model.generate(PROSE, max_tokens=8, temperature=1.0)
    again = model.generate(PROSE, max_tokens=8, temperature=1.0, seed=drawn.seed, spec_mode="off")
    assert again.tokens == drawn.tokens

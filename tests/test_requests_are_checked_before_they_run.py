"""What no generation can mean is refused by name, and what a caller changes later changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from verispec.engine.model import Model
from verispec.engine.options import SamplingParameters
from verispec.errors import OptionError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 10**400),
        ("temperature", float("nan")),
        ("repetition_penalty", float("inf")),
        ("logit_bias", {5: 10**400}),
        ("drafter_deadline", 10**400),
        ("drafter_deadline", 0),
        ("stop", "half \ud83d"),
        ("ignore_eos", "yes"),
        ("prompt", None),
        ("prompt", 5),
        ("prompt", b"bytes are no token ids"),
        ("prompt", {1, 2}),
    ],
)
def test_values_without_meaning_are_refused_by_name(smollm2: Model, name: str, value: Any) -> None:
    prompt, options = (value, {}) if name == "prompt" else ("Hello", {name: value})
    with pytest.raises(OptionError, match=name):
        smollm2.stream(prompt, **options)


def test_parameters_are_the_requests_own() -> None:
    biases = {5: 1.0}
    parameters = SamplingParameters(logit_bias=biases)
    biases[6] = 2.0
    assert parameters.as_dict()["logit_bias"] == {"5": 1.0}

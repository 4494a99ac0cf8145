"""Every option of a generation is read, of the right kind and in range, or refused by its name."""

from __future__ import annotations

from typing import Any

import pytest

from adversarial_drafters import EmptyDrafter
from verispec.backends.contract import Capabilities
from verispec.engine.options import SamplingParameters
from verispec.engine.request_options import RequestOptions
from verispec.errors import OptionError, UnsupportedError

TARGET = Capabilities("exact", "llama", 100, 8, 2, 64, 2, 16, 64)
NO_ROLLBACK = Capabilities("exact", "recurrent", 100, 8, 2, 64, 2, 16, 0)


def parse(given: dict[str, Any], target: Capabilities = TARGET) -> RequestOptions:
    return RequestOptions.parse(given, target)


def test_nothing_given_is_greedy_with_the_best_strategy() -> None:
    options = parse({})
    assert options.sampling == SamplingParameters()
    assert options.limits.max_tokens is None
    assert (options.resolution.requested, options.resolution.strategy.name) == ("auto", "suffix")
    assert (options.strict_drafter, options.drafter_deadline) == (False, 1.0)


def test_none_stands_for_not_given() -> None:
    given = dict.fromkeys(["temperature", "stop", "seed", "spec_mode", "spec_draft_max", "nothing"])
    assert parse(given) == parse({})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"temprature": 1.0}, "temprature: no such option; did you mean temperature?"),
        ({"max_token": 1}, "did you mean max_tokens?"),
        ({"quux": 1}, "quux: no such option$"),
        ({"spec_draft_maximum": 3}, "spec_draft_maximum: no such speculation option.*spec_draft_max"),
        ({"spec_mode": "sufix"}, "spec_mode: expected one of .*did you mean suffix?"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(given: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        parse(given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "hot"),
        ("temperature", True),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", 2.0),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", "0"),
        ("repetition_penalty", 0.0),
        ("presence_penalty", [1]),
        ("frequency_penalty", 1e9),
        ("logit_bias", [1, 2]),
        ("logit_bias", {"1": 2.0}),
        ("logit_bias", {1: "2"}),
        ("seed", 2**64),
        ("seed", -1),
        ("seed", 1.5),
        ("choice", -1),
        ("logprobs", 21),
        ("logprobs", True),
        ("max_tokens", 0),
        ("max_tokens", "9"),
        ("stop", 3),
        ("stop", [""]),
        ("stop", ["a", 1]),
        ("ignore_eos", "yes"),
        ("spec_mode", 3),
        ("spec_draft_max", 0),
        ("spec_draft_max", "7"),
        ("spec_draft_max", True),
        ("spec_draft_p_min", 1.5),
        ("spec_draft_policy", "brave"),
        ("strict_drafter", 1),
        ("drafter_deadline", 0),
        ("drafter_deadline", "soon"),
        ("drafter", "suffix"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_option(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=rf"^{name}\b"):
        parse({name: value})


@pytest.mark.parametrize(
    "given",
    [
        {"spec_mode": "off", "spec_draft_max": 3},
        {"spec_mode": "off", "spec_draft_policy": "fixed"},
        {"spec_mode": "suffix", "spec_ngram_max": 3},
        {"spec_mode": "prompt-lookup", "spec_suffix_min_match": 2},
        {"spec_mode": "ngram-context", "spec_lookup_choice": "recent"},
        {"spec_mode": "suffix", "spec_mtp_recurrent_snapshots": 7},
        {"spec_mode": "auto", "spec_mtp_recurrent_snapshots": 7},
        {"spec_mode": "off", "strict_drafter": True},
        {"spec_mode": "off", "drafter_deadline": 2.0},
        {"spec_mode": "suffix", "drafter": EmptyDrafter()},
        {"drafter": EmptyDrafter(), "spec_ngram_max": 3},
    ],
    ids=lambda given: "+".join(given),
)
def test_an_option_that_nothing_would_read_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="not read"):
        parse(given)


def test_auto_reports_what_its_winner_does_not_read() -> None:
    assert parse({"spec_ngram_max": 3, "spec_draft_max": 4}).resolution.unread == ("spec_ngram_max",)


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("mtp", "needs-prediction-tensors"),
        ("draft-model", "needs-draft-artifact"),
        ("eagle3", "needs-draft-heads"),
        ("dflash", "needs-draft-heads"),
        ("dspark", "needs-draft-heads"),
    ],
)
def test_a_strategy_that_cannot_run_has_a_code_and_a_remedy(mode: str, code: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"spec_mode {mode}: .*\[{code}\]") as refused:
        parse({"spec_mode": mode})
    assert refused.value.code == code
    assert refused.value.remedy


def test_no_other_strategy_takes_the_place_of_one_that_cannot_run() -> None:
    with pytest.raises(UnsupportedError) as refused:
        parse({"spec_mode": "suffix"}, NO_ROLLBACK)
    assert refused.value.code == "needs-croppable-cache"
    assert parse({}, NO_ROLLBACK).resolution.strategy.name == "off"


def test_a_width_the_target_cannot_take_back_is_refused_and_a_default_one_fitted() -> None:
    small = Capabilities("exact", "llama", 100, 8, 2, 64, 2, 4, 64)
    assert parse({"spec_mode": "suffix"}, small).resolution.settings["spec_draft_max"] == 3
    with pytest.raises(OptionError, match="spec_draft_max: expected at most 3"):
        parse({"spec_mode": "suffix", "spec_draft_max": 4}, small)


def test_one_stop_string_or_several() -> None:
    assert parse({"stop": "END"}).limits.stop == ("END",)
    assert parse({"stop": ["a", "b"]}).limits.stop == ("a", "b")


def test_a_biased_token_must_be_in_the_vocabulary() -> None:
    parse({"logit_bias": {99: 1.0}}).sampling.check_vocabulary(100)
    with pytest.raises(OptionError, match="logit_bias token: expected 0 to 99, found 100"):
        parse({"logit_bias": {100: 1.0}}).sampling.check_vocabulary(100)

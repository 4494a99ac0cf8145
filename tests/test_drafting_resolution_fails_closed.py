"""A strategy is what was asked for, with options it reads, or a clear refusal; never a silent substitute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from verispec.drafting.options import Option
from verispec.drafting.resolution import availability, resolve
from verispec.drafting.strategies import STRATEGIES, VOCABULARY
from verispec.drafting.suffix_corpus import SuffixCorpus, build_corpus
from verispec.errors import OptionError, UnsupportedError


@dataclass(frozen=True)
class Target:
    max_rows: int = 16
    rollback: int = 16
    prediction_layers: int = 0
    taps: tuple[int, ...] = ()
    recurrent: bool = False
    window: int = 0
    draft_heads: bool = True
    own_draft: str = ""


TARGET = Target()
HYBRID = Target(max_rows=128, rollback=7, prediction_layers=1, recurrent=True, window=7)
RUNNING = ("prompt-lookup", "ngram-context", "suffix")
HEADS = ("eagle3", "dflash", "dspark")
WITH_ARTIFACTS = ("draft-model", *HEADS)


class Sources:
    sequence = 0

    def choose(self, logits: Any, position: int) -> int:
        raise AssertionError("no model drafts here")

    def corpus(self, path: Path) -> SuffixCorpus:
        return SuffixCorpus.open(path, "digest")

    def prediction_block(self, settings: Mapping[str, Any]) -> Any:
        raise AssertionError("no model drafts here")

    def draft_head(self, kind: str, settings: Mapping[str, Any]) -> Any:
        raise AssertionError("no head drafts here")

    def draft_text(self, settings: Mapping[str, Any]) -> Any:
        raise AssertionError("no model drafts here")


SOURCES = Sources()


def test_vocabulary_is_complete() -> None:
    assert ("off", "auto", *RUNNING, "draft-model", "mtp", "eagle3", "dflash", "dspark") == VOCABULARY


@pytest.mark.parametrize("mode", RUNNING)
def test_named_strategy_is_the_one_that_runs(mode: str) -> None:
    resolution = resolve(mode, {}, TARGET)
    drafter = resolution.make_drafter(SOURCES)
    assert drafter is not None
    assert drafter.name == mode
    assert set(resolution.settings) == {option.name for option in resolution.strategy.options}
    drafter.observe([1, 2, 3, 1, 2])
    assert drafter.propose(1).tokens == [3]
    drafter.close()


def test_off_drafts_nothing_and_reads_nothing() -> None:
    resolution = resolve("off", {}, TARGET)
    assert resolution.make_drafter(SOURCES) is None
    with pytest.raises(OptionError, match="spec_draft_max: not read by spec_mode off, which reads none"):
        resolve("off", {"spec_draft_max": 4}, TARGET)


def test_auto_says_what_it_picked() -> None:
    resolution = resolve("auto", {}, TARGET)
    assert resolution.as_dict()["requested"] == "auto"
    assert resolution.as_dict()["strategy"] == "suffix"
    assert resolve("auto", {}, Target(rollback=0)).strategy.name == "off"


def test_auto_reports_an_option_its_winner_does_not_read() -> None:
    resolution = resolve("auto", {"spec_ngram_max": 3, "spec_draft_max": 5}, TARGET)
    assert resolution.unread == ("spec_ngram_max",)
    assert "spec_ngram_max" not in resolution.settings
    assert resolution.settings["spec_draft_max"] == 5


@pytest.mark.parametrize(
    ("options", "target"),
    [({"spec_mtp_recurrent_snapshots": 7}, TARGET), ({"spec_draft_max": 4}, Target(rollback=0))],
)
def test_auto_refuses_an_option_no_candidate_reads(options: dict[str, object], target: Target) -> None:
    with pytest.raises(OptionError, match="not read by any candidate of spec_mode auto"):
        resolve("auto", options, target)


def test_unknown_names_are_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(OptionError, match="found 'sufix'; did you mean suffix"):
        resolve("sufix", {}, TARGET)
    with pytest.raises(OptionError, match="no such speculation option; did you mean spec_draft_max"):
        resolve("suffix", {"spec_draft_maxx": 3}, TARGET)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_every_option_a_strategy_does_not_read_is_an_error(strategy: Any) -> None:
    reads = {option.name for option in strategy.options}
    everything = {option.name: option for other in STRATEGIES for option in other.options}
    for name, option in everything.items():
        if name not in reads:
            with pytest.raises(OptionError, match=f"{name}: not read by spec_mode {strategy.name}"):
                resolve(strategy.name, {name: _some_value(option)}, TARGET)


def test_a_rollback_window_means_something_on_recurrent_targets_alone() -> None:
    name = "spec_mtp_recurrent_snapshots"
    for strategy in STRATEGIES:
        reads = {option.name for option in strategy.options_on(HYBRID)}
        assert (name in reads) == (strategy.name != "off")
        assert name not in {option.name for option in strategy.options_on(TARGET)}
    with pytest.raises(OptionError, match=f"{name}: not read by spec_mode suffix"):
        resolve("suffix", {name: 3}, TARGET)


def test_a_window_nobody_chose_is_the_loaded_one_and_width_fits_it() -> None:
    settings = resolve("mtp", {}, HYBRID).settings
    assert (settings["spec_draft_max"], settings["spec_mtp_recurrent_snapshots"]) == (7, 7)
    settings = resolve("mtp", {"spec_mtp_recurrent_snapshots": 2}, HYBRID).settings
    assert (settings["spec_draft_max"], settings["spec_mtp_recurrent_snapshots"]) == (2, 2)


@pytest.mark.parametrize("window", [6, 1, 0])
def test_a_width_over_the_window_has_to_be_asked_for(window: int) -> None:
    options = {"spec_draft_max": 7, "spec_mtp_recurrent_snapshots": window}
    settings = resolve("mtp", options, HYBRID).settings
    assert (settings["spec_draft_max"], settings["spec_mtp_recurrent_snapshots"]) == (7, window)


def test_a_window_over_the_loaded_one_is_refused_with_what_would_help() -> None:
    with pytest.raises(OptionError, match=r"expected at most 7, .* found 8; load it with snapshots=8"):
        resolve("mtp", {"spec_mtp_recurrent_snapshots": 8}, HYBRID)


def test_auto_prefers_the_prediction_block() -> None:
    assert resolve("auto", {}, HYBRID).strategy.name == "mtp"
    assert resolve("auto", {}, replace(HYBRID, prediction_layers=0)).strategy.name == "suffix"


def test_a_file_without_prediction_tensors_refuses_mtp() -> None:
    with pytest.raises(UnsupportedError) as refused:
        resolve("mtp", {}, replace(HYBRID, prediction_layers=0))
    assert refused.value.code == "needs-prediction-tensors"
    assert refused.value.remedy


@pytest.mark.parametrize("mode", WITH_ARTIFACTS)
def test_a_strategy_without_its_artifact_is_refused_with_a_code_and_a_remedy(mode: str) -> None:
    with pytest.raises(UnsupportedError, match=f"spec_mode {mode}") as refused:
        resolve(mode, {}, TARGET)
    assert refused.value.code == "needs-draft-artifact"
    assert "verispec admit" in refused.value.remedy
    assert resolve(mode, {"spec_draft_model": "head.gguf"}, TARGET).strategy.name == mode


@pytest.mark.parametrize("mode", HEADS)
def test_a_backend_that_runs_no_heads_refuses_them(mode: str) -> None:
    with pytest.raises(UnsupportedError, match=f"spec_mode {mode}") as refused:
        resolve(mode, {"spec_draft_model": "head.gguf"}, Target(draft_heads=False))
    assert refused.value.code == "needs-draft-heads"
    assert resolve("draft-model", {"spec_draft_model": "m.gguf"}, Target(draft_heads=False))


def test_cache_that_cannot_be_cropped_rules_out_speculation() -> None:
    with pytest.raises(UnsupportedError) as refused:
        resolve("suffix", {}, Target(rollback=0))
    assert refused.value.code == "needs-croppable-cache"


def test_availability_lists_every_name_with_its_reasons() -> None:
    rows = {row["name"]: row for row in availability(TARGET)}
    assert tuple(rows) == VOCABULARY
    assert [name for name, row in rows.items() if row["status"] == "available"] == ["off", "auto", *RUNNING]
    assert rows["auto"]["detail"] == "picks suffix"
    assert rows["mtp"]["reasons"] == ["needs-prediction-tensors"]
    assert rows["eagle3"]["reasons"] == ["needs-draft-artifact"]
    with_tensors = {row["name"]: row for row in availability(Target(prediction_layers=1))}
    assert with_tensors["mtp"]["status"] == "available"
    uncroppable = {row["name"]: row for row in availability(Target(rollback=0))}
    assert uncroppable["suffix"]["reason"] == "needs-croppable-cache"
    assert uncroppable["auto"]["detail"] == "picks off"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spec_draft_max": 0}, "spec_draft_max: expected an integer from 1 to 64, found 0"),
        ({"spec_draft_max": True}, "spec_draft_max: expected an integer"),
        ({"spec_draft_max": 2.0}, "spec_draft_max: expected an integer"),
        ({"spec_draft_p_min": 1.5}, "spec_draft_p_min: expected a number from 0 to 1, found 1.5"),
        ({"spec_draft_p_min": float("nan")}, "spec_draft_p_min: expected a number"),
        ({"spec_draft_p_min": "high"}, "spec_draft_p_min: expected a number"),
        ({"spec_draft_policy": "greedy"}, "spec_draft_policy: expected one of adaptive, fixed, found"),
        ({"spec_suffix_corpus": ""}, "spec_suffix_corpus: expected a non-empty string"),
        ({"spec_draft_min": 20}, "spec_draft_min: expected at most spec_draft_max = 15, found 20"),
        ({"spec_draft_max": 16}, "spec_draft_max: expected at most 15, what this target checks"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        resolve("suffix", options, TARGET)


def test_ngram_lengths_must_be_in_order() -> None:
    with pytest.raises(OptionError, match="spec_ngram_min: expected at most spec_ngram_max = 4, found 5"):
        resolve("prompt-lookup", {"spec_ngram_min": 5}, TARGET)


def test_default_width_fits_the_target() -> None:
    assert resolve("suffix", {}, Target(rollback=6)).settings["spec_draft_max"] == 6
    assert resolve("suffix", {}, Target(max_rows=4)).settings["spec_draft_max"] == 3


def test_integer_is_a_number() -> None:
    p_min = resolve("suffix", {"spec_draft_p_min": 1}, TARGET).settings["spec_draft_p_min"]
    assert isinstance(p_min, float)


def test_corpus_option_reaches_the_drafter(tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    build_corpus(path, [[5, 6, 7, 8, 9]], "digest")
    drafter = resolve("suffix", {"spec_suffix_corpus": str(path)}, TARGET).make_drafter(SOURCES)
    assert drafter is not None
    drafter.observe([1, 5, 6])
    assert drafter.propose(3).tokens == [7, 8, 9]


def _some_value(option: Option) -> object:
    if option.choices:
        return option.choices[0]
    return "file" if option.kind == "string" else int(option.low) + 1 if option.high > 1 else 0.5

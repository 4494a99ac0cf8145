"""A file of the lab is refused by name when it says what nothing reads, or what cannot be meant; nothing is guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab_experiments import small_experiment
from verispec.errors import OptionError
from verispec.lab.candidates.candidate import parse_candidate
from verispec.lab.experiment.spec import load_experiment, parse_experiment
from verispec.lab.search.search import parse_search

TARGET = {"profile": "verispec", "model": "m"}


def experiment(**more: Any) -> Any:
    return parse_experiment({"name": "e", "target": TARGET, "candidate": [{"name": "c"}], **more}, "here")


@pytest.mark.parametrize(
    ("devices", "complaint"),
    [
        ("cpu", "expected a list of texts, found 'cpu'"),
        ([], "one or more different devices"),
        (["cpu", "cpu"], "one or more different devices"),
        (["cpu:zero"], "found 'cpu:zero'"),
        (["cpu:"], "found 'cpu:'"),
        (["cpu:0,0"], "different processors"),
        (["CPU:1"], "found 'CPU:1'"),
        ([""], "found ''"),
        ([0], "a list of texts"),
        (["0"], "verispec of control has no device_variable"),
    ],
)
def test_devices_that_mean_nothing_are_refused(devices: Any, complaint: str) -> None:
    with pytest.raises(OptionError, match=r"devices") as caught:
        experiment(devices=devices)
    assert complaint in str(caught.value)


def test_a_device_that_only_some_arms_could_be_put_on_is_refused() -> None:
    vllm = {"target": {"profile": "vllm", "model": "m"}, "devices": ["0", "1"]}
    assert experiment(**vllm).devices == ("0", "1")
    with pytest.raises(OptionError, match="reference has no device_variable"):
        experiment(**vllm, reference={"profile": "verispec"})
    with pytest.raises(OptionError, match="has no device_variable"):
        small_experiment({"fast": ()}, devices=("0",))
    assert experiment(devices=["cpu:0", "cpu:1,2"]).devices == ("cpu:0", "cpu:1,2")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"control": {"arguments": "--a 1"}}, "control: arguments: expected a list of texts"),
        ({"control": {"environment": ["A"]}}, "control: environment: expected a table"),
        ({"control": {"environment": {"A": {}}}}, "environment"),
        ({"control": {"silence_seconds": "a"}}, "control: silence_seconds: expected a number, found 'a'"),
        ({"control": {"silence_seconds": -1}}, "silence_seconds"),
        ({"control": {"answer_seconds": 0}}, "answer_seconds"),
        ({"control": {"affinity": "01"}}, "affinity: expected a list of whole numbers"),
        ({"control": {"affinity": [-1]}}, "affinity"),
        ({"control": {"model": 3}}, "model: expected a text"),
        ({"control": {"url": "http://h"}}, "found 'url'"),
        ({"control": {"activation": {"knob": "--a"}}}, "activation: expected tables"),
        ({"control": {"declared": {"version": 1.0}}}, "declared: version: expected a text"),
        ({"control": {"profile": 3}}, "profile: expected a table"),
        ({"control": {"profile": {"engine": "e", "binary": "b", "command": "x y"}}}, "command: expected a list"),
        ({"candidate": {"name": "c"}}, "candidate: expected tables"),
        ({"control": [{}]}, "control: expected a table"),
        ({"reference": []}, "reference: expected a table"),
        ({"target": "verispec"}, "target: expected a table"),
        ({"stages": {"screen": "2"}}, "stages: screen: expected a whole number, found '2'"),
        ({"stages": {"screen": True}}, "stages: screen"),
        ({"stages": {"smoke_prompts": 0}}, "smoke_prompts: expected at least 1"),
        ({"stages": {"invalid_lanes": -1}}, "invalid_lanes: expected at least 0"),
        ({"stages": 3}, "stages: expected a table"),
        ({"decision": {"searched": 9}}, "found 'searched'"),
        ({"decision": {"noise": {}}}, "found 'noise'"),
        ({"decision": {"prior": 1}}, "found 'prior'"),
        ({"decision": {"margin": "1%"}}, "decision: margin: expected a number"),
        ({"suite": 3}, "suite: expected a text"),
        ({"metric": ["full"]}, "metric: expected a text"),
        ({"arms": {}}, "found 'arms'"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(content: dict[str, Any], complaint: str) -> None:
    with pytest.raises(OptionError) as caught:
        experiment(**content)
    assert complaint in str(caught.value)


def test_files_of_candidates_and_searches_are_read_as_strictly(tmp_path: Path) -> None:
    base = {"name": "n", "intent": "why", "target": TARGET}
    for change in (
        {"candidate": [{}]},
        {"candidate": {"arguments": ["-a"]}, "control": []},
        {"switch": "on"},
    ):
        with pytest.raises(OptionError, match="expected a table"):
            parse_candidate({**base, **change}, tmp_path, "here")
    with pytest.raises(OptionError, match="switch: arguments: expected a list"):
        parse_candidate({**base, "switch": {"arguments": "--on"}}, tmp_path, "here")
    on = {"environment": {"UNROLL": "6"}}
    assert parse_candidate({**base, "switch": on}, tmp_path, "here").changed["environment"] == {"UNROLL": "6"}
    with pytest.raises(OptionError, match="expected a candidate that differs from its control"):
        parse_candidate({**base, "target": {**TARGET, **on}, "switch": on}, tmp_path, "here")
    knob = {"name": "k", "values": [1, 2], "arguments": ["--k", "{value}"]}
    for change in ({"search": {"rungs": "3"}}, {"search": {"lanes": -1}}, {"knob": knob}, {"knob": [{**knob, "values": "12"}]}):  # fmt: skip # noqa: E501
        with pytest.raises(OptionError, match="expected"):
            parse_search({**base, "knob": [knob], **change}, "here")
    with pytest.raises(OptionError, match=r"nowhere\.toml"):
        load_experiment(tmp_path / "nowhere.toml")

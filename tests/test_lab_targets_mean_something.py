"""A target is read strictly; its profile says how each engine is started, read, and made to prove what was set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verispec.errors import OptionError
from verispec.lab.activation import activations
from verispec.lab.gate.promotion_rules import judge_for_promotion
from verispec.lab.identity.compare import same_value
from verispec.lab.identity.environment import recorded_variables, unread_variables
from verispec.lab.identity.report import ServerReport, parse_samples
from verispec.lab.targets.loading import load_profile, parse_target, profile_names
from verispec.lab.targets.source import Source, look_up


def target_of(profile: str, *arguments: str, **more: Any) -> Any:
    return parse_target(
        {"name": "t", "profile": profile, "model": "m", "arguments": list(arguments), **more}, "here"
    )


def test_every_engine_has_a_profile_that_starts_it() -> None:
    assert profile_names() == ["llama-server", "ollama", "sglang", "verispec", "vllm"]
    for name in profile_names():
        profile = load_profile(name)
        assert profile.engine == name
        assert profile.version
        assert profile.weights
        target = target_of(name, "--x", "1")
        started = " ".join(target.command("127.0.0.1", 8123)) + str(
            target.variables("127.0.0.1", 8123, "cpu")
        )
        assert "8123" in started
        assert target.command("127.0.0.1", 8123)[-2:] == ["--x", "1"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"model": "m"}, "profile"),
        ({"profile": "nothing", "model": "m"}, "nothing"),
        ({"profile": "verispec"}, "model"),
        ({"profile": "verispec", "model": "m", "enviroment": {}}, "enviroment"),
        ({"profile": "verispec", "model": "m", "declared": {"sha": "x"}}, "sha"),
        ({"profile": "verispec", "model": "m", "activation": [{"knob": "--x"}]}, "expected source"),
        ({"profile": "verispec", "model": "m", "activation": [{"knob": "--x", "source": "air:x"}]}, "air"),
    ],
)
def test_a_target_that_means_nothing_is_refused(content: dict[str, Any], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        parse_target({"name": "t", **content}, "here")


def test_flags_and_variables_are_knobs() -> None:
    target = target_of("verispec", "--a", "1", "-b", "--c=2", "--d", "-3", "x", environment={"E": 5})
    assert [(knob.name, knob.value) for knob in target.knobs()] == [
        ("--a", "1"), ("-b", ""), ("--c", "2"), ("--d", "-3 x"), ("E", "5"),
    ]  # fmt: skip


def test_devices_become_processors_or_a_variable() -> None:
    target = target_of("vllm", affinity=[4])
    assert target.cores("cpu:0,2") == (0, 2)
    assert target.cores("1") == (4,)
    assert target.variables("h", 1, "1") == {"CUDA_VISIBLE_DEVICES": "1"}
    assert target.variables("h", 1, "cpu") == {}


def test_paths_lead_through_names_with_dots_and_lists() -> None:
    content = {"slots": [{"params": {"speculative.types": "none,ngram"}}]}
    assert look_up(content, "slots.0.params.speculative.types") == "none,ngram"
    assert look_up(content, "slots.1.params") is None
    assert look_up(content, "slots.0.other") is None


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("7", 7, True), ("0.5", 0.5, True), ("on", True, True), ("", True, True), ("off", False, True),
        ("suffix", "suffix", True), ("ngram", "none,ngram", True), ("a", ["b", "a"], True),
        ("7", 8, False), ("7", None, False), ("suffix", "off", False), ("ngram", "ngram-mod", False),
    ],
)  # fmt: skip
def test_a_value_comes_back_however_it_is_written(wanted: str, found: object, same: bool) -> None:
    assert same_value(wanted, found) is same


def report_of(profile: str, options: dict[str, Any], tmp_path: Path, log: str = "") -> ServerReport:
    path = tmp_path / "log"
    path.write_text(log)
    report = ServerReport(load_profile(profile), "http://127.0.0.1:9", path, None)
    report.options = options
    return report


def test_a_flag_of_llama_server_is_proven_by_report_log_and_counter(tmp_path: Path) -> None:
    target = target_of("llama-server", "-t", "2", "-c", "512", "--spec-type", "ngram-simple", "-ub", "64")
    options = {"slots": [{"n_ctx": 512, "params": {"speculative.types": "none,ngram-simple"}}]}
    report = report_of("llama-server", options, tmp_path, "init, n_threads = 2\n")
    idle = {one.knob: one.state for one in activations(target, report, {"drafted": 0.0}, {}, {})}
    assert idle == {"-t": "read", "-c": "read", "--spec-type": "unread", "-ub": "unread"}
    busy = {one.knob: one.state for one in activations(target, report, {"drafted": 9.0}, {}, {})}
    assert busy["--spec-type"] == "read"


def test_a_flag_without_a_probe_is_unproven_and_a_waiver_is_said(tmp_path: Path) -> None:
    target = target_of(
        "vllm",
        "--strange",
        "1",
        "--eager",
        activation=[{"knob": "--eager", "waived": "it shows in no report"}],
    )
    report = report_of("vllm", {}, tmp_path)
    found = activations(target, report, {}, {}, {})
    assert [(one.knob, one.state) for one in found] == [("--strange", "unproven"), ("--eager", "waived")]


def test_a_name_is_looked_for_as_a_whole(tmp_path: Path) -> None:
    code = tmp_path / "code.so"
    code.write_bytes(b"\0getenv\0GGML_THREADS_MAX\0OMP_NUM\0")
    assert unread_variables(["GGML_THREADS", "OMP_NUM", "GGML_THREADS_MAX"], [code]) == ["GGML_THREADS"]


def test_secrets_are_recorded_as_digests_and_other_variables_not_at_all() -> None:
    found = recorded_variables(
        {"HF_TOKEN": "s3cret", "OMP_NUM_THREADS": "2", "HISTFILE": "x", "MINE": "1"}, ["MINE"]
    )
    assert found["OMP_NUM_THREADS"] == "2"
    assert found["MINE"] == "1"
    assert "HISTFILE" not in found
    assert "s3cret" not in str(found)
    assert found["HF_TOKEN"].startswith("sha256:")


def test_samples_are_summed_over_labels() -> None:
    text = (
        '# HELP x\nvllm:tokens_total{engine="0"} 3.0\nvllm:tokens_total{engine="1"} 4\nother 1e3\nbroken x\n'
    )
    assert parse_samples(text) == {"vllm:tokens_total": 7.0, "other": 1000.0}


@pytest.mark.parametrize(
    ("profile", "arguments", "reused"),
    [
        ("llama-server", ("--spec-type", "ngram-mod"), True),
        ("llama-server", ("--spec-type", "ngram-simple"), False),
        ("llama-server", ("--lookup-cache-dynamic", "file"), True),
        ("verispec", ("--spec-suffix-corpus=file",), True),
        ("verispec", ("--spec-mode", "suffix"), False),
    ],
)
def test_reuse_across_requests_is_known_by_its_flags(
    profile: str, arguments: tuple[str, ...], reused: bool
) -> None:
    lane = {"target": {"arguments": list(arguments)}, "activation": [], "window": 100}
    results = {one.name: one.holds for one in judge_for_promotion(lane, [], load_profile(profile).reuse)}
    assert results["no-reuse"] is not reused


def test_sources_name_their_place() -> None:
    assert Source.parse("log:n_threads = (\\d+)") == Source("log", "n_threads = (\\d+)")
    with pytest.raises(OptionError, match="before a colon"):
        Source.parse("somewhere")

"""``bench pass``, ``bench decode`` and ``bench peers`` on a tiny model: the fields that others read are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiny_llama import tiny_llama
from verispec.cli import main

SUITE = """
name = "tiny"
version = 1
max_tokens = 40
[[prompts]]
id = "one"
class = "any"
text = "the other then"
[[prompts]]
id = "two"
class = "any"
text = "in an on"
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_llama())
    return str(path)


@pytest.fixture
def suite(tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(SUITE)
    return str(path)


def test_bench_pass_gives_the_curve(model: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "pass.json"
    arguments = [
        "--rows",
        "1,3",
        "--context",
        "8",
        "--repeats",
        "5",
        "--threads",
        "1",
        "--output",
        str(output),
    ]
    assert main(["bench", "pass", model, *arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads(output.read_text())
    assert [point["rows"] for point in report["curve"]] == [1, 3]
    assert report["curve"][0]["ratio"] == 1.0
    assert all(point["seconds"] > 0 for point in report["curve"])
    assert report["bytes_read"] > 0
    assert report["bandwidth_bytes_per_second"] > 0
    assert report["conditions"]["host"]["cores"]["logical"] >= 1
    assert len(report["conditions"]["artifacts_sha256"]["target"]) == 64


@pytest.mark.parametrize(
    "arguments", [["--rows", "0"], ["--rows", "1,x"], ["--context", "128"], ["--rows", "2,2"]]
)
def test_bench_pass_refuses_what_cannot_be_measured(
    model: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "pass", model, *arguments]) == 2
    assert "expected" in capsys.readouterr().err


def test_bench_decode_compares_with_off(model: str, suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    strategies = "suffix,prompt-lookup:spec_draft_max=3:spec_draft_policy=fixed"
    arguments = ["--suite", suite, "--strategies", strategies, "--repeats", "2", "--threads", "1"]
    sampled = ["--temperature", "0.9", "--seed", "5"]
    assert main(["bench", "decode", model, *arguments, *sampled, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in report["strategies"]] == ["off", *strategies.split(",")]
    assert report["strategies"][0]["ratio_to_off"] == 1.0
    assert report["runs"] == report["identical_runs"] == 3 * 2 * report["text"]["prompts_measured"]
    assert {"loop_starts_at", "repeated_8grams", "measured_tokens"} <= report["prompts"][0].keys()
    assert report["suite"]["name"] == "tiny"


def test_bench_decode_repeats_until_the_ratios_are_known(
    model: str, suite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--suite", suite, "--strategies", "suffix", "--repeats", "2", "--threads", "1", "--json"]
    counts = []
    for precision in ("1000", "0"):
        assert main(["bench", "decode", model, *arguments, "--precision", precision, "--most", "5"]) == 0
        report = json.loads(capsys.readouterr().out)
        measured = [prompt for prompt in report["prompts"] if prompt["measured_tokens"]]
        counts.append(
            {prompt["strategies"]["suffix"]["seconds_ratio_to_off"]["pairs"] for prompt in measured}
        )
    assert counts == [{2}, {5}]


def test_bench_decode_refuses_a_strategy_that_is_malformed(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "decode", model, "--strategies", "suffix:spec_draft_max"]) == 2
    assert "STRATEGY[:OPTION=VALUE...]" in capsys.readouterr().err


def test_bench_peers_reports_ratios_and_what_was_not_measured(
    model: str, suite: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verispec.bench.peers.location._find", lambda kind: None)
    monkeypatch.setattr("verispec.bench.peer_bench.CONTEXT", 128)
    monkeypatch.setattr("verispec.bench.peer_bench.PROMPT_TOKENS", 32)
    arguments = ["--suite", suite, "--rows", "1,2", "--contexts", "8", "--turns", "1", "--threads", "1"]
    assert main(["bench", "peers", model, *arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ratios"] == []
    assert [entry["peer"] for entry in report["not_measured"]] == [
        "llama-cpp",
        "llama-server",
        "transformers",
    ]
    assert set(report["curves"]["8"]) == {"verispec (off)"}
    assert {entry["engine"] for entry in report["writing"]} == {"verispec (off)", "verispec (auto)"}

"""A peer that is missing, does not start or dies is reported with the reason, and the others are measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from verispec.bench.comparison import Comparison, compare_passes, compare_prompt
from verispec.bench.comparison_report import curves, ratio_rows
from verispec.bench.peers.driver_process import DriverProcess
from verispec.bench.peers.location import locate_peers
from verispec.bench.peers.opening import PeerTarget, open_peer
from verispec.errors import BackendError, OptionError

FAKE_ENGINE = """
import os, sys
class Engine:
    def __init__(self, model, speed, **settings):
        print("a library that prints")
        if speed == 0:
            raise ValueError("no such speed")
        self.speed = speed
    def describe(self):
        return {"fake": "1.0"}
    def passes(self, context, rows, repeats):
        if len(rows) == 13:
            print("about to die", file=sys.stderr)
            os._exit(3)
        return {"seconds": [len(rows) / self.speed] * repeats}
    def prompt(self, tokens, repeats):
        return {"seconds": [len(tokens) / self.speed] * repeats}
    def decode(self, prompt, max_tokens, end_tokens):
        return {"tokens": prompt[:max_tokens], "counted": 1, "seconds": 0.5, "prompt_seconds": 0.1}
    def close(self):
        pass
"""


@pytest.fixture
def fake_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "fake_engine.py").write_text(FAKE_ENGINE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "fake_engine"


def driver(module: str, speed: float, engine: str = "fake") -> DriverProcess:
    return DriverProcess(f"{engine} ({speed})", engine, False, sys.executable, module, "m", {"speed": speed})


def test_a_driver_answers_whatever_its_library_prints(fake_engine: str) -> None:
    subject = driver(fake_engine, 4.0)
    assert subject.describe()["fake"] == "1.0"
    assert subject.passes([1], [2, 3], 3) == [0.5, 0.5, 0.5]
    assert subject.decode([5, 6, 7], 2, [0]).tokens == (5, 6)
    subject.close()
    subject.close()


def test_a_driver_that_refuses_or_dies_says_why(fake_engine: str) -> None:
    with pytest.raises(BackendError, match="ValueError: no such speed"):
        driver(fake_engine, 0)
    with pytest.raises(BackendError, match="no_such_module"):
        driver("no_such_module", 1.0)
    subject = driver(fake_engine, 1.0)
    with pytest.raises(BackendError, match="about to die"):
        subject.passes([], [0] * 13, 1)
    with pytest.raises(BackendError, match="ended"):
        subject.prompt([1], 1)
    subject.close()


def test_the_best_configuration_of_a_peer_counts_and_failures_are_noted(fake_engine: str) -> None:
    ours, slow, fast = (
        driver(fake_engine, 8.0, "verispec"),
        driver(fake_engine, 1.0),
        driver(fake_engine, 2.0),
    )
    comparison = Comparison(1000)
    compare_passes(comparison, [ours, slow, fast], [1, 4], 2, 2)
    compare_prompt(comparison, [ours, slow, fast], 16, 2)
    rows = ratio_rows(comparison)
    assert [row["what"] for row in rows] == ["pass of 1 rows behind 2", "pass of 4 rows behind 2", "prompt"]
    assert all(row["ratio"] == 4.0 and row["configuration"] == "fake (2.0)" for row in rows)
    assert curves(comparison)["2"]["fake (1.0)"][1]["ratio"] == 4.0

    compare_passes(comparison, [ours, slow, fast], [13], 2, 1)
    assert [(entry.peer, "about to die" in entry.reason) for entry in comparison.failed] == [
        ("verispec (8.0)", True),
        ("fake (1.0)", True),
        ("fake (2.0)", True),
    ]
    for subject in (ours, slow, fast):
        subject.close()


def test_peers_that_are_not_here_are_listed_with_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    located, missing = locate_peers([], [])
    assert located == []
    assert [entry.peer for entry in missing] == ["llama-cpp", "llama-server", "transformers"]
    assert all(f"{entry.peer}=PATH" in entry.remedy for entry in missing)


def test_two_builds_of_one_peer_can_be_given() -> None:
    python = sys.executable
    located, _ = locate_peers([f"llama-cpp@one={python}", f"llama-cpp@two={python}"], [])
    assert [location.name for location in located][:2] == ["llama-cpp one", "llama-cpp two"]


@pytest.mark.parametrize(
    "word", ["llama-cpp", "llama-server=/bin/true", "vllm=/bin/true", "llama-cpp=/no/python"]
)
def test_a_peer_that_cannot_be_meant_is_refused(word: str) -> None:
    with pytest.raises(OptionError, match="--peer-python"):
        locate_peers([word], [])


def test_a_configuration_that_cannot_open_is_reported(tmp_path: Path) -> None:
    located, _ = locate_peers([f"llama-cpp={sys.executable}"], [])
    writers, failed = open_peer(located[0], PeerTarget(str(tmp_path / "no.gguf"), 64, 1))
    assert writers == []
    assert len(failed) == len(located[0].kind.configurations)
    assert all(entry.reason and entry.remedy for entry in failed)

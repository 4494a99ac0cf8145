"""The command line: what it prints for people and programs, its exit statuses, how quickly it can help."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import verispec
from gguf_bytes import GgufBytes, tensor
from tiny_llama import tiny_llama
from verispec.cli import main, models


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERISPEC_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_llama())
    return path


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"verispec {verispec.__version__}\n"


def test_models_lists_what_can_be_pulled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    assert "smollm2-135m" in capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    here = {model["name"]: model["here"] for model in listed}
    assert here == {"smollm2-135m": False, "gemma3-270m": False}


def test_inspect_says_that_a_good_file_runs(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tiny), "--tensors"]) == 0
    shown = capsys.readouterr().out
    for part in ("llama", "288 tokens", "bos 285", "Q8_0", "blk.1.ffn_down.weight", "runs: yes"):
        assert part in shown
    assert main(["inspect", str(tiny), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["runs"]
    assert report["obstacles"] == []
    assert report["architecture"] == "llama"
    assert {entry["type"] for entry in report["types"]} >= {"F32", "Q8_0", "Q4_1", "BF16"}


def test_inspect_says_why_a_file_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(GgufBytes(tensors=[tensor("a", (256, 2), 10, 0)], data=bytes(168)).build())
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "Q2_K" in shown
    assert "runs: no; tensor 'a': expected a type among F32" in shown
    assert main(["inspect", str(path), "--json"]) == 0
    assert not json.loads(capsys.readouterr().out)["runs"]


def test_inspect_cannot_be_made_to_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rude.gguf"
    path.write_bytes(GgufBytes(tensors=[tensor("\x1b[2J\u202e", (8,), 0, 0)], data=bytes(32)).build())
    assert main(["inspect", str(path), "--tensors"]) == 0
    assert "\x1b[2J" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pull", "nothing"], "the catalogue has gemma3-270m, smollm2-135m"),
        (["inspect", "smollm2-135m"], "verispec pull smollm2-135m"),
        (["inspect", "/dev/null"], "a regular file"),
        (["inspect", "missing.gguf"], "no model file at 'missing.gguf'"),
    ],
)
def test_an_error_is_one_line_and_status_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert says in printed.err


def test_wrong_usage_is_status_2_and_an_interrupt_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pull"]) == 2
    assert main(["nonsense"]) == 2

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "list_models", interrupt)
    assert main(["models"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_an_error_not_a_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VERISPEC_CACHE", "/proc/nowhere")
    assert main(["pull", "smollm2-135m"]) == 2
    assert "/proc/nowhere" in capsys.readouterr().err


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from verispec.cli import main; status = main(['--help']);"
        "print([name for name in ('numpy', 'rich', 'jinja2', 'tokenizers', 'gguf') if name in sys.modules]);"
        "sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pull" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


HYBRID = Path(__file__).parent / "data" / "tiny-hybrid.gguf"


def test_inspect_states_the_window_and_the_prediction_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(HYBRID)]) == 0
    shown = capsys.readouterr().out
    assert "4 sequences of 9 states each (S = 7)" in shown
    assert "1 block, for strategy mtp" in shown
    assert main(["inspect", str(HYBRID), "--json"]) == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    assert memory["states"] == 4 * 9 * 212 * 1024
    assert memory["snapshots"] == 7


def test_a_replay_is_shown_and_a_receipt_of_a_file_says_how_to_verify_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = tmp_path / "receipt.json"
    run = ["run", str(HYBRID), "--raw", "def read(self):", "--max-tokens", "40", "--spec-mode", "mtp"]
    run += ["--spec-draft-max", "7", "--spec-mtp-recurrent-snapshots", "1", "--spec-draft-policy", "fixed"]
    assert main([*run, "--receipt", str(receipt), "--include-text", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["replays"] == 1
    assert found["guarded_round"] is not None
    assert main(["verify", str(receipt)]) == 1
    assert "is not in the store; name its file with --model FILE" in capsys.readouterr().out
    assert main(["verify", str(receipt), "--model", str(HYBRID)]) == 0


@pytest.mark.parametrize(("repeats", "passes"), [(1, 0), (100, 3)])
def test_prompt_seconds_are_those_of_prompt_passes(
    repeats: int, passes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A prompt that the first round's own pass reads has none."""
    assert (
        main(["run", str(HYBRID), "--raw", "def read(self):" * repeats, "--max-tokens", "2", "--json"]) == 0
    )
    timings = json.loads(capsys.readouterr().out)["timings"]
    assert timings["prompt_passes"] == passes
    assert (timings["prompt_seconds"] > 0) == (passes > 0)

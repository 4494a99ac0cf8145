"""``verispec train``: what it makes, what it refuses in one line, and that Ctrl-C leaves a run to go on with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from training_targets import write_target
from verispec.cli import main
from verispec.cli.progress import StageBar

QUICK = ["--tokens", "150", "--longest-prompt", "8", "--longest-answer", "40", "--batch-tokens", "128"]
QUICK += ["--threads", "1", "--type", "f16", "--license", "MIT"]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a command that fails."""
    assert main(["train", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err.strip()


def test_a_drafter_is_trained_admitted_and_described(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "eagle3", "--target", str(target), "--output", str(tmp_path), *QUICK]
    assert main([*command, "--outputs", "100", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["artifact"] == str(tmp_path / "eagle3-f16.gguf")
    assert made["kind"] == "eagle3"
    assert made["bytes"] == Path(made["artifact"]).stat().st_size
    manifest = json.loads(Path(made["manifest"]).read_text())["body"]
    assert manifest["source"] == {"url": "made by verispec train", "revision": "seed 1", "license": "MIT"}
    assert json.loads(Path(made["statement"]).read_text())["outputs"] == 100
    run = ["run", str(target), "--raw", "the end", "--max-tokens", "12", "--spec-mode", "eagle3"]
    assert main([*run, "--spec-draft-model", made["artifact"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["strategy"] == "eagle3"
    assert main([*command, "--outputs", "100"]) == 0  # there is nothing left to do but to say so
    said = capsys.readouterr()
    assert (
        f"verispec run {target} PROMPT --spec-mode eagle3 --spec-draft-model {made['artifact']}" in said.out
    )
    assert "writing 150/150" in said.err


def test_ctrl_c_leaves_a_run_to_go_on_with(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show = StageBar.show
    command = ["train", "draft-model", "--target", str(target), "--output", str(tmp_path), *QUICK]
    for stage in ("writing", "training"):

        def interrupted(
            bar: StageBar, shown: str, done: int, total: int, line: str, stage: str = stage
        ) -> None:
            show(bar, shown, done, total, line)
            if shown == stage and done:
                raise KeyboardInterrupt

        monkeypatch.setattr(StageBar, "show", interrupted)
        assert main(command) == 130
        printed = capsys.readouterr()
        assert printed.out == ""
        last = (
            f"interrupted; the same command goes on from the last finished text or checkpoint of {tmp_path}"
        )
        assert printed.err.splitlines()[-1] == last
        assert "Traceback" not in printed.err
    monkeypatch.setattr(StageBar, "show", show)
    assert main(command) == 0
    assert (tmp_path / "draft-model-f16.gguf.draft.json").exists()


@pytest.mark.parametrize(
    ("kind", "arguments", "says"),
    [
        ("medusa", [], "kind: expected one of draft-model, eagle3, dflash, dspark, found 'medusa'"),
        ("eagle3", ["--type", "q9"], "type: expected one of F32"),
        (
            "draft-model",
            ["--outputs", "100"],
            "outputs: read by eagle3 and dflash and dspark, found for draft-model",
        ),
        ("dspark", ["--depth", "4"], "depth: read by draft-model and eagle3, found for dspark; leave it out"),
        (
            "eagle3",
            ["--depth", "9", "--longest-answer", "9"],
            "depth: expected less than the 9 tokens of the longest answer, found 9",
        ),
        ("eagle3", ["--tokens", str(10**15)], "tokens: expected at most what fits on the disk"),
        ("eagle3", ["--longest-prompt", "250"], "prompts: expected at most 248 tokens"),
        ("eagle3", ["--prompts", "nowhere.jsonl"], "nowhere.jsonl: No such file or directory"),
        ("eagle3", ["--texts", __file__], "texts: expected a folder, new or of an earlier run, found a file"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    kind: str,
    arguments: list[str],
    says: str,
    target: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = error_of([kind, "--target", str(target), "--output", str(tmp_path / "run"), *arguments], capsys)
    assert line.startswith(f"error: {says}")


def test_a_file_is_no_place_for_a_run(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "file"
    place.write_text("content")
    line = error_of(["eagle3", "--target", str(target), "--output", str(place)], capsys)
    assert line == f"error: output: expected a folder, new or of an earlier run, found a file at {place}"
    line = error_of(["eagle3", "--target", str(target), "--output", str(place / "run")], capsys)
    assert line == f"error: {place / 'run'}: Not a directory"
    assert place.read_text() == "content"


def test_an_unknown_target_is_said_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = error_of(["eagle3", "--target", "nowhere.gguf", "--output", str(tmp_path / "run")], capsys)
    assert "no model file at 'nowhere.gguf'" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "value", [["--tokens", "0"], ["--epochs", "100000"], ["--seed", "-1"], ["--depth", "99"]]
)
def test_absurd_numbers_are_wrong_usage(
    value: list[str], target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "eagle3", "--target", str(target), "--output", str(tmp_path / "run"), *value]) == 2
    assert value[0] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_without_torch_the_extra_is_named(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.optim", None)
    line = error_of(["eagle3", "--target", str(target), "--output", str(tmp_path / "run")], capsys)
    assert line.startswith("error: training needs torch 2.9 or newer (")
    assert line.endswith("[needs-torch]. Install it with: pip install 'verispec[train]'")
    assert not (tmp_path / "run").exists()

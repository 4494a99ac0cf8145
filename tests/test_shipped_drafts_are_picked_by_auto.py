"""A draft artifact that comes with the package drafts for the model it was trained for, and for no other, unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from drafting_targets import SOURCE, write_artifacts
from verispec.artifacts import shipped_drafts
from verispec.artifacts.draft_export import export_head
from verispec.artifacts.draft_file import DraftFile
from verispec.artifacts.resolve import resolve_model
from verispec.engine.admission import admit
from verispec.engine.loading import load
from verispec.errors import AdmissionError

NAME = "tiny-eagle3"
PROMPT = [7, 1, 9, 4, 4, 2, 8] * 3


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose head is among those that come with the package."""
    artifacts = write_artifacts(tmp_path)
    folder = tmp_path / "shipped"
    folder.mkdir()
    output = folder / f"{NAME}.gguf"
    with DraftFile.open(artifacts.of["eagle3"]) as file:
        export_head(file, output)
    admit(artifacts.target, output, "eagle3", SOURCE).write(output)
    monkeypatch.setattr(shipped_drafts, "FOLDER", folder)
    return artifacts.target


def test_auto_drafts_with_it_and_the_text_is_the_same(target: Path) -> None:
    with load(target, threads=1) as model:
        off = model.generate(PROMPT, max_tokens=24, ignore_eos=True, spec_mode="off")
        found = model.generate(PROMPT, max_tokens=24, ignore_eos=True)
        assert found.tokens == off.tokens
        assert found.strategy == "suffix+eagle3"
        assert model.capabilities()["strategies"][1]["detail"] == "picks suffix+eagle3"
        receipt = model.receipt(found)
        assert receipt.body["recomputed-with-drafter"]["speculation"]["options"]["spec_draft_model"] == NAME


def test_a_name_stands_for_it_wherever_a_model_is_named(target: Path) -> None:
    assert resolve_model(NAME).path == shipped_drafts.FOLDER / f"{NAME}.gguf"
    with load(target, threads=1) as model:
        assert (
            model.generate(PROMPT, max_tokens=4, spec_mode="eagle3", spec_draft_model=NAME).strategy
            == "eagle3"
        )


def test_its_strategy_needs_no_name(target: Path) -> None:
    with load(target, threads=1) as model:
        assert model.generate(PROMPT, max_tokens=4, spec_mode="suffix+eagle3").strategy == "suffix+eagle3"
        status = {row["name"]: row["reason"] for row in model.capabilities()["strategies"]}
        assert (status["eagle3"], status["dspark"]) == ("", "needs-draft-artifact")


def test_what_was_asked_for_comes_first(target: Path) -> None:
    with load(target, threads=1) as model:
        assert model.generate(PROMPT, max_tokens=4, spec_mode="suffix").strategy == "suffix"


def test_a_damaged_one_keeps_only_those_from_running_that_would_use_it(target: Path) -> None:
    path = shipped_drafts.FOLDER / f"{NAME}.gguf"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with load(target, threads=1, options={"spec_mode": "off"}) as model:
        assert model.generate(PROMPT, max_tokens=4, spec_mode="off").strategy == "off"
        assert model.generate(PROMPT, max_tokens=4, spec_mode="suffix").strategy == "suffix"
        with pytest.raises(AdmissionError, match="edited-bytes"):
            model.generate(PROMPT, max_tokens=4)


def test_another_model_is_left_alone(target: Path, tmp_path: Path) -> None:
    with load(tmp_path / "hybrid.gguf", threads=1) as model:
        assert model.backend.capabilities.own_draft == ""
        assert model.generate(PROMPT, max_tokens=4).strategy != "eagle3"

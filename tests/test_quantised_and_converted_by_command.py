"""``verispec convert`` and ``quantize`` from the command line: what they write, what they say, how they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiny_models import TinyModel, write_model
from tiny_published import Published, write_published
from verispec.artifacts.gguf import GgufFile
from verispec.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    write_published(folder / "hybrid", Published("qwen3_5_text", prediction=1), "BF16")
    return folder / "hybrid"


def test_from_a_folder_to_a_quantised_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    converted, quantised = tmp_path / "converted.gguf", tmp_path / "quantised.gguf"
    assert main(["convert", str(folder), str(converted), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["quantize", str(converted), str(quantised), "--recipe", "tbq4", "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert second["parent"]["sha256"] == first["artifact"]["sha256"]
    assert second["recipe"]["name"] == "tbq4"
    assert second["path"] == str(quantised)
    assert second["relative_error"]["draft_head"] < 0.08
    assert json.loads(Path(second["manifest_path"]).read_text())["artifact"] == second["artifact"]
    with GgufFile.open(quantised) as file:
        assert file.sha256() == second["artifact"]["sha256"]
    assert main(["inspect", str(quantised), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["derived_from"] == first["artifact"]["sha256"]
    assert (shown["recipe"], shown["recipe_sha256"]) == ("tbq4", second["recipe"]["sha256"])
    head = {"name": "blk.4.nextn.shared_head_head.weight", "type": "Q4_K"}
    assert [head.items() <= one.items() for one in shown["draft_heads"]] == [True]
    assert main(["inspect", str(quantised)]) == 0
    text = capsys.readouterr().out
    assert f"recipe:        tbq4 ({second['recipe']['sha256']})" in text
    assert "draft head:    blk.4.nextn.shared_head_head.weight Q4_K" in text


def test_a_folder_can_be_quantised_at_once(folder: Path, tmp_path: Path) -> None:
    assert main(["convert", str(folder), str(tmp_path / "converted.gguf")]) == 0
    for source, name in ((folder, "one.gguf"), (tmp_path / "converted.gguf", "two.gguf")):
        assert main(["quantize", str(source), str(tmp_path / name), "--recipe", "q8"]) == 0
    with GgufFile.open(tmp_path / "one.gguf") as one, GgufFile.open(tmp_path / "two.gguf") as two:
        assert list(one.tensors) == list(two.tensors)
        assert all((one.data(name) == two.data(name)).all() for name in one.tensors)


def test_a_folder_can_be_inspected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(folder), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["architecture"] == "qwen35"
    assert report["runs"] is True
    assert main(["inspect", str(folder)]) == 0
    assert "safetensors" in capsys.readouterr().out


def test_substitutions_are_said_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(tmp_path / "in.gguf", TinyModel("llama", hidden=96, heads=2, head_dim=48))
    assert main(["quantize", str(tmp_path / "in.gguf"), str(tmp_path / "out.gguf"), "--recipe", "q6_k"]) == 0
    said = capsys.readouterr()
    assert "ffn_gate.weight (3): rows are not whole Q6_K blocks; written as Q8_0" in said.err
    assert "feed_forward" in said.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["quantize", "IN", "OUT", "--recipe", "q3"], "recipe: expected one of"),
        (["quantize", "IN", "IN", "--recipe", "q8"], "output: expected another file than the input"),
        (["quantize", "nowhere.gguf", "OUT", "--recipe", "q8"], "no model file at"),
        (["quantize", "QUANTISED", "OUT", "--recipe", "q6_k"], "--allow-requantize"),
        (["convert", "IN", "OUT"], "expected a folder with config.json, *.safetensors and tokenizer.json"),
        (["convert", "nowhere", "OUT"], "nowhere: input: expected a folder with config.json"),
    ],
)
def test_refusals_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(tmp_path / "in.gguf", TinyModel("llama"))
    write_model(tmp_path / "q.gguf", TinyModel("llama", "Q8_0"))
    places = {"IN": "in.gguf", "OUT": "out.gguf", "QUANTISED": "q.gguf"}
    assert main([str(tmp_path / places[word]) if word in places else word for word in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.gguf").exists()

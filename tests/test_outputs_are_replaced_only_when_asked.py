"""Commands that make an artifact replace no file unasked, make no folders, and say so before they do any work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tiny_drafters import TinyDraft, write_draft
from tiny_llama import tiny_llama
from tiny_published import Published, write_published
from verispec.cli import main

OUTPUT = "out.artifact"


@dataclass(frozen=True)
class Made:
    """A command that makes an artifact: ``words`` name files of the test's folder, ``source`` is one it reads."""

    words: tuple[str, ...]
    source: str

    def arguments(self, folder: Path, output: str = OUTPUT) -> list[str]:
        places = {"OUT": folder / output, **{one.name: one for one in folder.iterdir()}}
        return [str(places.get(word, word)) for word in self.words]


COMMANDS = {
    "quantize": Made(("quantize", "model.gguf", "OUT", "--recipe", "q8", "--allow-requantize"), "model.gguf"),
    "convert": Made(("convert", "published", "OUT"), "published/config.json"),
    "convert-draft": Made(("convert-draft", "head", "OUT"), "head/model.safetensors"),
    "rank-vocab": Made(
        ("rank-vocab", "a.txt", "--model", "model.gguf", "--size", "9", "--out", "OUT"), "a.txt"
    ),
    "corpus": Made(("corpus", "model.gguf", "a.txt", "--output", "OUT"), "a.txt"),
}
Refused = Callable[[list[str]], str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    (folder / "model.gguf").write_bytes(tiny_llama())
    (folder / "a.txt").write_text("the thin man on the hill")
    write_published(folder / "published", Published("llama"), "F32")
    write_draft(folder / "head", TinyDraft())
    return folder


@pytest.fixture(params=COMMANDS)
def made(request: pytest.FixtureRequest, folder: Path) -> Made:
    (folder / OUTPUT).unlink(missing_ok=True)
    return COMMANDS[request.param]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    def run(arguments: list[str]) -> str:
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    return run


def test_a_file_is_replaced_with_force_alone(made: Made, folder: Path, refused: Refused) -> None:
    output = folder / OUTPUT
    assert main(made.arguments(folder)) == 0
    written = output.read_bytes()
    output.write_bytes(b"somebody's own")
    assert f"{OUTPUT}: expected no file there yet, found one; --force replaces it" in refused(
        made.arguments(folder)
    )
    assert output.read_bytes() == b"somebody's own"
    assert main([*made.arguments(folder), "--force"]) == 0
    assert len(output.read_bytes()) == len(written)


def test_a_missing_folder_is_named_and_not_made(made: Made, folder: Path, refused: Refused) -> None:
    error = refused(made.arguments(folder, "missing/out"))
    assert f"expected a folder {folder / 'missing'}, found none" in error
    assert not (folder / "missing").exists()


def test_a_source_is_never_the_output(made: Made, folder: Path, refused: Refused) -> None:
    before = (folder / made.source).read_bytes()
    error = refused([*made.arguments(folder, made.source), "--force"])
    assert "expected another file than the input" in error
    assert (folder / made.source).read_bytes() == before


def test_a_folder_is_no_output(made: Made, folder: Path, refused: Refused) -> None:
    assert f"expected a file, found something else at {folder}" in refused(made.arguments(folder, "."))

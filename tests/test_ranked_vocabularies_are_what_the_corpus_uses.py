"""A ranked vocabulary holds the tokens that a corpus uses most, for the tokeniser that it was counted with."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from tiny_llama import VOCABULARY, tiny_llama
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.ranked_vocabulary import FORMAT, coverage, load, rank, read
from verispec.cli import main
from verispec.errors import ArtifactError, OptionError
from verispec.text.tokenizer import Tokenizer

ENGLISH = "the thin man and the other one in the inn on the hill\n" * 20
GREEK = "το σπίτι στο λόφο και το δέντρο\n" * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.gguf").write_bytes(tiny_llama())
    (tmp_path / "english.txt").write_text(ENGLISH)
    (tmp_path / "greek.txt").write_text(GREEK)
    return tmp_path


def tokenizer_of(folder: Path) -> Tokenizer:
    with GgufFile.open(folder / "model.gguf") as file:
        return Tokenizer.from_gguf(file.metadata)


def run(folder: Path, *arguments: str, size: int = 32) -> int:
    options = [
        "--model",
        str(folder / "model.gguf"),
        "--size",
        str(size),
        "--out",
        str(folder / "list.safetensors"),
    ]
    return main(["rank-vocab", *arguments, *options])


@given(
    counts=st.lists(st.integers(0, 9), min_size=4, max_size=40),
    size=st.integers(1, 40),
    always=st.sets(st.integers(0, 3), max_size=2),
)
def test_the_list_is_the_most_frequent_ids(counts: list[int], size: int, always: set[int]) -> None:
    size = max(min(size, len(counts)), len(always), 1)
    found = rank(np.array(counts), size, always).tolist()
    assert len(set(found)) == len(found) == size
    assert always <= set(found)
    assert found == sorted(found, key=lambda token: (-counts[token], token))
    left_out = set(range(len(counts))) - set(found)
    optional = [counts[token] for token in found if token not in always]
    assert not left_out or not optional or max(counts[token] for token in left_out) <= min(optional)


def test_the_command_ranks_what_the_tokeniser_counts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, f"en={folder / 'english.txt'}", f"el={folder / 'greek.txt'}") == 0
    tokenizer = tokenizer_of(folder)
    counts = Counter(tokenizer.encode(ENGLISH, add_bos=False) + tokenizer.encode(GREEK, add_bos=False))
    ids = load(folder / "list.safetensors", tokenizer.digest, VOCABULARY)
    assert ids.dtype == np.int64
    assert ids.size == 32
    assert tokenizer.eos_ids <= set(ids.tolist())
    assert sum(counts[token] for token in ids.tolist()) >= sum(count for _, count in counts.most_common(30))
    assert "en" in capsys.readouterr().out


def test_coverage_is_reported_by_language_beside_the_prefix(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"en={folder / 'english.txt'}", "--check", f"el={folder / 'greek.txt'}", "--json"]
    assert run(folder, *arguments, size=24) == 0
    report = json.loads(capsys.readouterr().out)
    tokenizer = tokenizer_of(folder)
    written = read(folder / "list.safetensors", tokenizer.digest, VOCABULARY)
    assert report["coverage"] == written.coverage
    for label, text in (("en", ENGLISH), ("el (check)", GREEK)):
        tokens = tokenizer.encode(text, add_bos=False)
        listed = set(written.ids.tolist())
        assert report["coverage"][label]["tokens"] == len(tokens)
        assert report["coverage"][label]["ranked"] == sum(token in listed for token in tokens) / len(tokens)
        assert report["coverage"][label]["prefix"] == sum(token < 24 for token in tokens) / len(tokens)
    assert report["coverage"]["en"]["ranked"] > report["coverage"]["en"]["prefix"]


def test_files_of_one_language_are_counted_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, *(f"en={folder / name}" for name in ("english.txt", "greek.txt")), "--json") == 0
    assert list(json.loads(capsys.readouterr().out)["coverage"]) == ["en"]


def test_the_corpus_has_a_digest_whatever_its_order(folder: Path) -> None:
    digests = []
    for names in (("english", "greek"), ("greek", "english"), ("english",)):
        assert run(folder, "--force", *(str(folder / f"{name}.txt") for name in names)) == 0
        digests.append(
            read(folder / "list.safetensors", tokenizer_of(folder).digest, VOCABULARY).corpus_sha256
        )
    assert digests[0] == digests[1] != digests[2]


def test_a_list_for_another_tokeniser_is_refused(folder: Path) -> None:
    assert run(folder, str(folder / "english.txt")) == 0
    with pytest.raises(ArtifactError, match="tokenizer_sha256: expected the tokeniser 00"):
        load(folder / "list.safetensors", "00", VOCABULARY)
    with pytest.raises(ArtifactError, match="vocabulary: expected 300, found 288"):
        load(folder / "list.safetensors", tokenizer_of(folder).digest, 300)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([3, 1, 3]), "expected every id once, found 3 several times"),
        (np.array([3, -1]), "expected ids from 0 to 287"),
        (np.array([3, 288]), "expected ids from 0 to 287"),
        (np.array([3, 1], np.int32), "expected a list of int64, found int32"),
        (np.array([[3], [1]]), "expected a list of int64"),
        (np.array([], np.int64), "expected a list of int64"),
    ],
)
def test_malformed_lists_are_refused(ids: np.ndarray, message: str, folder: Path) -> None:
    metadata = {"format": FORMAT, "version": "1", "tokenizer_sha256": "00", "vocabulary": str(VOCABULARY)}
    save_file({"d2t": ids}, folder / "list.safetensors", metadata)
    with pytest.raises(ArtifactError) as caught:
        load(folder / "list.safetensors", "00", VOCABULARY)
    assert message in str(caught.value)


def test_other_files_are_refused(folder: Path) -> None:
    save_file({"d2t": np.arange(3)}, folder / "plain.safetensors")
    for name, message in (
        ("plain.safetensors", FORMAT),
        ("english.txt", "a ranked vocabulary"),
        ("no", "such file"),
    ):
        with pytest.raises(ArtifactError, match=message):
            load(folder / name, "00", VOCABULARY)
    assert list(load_file(folder / "plain.safetensors")) == ["d2t"]


def test_sizes_that_make_no_sense_are_refused() -> None:
    for size in (0, 5):
        with pytest.raises(OptionError, match="size: expected 1 to 4"):
            rank(np.ones(4, np.int64), size)
    with pytest.raises(OptionError, match="size: expected 2 to 4"):
        rank(np.ones(4, np.int64), 1, {0, 2})


def test_an_empty_corpus_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty.txt").write_text("")
    assert run(folder, str(folder / "empty.txt")) == 2
    assert "corpus: expected text" in capsys.readouterr().err
    assert not (folder / "list.safetensors").exists()


def test_nothing_is_covered_of_no_text() -> None:
    assert coverage(np.zeros(4, np.int64), np.arange(2)) == 0.0

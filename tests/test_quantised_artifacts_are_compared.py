"""``compare-artifacts`` measures what it says: nothing between equals, and the figures that plain scoring gives."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tiny_published import Published, write_published
from verispec.artifacts.convert import convert
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.quantise import quantise
from verispec.artifacts.recipe import load_recipe
from verispec.bench.artifact_comparison import compare, cut_windows, log_softmax
from verispec.cli import main
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.errors import OptionError

TEXT = "The house on the hill, the tree in the garden: another day then, and the rain on the roof again. " * 3
WINDOW = 48


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifacts")
    write_published(folder / "published", Published("qwen3_5_text", prediction=1))
    convert(folder / "published", folder / "a.gguf")
    with GgufFile.open(folder / "a.gguf") as parent:
        quantise(parent, folder / "b.gguf", load_recipe("tbq4"))
    (folder / "text.txt").write_text(TEXT)
    return folder


@pytest.fixture(scope="module")
def models(folder: Path) -> Iterator[tuple[Model, Model]]:
    options = {"ctx": 64, "sequences": 2, "threads": 2}
    with load(folder / "a.gguf", **options) as a, load(folder / "b.gguf", **options) as b:
        yield a, b


def test_an_artifact_differs_in_nothing_from_itself(models: tuple[Model, Model]) -> None:
    measured = compare(models[0], models[0], TEXT, WINDOW, None).as_dict()
    assert measured["kl_max"] == 0
    assert measured["top1_agreement"] == 1
    assert measured["perplexity_ratio"] == 1


def test_figures_are_those_of_the_scores(models: tuple[Model, Model]) -> None:
    """Restated through the public API: log-probabilities of the prompt's own tokens, and logits one row at a time."""
    a, b = models
    measured = compare(a, b, TEXT, WINDOW, 2).as_dict()
    losses: dict[str, list[float]] = {"a": [], "b": []}
    divergences, agreements = [], []
    for tokens in list(cut_windows(a, TEXT, WINDOW))[:2]:
        for name, model in (("a", a), ("b", b)):
            scores = model.generate(tokens, max_tokens=1, prompt_logprobs=0).prompt_logprobs
            losses[name] += [-score.logprob for score in scores[WINDOW // 2 + 1 :]]
        for end in range(WINDOW // 2 + 1, WINDOW):
            of_a, of_b = (log_softmax(model.logits(tokens[:end])[None])[0] for model in (a, b))
            divergences.append(np.sum(np.exp(of_a) * (of_a - of_b)))
            agreements.append(of_a.argmax() == of_b.argmax())
    assert measured["scored_tokens"] == len(divergences) == len(losses["a"])
    for name, found in losses.items():
        assert measured[f"perplexity_{name}"] == pytest.approx(math.exp(np.mean(found)), rel=1e-5)
    assert measured["kl_mean"] == pytest.approx(np.mean(divergences), rel=1e-6)
    assert measured["kl_p99"] == pytest.approx(np.quantile(divergences, 0.99), rel=1e-6)
    assert measured["top1_agreement"] == pytest.approx(np.mean(agreements))
    assert 0 < measured["kl_mean"] < 0.5


def test_too_little_text_is_refused(models: tuple[Model, Model]) -> None:
    with pytest.raises(OptionError, match="expected at least 48 tokens"):
        compare(*models, "short", WINDOW, None)


def test_the_command_reports_sizes_by_role(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, text = (str(folder / name) for name in ("a.gguf", "b.gguf", "text.txt"))
    assert (
        main(["compare-artifacts", a, b, "--text", text, "--window", "48", "--windows", "1", "--json"]) == 0
    )
    report = json.loads(capsys.readouterr().out)
    with GgufFile.open(b) as file:
        head = file.tensors["blk.4.nextn.shared_head_head.weight"]
        assert report["b"]["sha256"] == file.sha256()
        assert report["b"]["bytes"] == sum(tensor.nbytes for tensor in file.tensors.values())
        assert report["b"]["roles"]["draft_head"]["bytes"] == head.nbytes
    assert report["a"]["bits_per_weight"] == 32
    assert report["b"]["roles"]["feed_forward"]["bits_per_weight"] == 4.5
    assert report["b"]["roles"]["feed_forward"]["types"] == {"Q4_0": 12}
    assert report["windows"] == 1
    assert main(["compare-artifacts", a, b, "--text", text, "--window", "48", "--windows", "1"]) == 0
    assert "top-1 agreement" in capsys.readouterr().out


def test_another_tokeniser_is_refused(folder: Path, smollm2: Model, models: tuple[Model, Model]) -> None:
    with pytest.raises(OptionError, match="expected an artifact with A's tokeniser"):
        compare(models[0], smollm2, TEXT, WINDOW, None)

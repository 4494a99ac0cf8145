"""A trained draft model is a GGUF file of a llama: with the target's tokens, in any tensor type."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from training_targets import FEATURES, SETTINGS, TARGET, write_target
from verispec.artifacts.draft_manifest import Source
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.tensor_types import TensorType
from verispec.cli import main
from verispec.engine.admission import admit
from verispec.training.draft_model import DraftModelTraining, draft_width
from verispec.training.draft_model_file import export_draft_model
from verispec.training.export import write_published
from verispec.training.plan import draft_taps
from verispec.training.target_facts import read_target


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def published(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    facts = read_target(target)
    ids = torch.arange(facts.model.vocabulary)
    training = DraftModelTraining(facts, draft_taps(TARGET.layers), ids, FEATURES, SETTINGS)
    return write_published(training, tmp_path_factory.mktemp("published"))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (TensorType.F32, TensorType.F32),
        (TensorType.Q8_0, TensorType.Q8_0),
        (TensorType.Q4_0, TensorType.Q4_0),
        (TensorType.Q4_K, TensorType.Q5_0),  # 64 columns are no superblock, the 256 of `ffn_down` are
    ],
)
def test_it_is_a_llama_of_the_asked_type(
    asked: TensorType, found: TensorType, target: Path, published: Path, tmp_path: Path
) -> None:
    output = tmp_path / "small.gguf"
    assert export_draft_model(published, output, asked, target) == output.stat().st_size
    with GgufFile.open(output) as made, GgufFile.open(target) as owner:
        assert made.metadata["general.architecture"] == "llama"
        assert made.metadata["general.name"] == "small"
        tokens = {key: value for key, value in owner.metadata.items() if key.startswith("tokenizer.")}
        assert {key: made.metadata[key] for key in tokens} == tokens
        assert {key: made.metadata_types[key] for key in tokens} == {
            key: owner.metadata_types[key] for key in tokens
        }
        types = {tensor.type for tensor in made.tensors.values() if len(tensor.shape) == 2}
        assert found in types
        assert types <= {found, TensorType.Q4_K}
        assert "output.weight" not in made.tensors
    manifest = admit(target, output, "draft-model", Source("here", "r1", "MIT"))
    assert manifest.same_tokens


def test_it_runs_by_itself(
    target: Path, published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "small.gguf"
    export_draft_model(published, output, TensorType.F16, target)
    assert main(["inspect", str(output)]) == 0
    assert "runs: yes" in capsys.readouterr().out
    assert main(["run", str(output), "why?", "--max-tokens", "4", "--json"]) == 0


@pytest.mark.parametrize(
    ("hidden_size", "width"), [(32, 64), (64, 64), (100, 64), (576, 192), (640, 192), (4096, 192)]
)
def test_its_width_is_whole_heads_and_no_more_than_it_pays_for(hidden_size: int, width: int) -> None:
    assert draft_width(hidden_size) == width

"""Before its first step an EAGLE-3 head predicts what least squares tells of the target's hidden states, whatever the
sizes of their columns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from training_targets import SETTINGS, TARGET, write_target
from verispec.training.batches import load_batch
from verispec.training.eagle3 import Eagle3Training
from verispec.training.features import FeatureProjection, feature_statistics, published_parameters
from verispec.training.target_facts import TargetFacts, read_target
from verispec.training.text_store import StoredText

WIDTH = TARGET.hidden
PROMPT = 3


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> TargetFacts:
    return read_target(write_target(tmp_path_factory.mktemp("target")))


@pytest.fixture(scope="module")
def truth() -> Tensor:
    """A linear map from three hidden states to the next final one."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(WIDTH, 3 * WIDTH, generator=generator) / (3 * WIDTH) ** 0.5


def texts_of(truth: Tensor, final_norm: Tensor, count: int) -> list[StoredText]:
    """Hidden states of columns from a hundredth to a hundred in size, and of a huge first token; the final ones follow
    ``truth`` but for noise."""
    random = np.random.default_rng(2)
    sizes = np.geomspace(0.01, 100, 3 * WIDTH)
    texts = []
    for number in range(count):
        plain = random.normal(size=(41, 3 * WIDTH))
        final = np.zeros((41, WIDTH))
        final[1:] = plain[:-1] @ truth.numpy().T + random.normal(size=(40, WIDTH)) * 0.05
        hidden = np.concatenate([plain * sizes, final * final_norm.numpy()], axis=1).reshape(41, 4, WIDTH)
        hidden[0] = 6e4
        tokens = random.integers(0, 280, 42).astype(np.int32)
        texts.append(StoredText(number, tokens, PROMPT, 0.0, tokens[PROMPT:], hidden.astype(np.float16)))
    return texts


def test_the_map_is_found_whatever_the_columns_sizes(facts: TargetFacts, truth: Tensor) -> None:
    found = feature_statistics(texts_of(truth, facts.final_norm, 100), facts.final_norm)
    assert found.scales.numpy() == pytest.approx(np.geomspace(0.01, 100, 3 * WIDTH), rel=0.1)
    assert (found.ahead - truth).abs().max() < 0.02


def test_a_column_that_the_final_norm_hides_is_not_fitted(facts: TargetFacts, truth: Tensor) -> None:
    hidden = facts.final_norm.clone()
    hidden[5] = 0
    found = feature_statistics(texts_of(truth, hidden, 20), hidden)
    assert not found.ahead[5].any()
    assert found.ahead.isfinite().all()
    assert found.ahead[6].any()


def test_a_head_begins_with_it(facts: TargetFacts, truth: Tensor) -> None:
    texts = texts_of(truth, facts.final_norm, 100)
    training = Eagle3Training(
        facts, (1, 2, 3), torch.arange(288), feature_statistics(texts, facts.final_norm), SETTINGS
    )
    batch = load_batch(texts[:1])
    (at, read), *_ = training.chains(batch, 1)
    found = training.module.norm(read)[0, PROMPT:]
    expected = batch.final[0, at][PROMPT:].float()
    near = torch.cosine_similarity(found, expected, dim=-1)
    assert near.min() > 0.97


def test_what_is_published_reads_the_states_as_they_are() -> None:
    generator = torch.Generator().manual_seed(3)
    module = torch.nn.ModuleDict({"fc": FeatureProjection(torch.rand(12, generator=generator) * 50 + 0.1, 4)})
    module["fc"].weight.data.normal_(generator=generator)
    states = torch.randn(5, 12, generator=generator) * 20
    published = published_parameters(module)
    assert list(published) == ["fc.weight"]
    with torch.no_grad():
        assert states.numpy() @ published["fc.weight"].T == pytest.approx(
            module["fc"](states).numpy(), rel=1e-4
        )

"""The losses that drafters learn from are what their docstrings say, by a restatement that autograd differentiates."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from verispec.training import distillation
from verispec.training.batches import plan_batches
from verispec.training.dflash import OUTSIDE, cross_entropy
from verispec.training.distillation import distillation_loss
from verispec.training.draft_model import principal_columns
from verispec.training.layers import rotate
from verispec.training.settings import TrainingSettings

ROUNDED = 0.02
"""Of the greatest value: products are rounded to bfloat16, which has 8 bits, before anything is made of them."""


def restated(hidden: Tensor, head: Tensor, teacher: Tensor, teacher_head: Tensor, weights: Tensor) -> Tensor:
    expected = (teacher @ teacher_head.T).softmax(-1)
    return -(weights[:, None] * expected * (hidden @ head.T).log_softmax(-1)).sum()


@pytest.mark.parametrize("rows", [1, 7, 1024])
def test_distillation_is_the_cross_entropy_with_the_targets_distribution(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so are its gradients, however many rows are in memory at once."""
    monkeypatch.setattr(distillation, "ROWS", rows)
    generator = torch.Generator().manual_seed(3)
    hidden, teacher = (torch.randn(17, width, generator=generator) for width in (24, 32))
    head, teacher_head = (torch.randn(90, width, generator=generator) * 0.4 for width in (24, 32))
    weights = torch.rand(17, generator=generator)
    found, expected = [], []
    for loss, into in ((distillation_loss, found), (restated, expected)):
        leaves = [hidden.clone().requires_grad_(), head.clone().requires_grad_()]
        value = loss(*leaves, teacher, teacher_head, weights)
        (3 * value).backward()
        into += [value.detach(), *(leaf.grad for leaf in leaves)]
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() <= ROUNDED * other.abs().max()
    assert found[1].abs().max() > 0.1


def test_cross_entropy_counts_the_rows_whose_token_is_scored() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0], [5.0, 0.0, 0.0], [1.0, 1.0, 4.0]])
    places, weights = torch.tensor([1, OUTSIDE, 0]), torch.tensor([1.0, 9.0, 0.5])
    shares = logits.double().softmax(-1)
    expected = -(shares[0, 1].log() + 0.5 * shares[2, 0].log()) / 1.5
    assert cross_entropy(logits, places, weights).item() == pytest.approx(expected.item(), rel=1e-4)


def test_rotation_is_that_of_halves() -> None:
    x = torch.randn(1, 1, 3, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    found = rotate(x, torch.tensor([[0, 5, 90]]), 10000.0)
    pairs = torch.complex(x[..., :4].double(), x[..., 4:].double())
    angles = torch.tensor([0.0, 5.0, 90.0])[:, None].double() * 10000.0 ** (-torch.arange(4).double() / 4)
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    expected = torch.cat([turned.real, turned.imag], -1)
    assert torch.equal(found[:, :, 0], x[:, :, 0])
    assert (found - expected).abs().max() <= 2**-8 * expected.abs().max()


def test_rates_rise_stay_and_fall() -> None:
    settings = TrainingSettings(warm_up=10, cool_down=0.5, least_rate=0.1)
    shares = [settings.share(step, 100) for step in range(100)]
    assert shares[0] == pytest.approx(0.1)
    assert shares[9:51] == pytest.approx([1.0] * 42)
    assert all(later < earlier for earlier, later in pairwise(shares[51:]))
    assert shares[99] == pytest.approx(0.1 + 0.9 / 50)


def test_an_epoch_takes_every_text_once_in_batches_of_like_lengths() -> None:
    lengths = np.random.default_rng(1).integers(24, 300, 700).tolist()
    plan = plan_batches(lengths, 2048, 5, 0)
    assert sorted(index for batch in plan for index in batch) == list(range(700))
    padded = [len(batch) * max(lengths[i] for i in batch) for batch in plan]
    assert max(padded) <= 2048
    assert sum(lengths) / sum(padded) > 0.9
    assert plan == plan_batches(lengths, 2048, 5, 0)
    assert plan != plan_batches(lengths, 2048, 5, 1)


def test_a_draft_model_begins_with_what_tells_the_targets_tokens_apart() -> None:
    generator = torch.Generator().manual_seed(2)
    matrix = torch.randn(200, 6, generator=generator) @ torch.diag(torch.tensor([9.0, 8, 7, 0.1, 0.1, 0.1]))
    found = principal_columns(matrix, 3)
    assert found.square().mean().sqrt().item() == pytest.approx(3**-0.5, rel=1e-4)
    wide, narrow = matrix @ matrix.T, found @ found.T
    assert torch.corrcoef(torch.stack([wide.flatten(), narrow.flatten()]))[0, 1] > 0.999
    padded = principal_columns(matrix, 8)
    assert padded.shape == (200, 8)
    assert not padded[:, 6:].any()

"""The losses that drafters learn from are what their docstrings say, by a restatement that autograd differentiates."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from training_targets import FEATURES, SETTINGS, TARGET, write_target
from verispec.training import distillation
from verispec.training.batches import Batch, plan_batches
from verispec.training.dflash import OUTSIDE, Blocks, DFlashTraining, cross_entropy
from verispec.training.distillation import distillation_loss
from verispec.training.draft_model import principal_columns
from verispec.training.dspark import DSparkTraining
from verispec.training.eagle3 import Eagle3Training
from verispec.training.held_out import check_held_out
from verispec.training.layers import rotate
from verispec.training.settings import TrainingSettings
from verispec.training.target_facts import TargetFacts, read_target
from verispec.training.text_store import StoredText

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


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> TargetFacts:
    return read_target(write_target(tmp_path_factory.mktemp("target")))


IDS = torch.arange(0, 288, 3)
"""Scored tokens: a third of the target's."""


def blocks_of(width: int) -> Blocks:
    """Two blocks: one whole, one of which the answer ends behind two rows."""
    generator = torch.Generator().manual_seed(5)
    hidden, teacher = (torch.randn(2, width, TARGET.hidden, generator=generator) for _ in range(2))
    tokens, before = (torch.randint(0, 280, (2, width), generator=generator) for _ in range(2))
    tokens[:, :2] = tokens[:, :2] // 3 * 3  # of the scored ones
    counted = torch.ones(2, width, dtype=torch.int64)
    counted[1, 2:] = 0
    return Blocks(hidden, tokens, before, counted, teacher)


def row_weights(blocks: Blocks) -> list[list[float]]:
    return [[one * math.exp(-row / 4) for row, one in enumerate(block)] for block in blocks.counted.tolist()]


def restated_cross_entropy(logits: Tensor, blocks: Blocks) -> float:
    ids, loss, whole = IDS.tolist(), 0.0, 0.0
    for block, weights in enumerate(row_weights(blocks)):
        for row, weight in enumerate(weights):
            token = int(blocks.tokens[block, row])
            if token in ids:
                loss -= weight * float(logits[block, row].double().log_softmax(-1)[ids.index(token)])
                whole += weight
    return loss / whole


def test_dflash_weighs_a_row_by_its_distance_and_counts_none_behind_the_answer(facts: TargetFacts) -> None:
    training = DFlashTraining(facts, (1, 2, 3), IDS, FEATURES, SETTINGS)
    blocks = blocks_of(training.width)
    logits = torch.randn(2, training.width, len(IDS), generator=torch.Generator().manual_seed(6))
    found = training._compared(blocks, logits, training._weights(blocks)).total
    assert found.item() == pytest.approx(restated_cross_entropy(logits, blocks), rel=1e-4)


def test_dspark_compares_with_the_targets_own_distribution_over_all_tokens(facts: TargetFacts) -> None:
    """Also with what it gives tokens that the head does not score; its three parts are weighed 0.1, 0.9 and 1."""
    training = DSparkTraining(facts, (1, 2, 3), IDS, FEATURES, SETTINGS)
    blocks = blocks_of(training.width)
    logits = torch.randn(2, training.width, len(IDS), generator=torch.Generator().manual_seed(6)) * 2
    teacher = blocks.teacher.bfloat16().double() @ facts.head.bfloat16().double().T
    distance = confidence = whole = 0.0
    judged = training._confidence(blocks).detach().double().sigmoid()
    for block, weights in enumerate(row_weights(blocks)):
        for row, weight in enumerate(weights):
            p = teacher[block, row].softmax(-1)
            q = torch.zeros_like(p)
            q[IDS] = logits[block, row].double().softmax(-1)
            kept, said = float(torch.minimum(p, q).sum()), float(judged[block, row])
            assert p[IDS].sum() < 0.99
            distance += weight * float((p - q).abs().sum())
            confidence -= weight * (kept * math.log(said) + (1 - kept) * math.log(1 - said))
            whole += weight
    found = training._compared(blocks, logits, training._weights(blocks))
    parts = [restated_cross_entropy(logits, blocks), distance / whole, confidence / whole]
    assert [*found.shown.values()] == pytest.approx(parts, rel=ROUNDED)
    expected = 0.1 * parts[0] + 0.9 * parts[1] + parts[2]
    assert found.total.item() == pytest.approx(expected, rel=ROUNDED)


def test_eagle_weighs_a_proposal_by_its_depth_and_leaves_out_rows_that_it_cannot_score(
    facts: TargetFacts,
) -> None:
    training = Eagle3Training(facts, (1, 2, 3), IDS, FEATURES, SETTINGS)
    generator = torch.Generator().manual_seed(7)
    tokens, choices = (torch.randint(0, 280, (2, 20), generator=generator) for _ in range(2))
    choices[:, ::2] = choices[:, ::2] // 3 * 3
    features = torch.randn(2, 19, 3 * TARGET.hidden, generator=generator).bfloat16()
    final = torch.randn(2, 19, TARGET.hidden, generator=generator).bfloat16()
    answers = torch.arange(19)[None].expand(2, -1) >= torch.tensor([[4], [9]])
    batch = Batch(tokens, features, final, answers, choices[:, :19])
    losses = []
    with torch.no_grad():
        for at, x in training.chains(batch, SETTINGS.depth):
            rows = training.module.norm(x).float() @ training.module.lm_head.weight.T
            found = []
            for text in range(2):
                for place, position in enumerate(at.tolist()):
                    if answers[text, position] and int(choices[text, position]) % 3 == 0:
                        p = (final[text, position].float() @ facts.head[IDS].T).softmax(-1)
                        found.append(-float(p @ rows[text, place].log_softmax(-1)))
            losses.append(sum(found) / len(found))
        told = training.losses(batch, np.random.default_rng(0))
    assert [*told.shown.values()] == pytest.approx(losses, rel=ROUNDED)
    expected = (losses[0] + 0.8 * losses[1] + 0.64 * losses[2]) / (1 + 0.8 + 0.64)
    assert told.total.item() == pytest.approx(expected, rel=ROUNDED)


def test_answers_too_short_for_a_draft_say_nothing_of_it(facts: TargetFacts) -> None:
    for training, shortest in (
        (DFlashTraining(facts, (1, 2, 3), IDS, FEATURES, SETTINGS), 6),
        (Eagle3Training(facts, (1, 2, 3), IDS, FEATURES, SETTINGS), SETTINGS.depth),
    ):
        for answer, drafts in ((shortest - 1, 0), (shortest, 1)):
            tokens = np.arange(30, dtype=np.int32)
            hidden = np.ones((29, 4, TARGET.hidden), np.float16)
            text = StoredText(0, tokens, 30 - answer, 0.0, tokens[30 - answer :], hidden)
            found = check_held_out(training, [text])
            assert (found.drafts, len(found.by_position)) == (drafts, drafts * shortest)
            assert found.tokens_per_pass >= 1.0  # not a NaN


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

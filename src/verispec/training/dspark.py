"""DSpark in torch: DFlash's backbone with a Markov head and a confidence head, and the loss of all three.

The graph is that of ``models/dspark.py``. The loss is the published one (DeepSpec): a tenth of the cross entropy with
the text's tokens, nine tenths of the distance between the draft's distribution q and the target's p, and the
confidence's binary cross entropy with the chance that a token drawn from q is kept as one of p; a row's weight falls
with its distance from the anchor.

p is the target's own, over all of its tokens: what it gives those that the head does not score is missing from every
draft. The distance is the sum of |q - p| over all tokens, that mass included, and the chance of being kept the sum
of min(q, p), which is 1 less half the distance.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from verispec.training.dflash import BLOCK, EPSILON, BlockHead, Blocks, DFlashTraining, cross_entropy
from verispec.training.distillation import ROWS
from verispec.training.draft_training import Losses
from verispec.training.features import FeatureStatistics
from verispec.training.target_facts import TargetFacts

RANK = 128
"""Of the Markov head; published heads of thousands of columns have 256."""
CROSS_ENTROPY, DISTANCE, CONFIDENCE = 0.1, 0.9, 1.0


class MarkovHead(nn.Module):
    """What the token before adds to the logits, of low rank."""

    def __init__(self, vocabulary: int, outputs: int) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(vocabulary, RANK)
        self.markov_w2 = nn.Linear(RANK, outputs, bias=False)
        nn.init.normal_(self.markov_w1.weight, std=0.02)
        nn.init.normal_(self.markov_w2.weight, std=0.02)


class ConfidenceHead(nn.Module):
    """How likely a row's token is to be accepted, from its hidden state and the token before."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width + RANK, 1)


class DSparkHead(BlockHead):
    """The backbone and its two heads."""

    def __init__(self, target: TargetFacts, draft_ids: Tensor, features: FeatureStatistics) -> None:
        super().__init__(target, draft_ids, features)
        self.markov_head = MarkovHead(target.model.vocabulary, len(draft_ids))
        self.confidence_head = ConfidenceHead(target.model.hidden_size)


class DSparkTraining(DFlashTraining):
    """Every row predicts, the anchor's included."""

    kind = "dspark"
    from_anchor = True
    _head: DSparkHead

    def _make_head(self, features: FeatureStatistics) -> DSparkHead:
        self._teacher_head = self._target.head.to(torch.bfloat16)
        return DSparkHead(self._target, self.draft_ids, features)

    def _logits(self, blocks: Blocks) -> Tensor:
        markov = self._head.markov_head
        added: Tensor = markov.markov_w2(markov.markov_w1(blocks.before))
        return super()._logits(blocks) + added

    def _compared(self, blocks: Blocks, logits: Tensor, weights: Tensor) -> Losses:
        expected = target_shares(blocks.teacher, self._teacher_head, self.draft_ids)
        drafted = logits.softmax(-1)
        apart = (drafted - expected).abs().sum(-1) + (1 - expected.sum(-1)).clamp(min=0)
        whole = weights.sum() + EPSILON
        distance = (apart * weights).sum() / whole
        entropy = cross_entropy(logits, self._places[blocks.tokens], weights)
        kept = (
            torch.minimum(drafted.detach(), expected).sum(-1).clamp(max=1)
        )  # but for rounding it is at most 1
        judged = functional.binary_cross_entropy_with_logits(self._confidence(blocks), kept, reduction="none")
        confidence = (judged * weights).sum() / whole
        total = CROSS_ENTROPY * entropy + DISTANCE * distance + CONFIDENCE * confidence
        shown = {"cross entropy": entropy, "distance": distance, "confidence": confidence}
        return Losses(total, {name: value.item() for name, value in shown.items()})

    def _confidence(self, blocks: Blocks) -> Tensor:
        """Its logits [blocks, predicted]."""
        before = self._head.markov_head.markov_w1(blocks.before)
        logits: Tensor = self._head.confidence_head.proj(torch.cat([blocks.hidden, before], dim=-1))
        return logits[..., 0]

    def _named(self) -> dict[str, Any]:
        return {
            "target_layer_ids": [tap - 1 for tap in self._taps],
            "mask_token_id": self._mask_token,
            "markov_rank": RANK,
            "markov_head_type": "vanilla",
            "enable_confidence_head": True,
            "confidence_head_with_markov": True,
            "block_size": BLOCK,
        }


@torch.no_grad()
def target_shares(teacher: Tensor, head: Tensor, draft_ids: Tensor) -> Tensor:
    """What the target gives each of ``draft_ids`` [outputs] of all its tokens [..., outputs], float32: ``teacher``
    [..., width] are its final hidden states, ``head`` [vocabulary, width] bfloat16 its output matrix. Few rows have
    logits for all tokens at once."""
    rows = teacher.reshape(-1, teacher.shape[-1]).to(torch.bfloat16)
    shares = torch.empty(len(rows), len(draft_ids))
    for begin in range(0, len(rows), ROWS):
        part = slice(begin, begin + ROWS)
        logits = (rows[part] @ head.T).float()
        shares[part] = (logits[:, draft_ids] - logits.logsumexp(-1, keepdim=True)).exp_()
    return shares.reshape(*teacher.shape[:-1], len(draft_ids))

"""DFlash in torch: the head, and its loss over blocks that begin at sampled anchors.

The graph is that of ``models/dflash.py``. The loss is the published one (z-lab/dflash; DeepSpec trains the same): cross
entropy with the text's own tokens, the weight of a row falling with its distance from the anchor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from verispec.training.batches import Batch
from verispec.training.block_layers import Backbone
from verispec.training.draft_training import DraftTraining, Losses
from verispec.training.features import FeatureStatistics, published_parameters
from verispec.training.layers import AttentionShape
from verispec.training.settings import TrainingSettings
from verispec.training.target_facts import TargetFacts

LAYERS = 2
BLOCK = 7
"""Rows of a block, as DeepSpec publishes it."""
ANCHORS = 48
"""Blocks sampled of a text in a step."""
DECAY = 4.0
"""A row's weight falls to 1/e over so many rows."""
EPSILON = 1e-6
OUTSIDE = -100
"""Stands for a token that is not scored."""


@dataclass(frozen=True)
class Blocks:
    """``hidden`` [blocks, predicted, width]; ``tokens`` and ``before`` [blocks, predicted]: the text's token at a row,
    and the one before it; ``counted``: rows within the answer. ``teacher`` [blocks, predicted, width]: the target's
    state that the token was drawn from."""

    hidden: Tensor
    tokens: Tensor
    before: Tensor
    counted: Tensor
    teacher: Tensor


class BlockHead(Backbone):
    """Parameters by their published names; embedding and mask are the target's."""

    def __init__(self, target: TargetFacts, draft_ids: Tensor, features: FeatureStatistics) -> None:
        model = target.model
        shape = AttentionShape(model.heads, model.kv_heads, model.head_dim, model.rope.base)
        super().__init__(
            features.scales, model.hidden_size, model.feed_forward, LAYERS, shape, model.norm_epsilon
        )
        self.lm_head = nn.Linear(model.hidden_size, len(draft_ids), bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        with torch.no_grad():
            self.norm.weight.copy_(target.final_norm)
            self.lm_head.weight.copy_(target.head[draft_ids])


class DFlashTraining(DraftTraining):
    """``draft_ids`` [outputs] int64, ascending: the target's tokens that the head scores."""

    kind = "dflash"
    from_anchor = False
    """Whether the anchor's own row predicts the first token."""

    def __init__(
        self,
        target: TargetFacts,
        taps: tuple[int, ...],
        draft_ids: Tensor,
        features: FeatureStatistics,
        settings: TrainingSettings,
    ) -> None:
        self._target = target
        self._taps = taps
        self._settings = settings
        self.draft_ids = draft_ids
        self._places = torch.full((target.model.vocabulary,), OUTSIDE)
        self._places[draft_ids] = torch.arange(len(draft_ids))
        self._mask_token = mask_token(target)
        self._head = self._make_head(features)

    def _make_head(self, features: FeatureStatistics) -> BlockHead:
        return BlockHead(self._target, self.draft_ids, features)

    @property
    def module(self) -> BlockHead:
        return self._head

    @property
    def width(self) -> int:
        """Tokens that a block predicts."""
        return BLOCK if self.from_anchor else BLOCK - 1

    def losses(self, batch: Batch, random: np.random.Generator) -> Losses:
        blocks = self._blocks(batch, sample_anchors(batch.answers, self.width, random))
        with torch.autocast("cpu", torch.bfloat16):
            logits = self._logits(blocks)
        return self._compared(blocks, logits.float(), self._weights(blocks))

    def _compared(self, blocks: Blocks, logits: Tensor, weights: Tensor) -> Losses:
        loss = cross_entropy(logits, self._places[blocks.tokens], weights)
        return Losses(loss, {"cross entropy": loss.item()})

    def _weights(self, blocks: Blocks) -> Tensor:
        return blocks.counted * torch.exp(-torch.arange(self.width) / DECAY)

    def _logits(self, blocks: Blocks) -> Tensor:
        """[blocks, predicted, outputs]"""
        logits: Tensor = self._head.lm_head(blocks.hidden)
        return logits

    def _blocks(self, batch: Batch, anchors: Tensor) -> Blocks:
        """The blocks that begin at ``anchors`` [texts, blocks]."""
        texts = torch.arange(len(anchors))[:, None]
        embedding = self._target.embedding
        embedded = embedding[self._mask_token].expand(*anchors.shape, BLOCK, -1).clone()
        embedded[:, :, 0] = embedding[batch.tokens[texts, anchors]]
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self._head(batch.features, embedded, anchors)[:, :, BLOCK - self.width :]
        at = anchors[:, :, None] + torch.arange(self.width)  # the positions that the tokens are drawn at
        last = batch.answers.shape[1] - 1
        within = at <= last
        at, texts = at.clamp(max=last), texts[:, :, None]
        counted = (batch.answers[texts, at] & within).cumprod(-1)
        return Blocks(
            hidden.flatten(0, 1).float(),
            batch.tokens[texts, at + 1].flatten(0, 1),
            batch.tokens[texts, at].flatten(0, 1),
            counted.flatten(0, 1),
            batch.final[texts, at].flatten(0, 1),
        )

    @torch.no_grad()
    def accepted(self, batch: Batch) -> npt.NDArray[np.bool_]:
        answer = torch.nonzero(batch.answers[0]).flatten()  # a held-out batch is one text
        begun = answer[
            : max(0, len(answer) - self.width + 1)
        ]  # with a whole block left, as other kinds count
        if not len(begun):
            return np.zeros((0, self.width), np.bool_)
        blocks = self._blocks(batch, begun[None])
        with torch.autocast("cpu", torch.bfloat16):
            proposed = self.draft_ids[self._logits(blocks).argmax(-1)]
        right = (proposed == blocks.tokens) & blocks.counted.bool()
        whole: npt.NDArray[np.bool_] = right.cumprod(-1).bool().numpy()
        return whole

    def published(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """z-lab's layout, or DeepSpec's."""
        values = published_parameters(self._head)
        ids = self.draft_ids.numpy()
        values["d2t"] = ids - np.arange(len(ids))
        values["t2d"] = (self._places != OUTSIDE).numpy()
        model = self._target.model
        config = {
            "model_type": "qwen3",
            "hidden_size": model.hidden_size,
            "intermediate_size": model.feed_forward,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": model.heads,
            "num_key_value_heads": model.kv_heads,
            "head_dim": model.head_dim,
            "max_position_embeddings": model.trained_context,
            "rms_norm_eps": model.norm_epsilon,
            "rope_theta": model.rope.base,
            "vocab_size": model.vocabulary,
            "draft_vocab_size": len(ids),
            "hidden_act": "silu",
            "block_size": BLOCK,
            **self._named(),
        }
        return values, config

    def _named(self) -> dict[str, Any]:
        """What only this kind's configuration says."""
        by_output = [tap - 1 for tap in self._taps]
        return {"dflash_config": {"target_layer_ids": by_output, "mask_token_id": self._mask_token}}


def mask_token(target: TargetFacts) -> int:
    """The token that stands for one to be predicted: the last id, which texts hardly ever use."""
    return target.model.vocabulary - 1


def sample_anchors(answers: Tensor, width: int, random: np.random.Generator) -> Tensor:
    """[texts, ``ANCHORS``]: positions whose next token is one of the answer's, some twice in a short answer."""
    chosen = [random.choice(np.flatnonzero(row), ANCHORS) for row in answers.numpy()]
    return torch.from_numpy(np.sort(np.stack(chosen), axis=1))


def cross_entropy(logits: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean in nats over rows whose token is scored; ``places`` [...]: its output, or ``OUTSIDE``."""
    scored = weights * (places != OUTSIDE)
    chosen = logits.log_softmax(-1).gather(-1, places.clamp(min=0)[..., None])[..., 0]
    return -(chosen * scored).sum() / (scored.sum() + EPSILON)

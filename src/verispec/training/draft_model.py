"""A small draft model in torch, distilled from its target: a llama with the target's tokens, and its loss.

The loss is the cross entropy with the target's distribution over all tokens, as "DistillSpec" (Zhou et al.,
https://arxiv.org/abs/2310.08461) finds best on text that comes from the models themselves. Here it is the target's own,
so that nothing but stored hidden states is needed of the target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from verispec.training.batches import Batch
from verispec.training.distillation import distillation_loss
from verispec.training.draft_training import DraftTraining, Losses
from verispec.training.features import FeatureStatistics
from verispec.training.layers import AttentionShape, FeedForward, Norm, Projections
from verispec.training.settings import TrainingSettings
from verispec.training.target_facts import TargetFacts

LAYERS = 3
HEAD_DIM = 64
WIDEST = 192
"""Columns at most; the embedding has more parameters than all layers together, and every proposal reads it."""
WIDER = 4
"""Columns of the feed-forward for each column."""
ROPE_BASE = 10000.0
NORM_EPSILON = 1e-5


class LlamaLayer(nn.Module):
    """One layer of a llama, over whole texts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        heads = width // HEAD_DIM
        self.input_layernorm = Norm(width, NORM_EPSILON)
        self.self_attn = Projections(
            width, width, AttentionShape(heads, heads, HEAD_DIM, ROPE_BASE), NORM_EPSILON, normed=False
        )
        self.post_attention_layernorm = Norm(width, NORM_EPSILON)
        self.mlp = FeedForward(width, WIDER * width)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """``x`` [texts, n, width] at ``positions`` [1, n]."""
        attention = self.self_attn
        normed = self.input_layernorm(x)
        mixed = functional.scaled_dot_product_attention(
            attention.queries(normed, positions),
            attention.keys(normed, positions),
            attention.values(normed),
            is_causal=True,
        )
        x = x + attention.joined(mixed)
        output: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return output


class Llama(nn.Module):
    """Parameters by their published names, without the prefix ``model.``; the embedding is the output matrix too."""

    def __init__(self, target: TargetFacts) -> None:
        super().__init__()
        width = draft_width(target.model.hidden_size)
        self.embed_tokens = nn.Embedding(len(target.embedding), width)
        self.layers = nn.ModuleList([LlamaLayer(width) for _ in range(LAYERS)])
        self.norm = Norm(width, NORM_EPSILON)
        for parameter in self.layers.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        with torch.no_grad():
            self.embed_tokens.weight.copy_(principal_columns(target.head, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """What the output matrix reads behind each of ``tokens`` [texts, n]: [texts, n, width]."""
        positions = torch.arange(tokens.shape[1])[None]
        with torch.autocast("cpu", torch.bfloat16):
            x = self.embed_tokens(tokens)
            for layer in self.layers:
                x = layer(x, positions)
            output: Tensor = self.norm(x)
            return output


class DraftModelTraining(DraftTraining):
    """Every token is scored: ``draft_ids`` are all of them. Only the final hidden states are read, as teacher."""

    kind = "draft-model"

    def __init__(
        self,
        target: TargetFacts,
        taps: tuple[int, ...],
        draft_ids: Tensor,
        features: FeatureStatistics,
        settings: TrainingSettings,
    ) -> None:
        self._target = target
        self._depth = settings.depth  # proposals in a row that a check asks for; it learns them one by one
        self._model = Llama(target)

    @property
    def module(self) -> Llama:
        return self._model

    def losses(self, batch: Batch, random: np.random.Generator) -> Losses:
        rows = self._model(batch.tokens[:, :-1])[batch.answers]
        weights = torch.full((len(rows),), 1 / len(rows))
        loss = distillation_loss(
            rows, self._model.embed_tokens.weight, batch.final[batch.answers], self._target.head, weights
        )
        return Losses(loss, {"cross entropy": loss.item()})

    @torch.no_grad()
    def accepted(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """A proposal counts only if all before it are the text's own tokens, so that the model may read those."""
        proposed = self.logits(batch.tokens[:, :-1]).argmax(-1)
        right = (proposed == batch.tokens[:, 1:]) & batch.answers
        whole = right.unfold(1, self._depth, 1).cumprod(-1).bool()  # [texts, starts, depth]
        found: npt.NDArray[np.bool_] = whole[batch.answers[:, : whole.shape[1]]].numpy()
        return found

    def logits(self, tokens: Tensor) -> Tensor:
        """What it says of the token behind each of ``tokens`` [texts, n]: [texts, n, vocabulary]."""
        with torch.autocast("cpu", torch.bfloat16):
            return functional.linear(self._model(tokens), self._model.embed_tokens.weight)

    def published(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """A llama's layout."""
        values = {f"model.{name}": value.detach().numpy() for name, value in self._model.state_dict().items()}
        vocabulary, width = self._model.embed_tokens.weight.shape
        config = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": width,
            "intermediate_size": WIDER * width,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": width // HEAD_DIM,
            "num_key_value_heads": width // HEAD_DIM,
            "head_dim": HEAD_DIM,
            "max_position_embeddings": self._target.model.trained_context,
            "rms_norm_eps": NORM_EPSILON,
            "rope_theta": ROPE_BASE,
            "vocab_size": vocabulary,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
        }
        return values, config


def draft_width(hidden_size: int) -> int:
    """Columns of a draft model for a target of ``hidden_size``: whole heads, no more than the target has."""
    return max(HEAD_DIM, min(WIDEST, hidden_size) // HEAD_DIM * HEAD_DIM)


def principal_columns(matrix: Tensor, width: int) -> Tensor:
    """``matrix`` [rows, columns] float32 in the ``width`` directions in which its rows vary most [rows, width], its
    root-mean-square 1 / sqrt(width): tokens that are alike to the target begin alike. Columns that it lacks are 0."""
    _, directions = torch.linalg.eigh(matrix.T @ matrix)  # the last is the greatest
    kept = matrix @ directions[:, -width:]
    scaled = kept / (kept.square().mean() * width).sqrt()
    return functional.pad(scaled, (0, width - scaled.shape[1]))

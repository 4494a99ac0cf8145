"""The layers of a block drafter in torch: a block's queries over the target's hidden states and the block itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from verispec.training.features import FeatureProjection
from verispec.training.layers import AttentionShape, FeedForward, Norm, Projections


class BlockLayer(nn.Module):
    """One layer of Qwen3's form. Keys and values come from the context, which goes through no norm, and the block."""

    def __init__(self, width: int, wide: int, shape: AttentionShape, epsilon: float) -> None:
        super().__init__()
        self.input_layernorm = Norm(width, epsilon)
        self.self_attn = Projections(width, width, shape, epsilon, normed=True)
        self.post_attention_layernorm = Norm(width, epsilon)
        self.mlp = FeedForward(width, wide)

    def forward(self, x: Tensor, positions: Tensor, context: Tensor, seen: Tensor) -> Tensor:
        """``x`` [texts, rows, width] at ``positions`` [texts, rows]; ``context`` [texts, n, width]; ``seen`` [texts,
        rows, n + rows] is true where a row may look."""
        attention = self.self_attn
        normed = self.input_layernorm(x)
        places = torch.arange(context.shape[1])[None].expand(len(context), -1)
        keys = [attention.keys(context, places), attention.keys(normed, positions)]
        values = [attention.values(context), attention.values(normed)]
        mixed = functional.scaled_dot_product_attention(
            attention.queries(normed, positions), torch.cat(keys, 2), torch.cat(values, 2), seen[:, None]
        )
        x = x + attention.joined(mixed)
        output: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return output


class Backbone(nn.Module):
    """From hidden states and blocks of masks to the blocks' hidden states, after the norm."""

    def __init__(
        self, scales: Tensor, width: int, wide: int, layers: int, shape: AttentionShape, epsilon: float
    ) -> None:
        super().__init__()
        self.fc = FeatureProjection(scales, width)
        self.hidden_norm = Norm(width, epsilon)
        self.layers = nn.ModuleList([BlockLayer(width, wide, shape, epsilon) for _ in range(layers)])
        self.norm = Norm(width, epsilon)

    def forward(self, features: Tensor, embedded: Tensor, anchors: Tensor) -> Tensor:
        """``features`` [texts, n, columns]; ``embedded`` [texts, blocks, size, width]: anchors and masks; ``anchors``
        [texts, blocks]: their positions. [texts, blocks, size, width]"""
        _, blocks, size, _ = embedded.shape
        context = self.hidden_norm(self.fc(features))
        positions = (anchors[:, :, None] + torch.arange(size)).flatten(1)
        seen = seen_from(anchors, size, features.shape[1])
        x = embedded.flatten(1, 2)
        for layer in self.layers:
            x = layer(x, positions, context, seen)
        output: Tensor = self.norm(x).unflatten(1, (blocks, size))
        return output


def seen_from(anchors: Tensor, size: int, context: int) -> Tensor:
    """[texts, rows, context + rows]: a block sees what lies before its anchor, and all of itself."""
    before = torch.arange(context)[None, None] < anchors.repeat_interleave(size, dim=1)[:, :, None]
    block = torch.arange(anchors.shape[1]).repeat_interleave(size)
    own = (block[:, None] == block[None])[None].expand(len(anchors), -1, -1)
    return torch.cat([before, own], dim=2)

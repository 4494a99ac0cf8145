"""The parts of a drafter's layers in torch: norm, rotation, feed-forward. Names are those of published checkpoints."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Norm(nn.Module):
    """Root-mean-square norm with a weight."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return self.weight * wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)


class FeedForward(nn.Module):
    """``down(silu(gate(x)) * up(x))``."""

    def __init__(self, width: int, wide: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, wide, bias=False)
        self.up_proj = nn.Linear(width, wide, bias=False)
        self.down_proj = nn.Linear(wide, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return output


class Projections(nn.Module):
    """Queries, keys and values of ``inputs`` columns, and the output's projection back to ``width``.

    With ``normed`` every head's query and key is normed before it is rotated, as Qwen3 does.
    """

    def __init__(self, inputs: int, width: int, shape: AttentionShape, epsilon: float, normed: bool) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(inputs, shape.heads * shape.head_dim, bias=False)
        self.k_proj = nn.Linear(inputs, shape.kv_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(inputs, shape.kv_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, width, bias=False)
        if normed:
            self.q_norm, self.k_norm = Norm(shape.head_dim, epsilon), Norm(shape.head_dim, epsilon)
        self._normed = normed

    def queries(self, x: Tensor, positions: Tensor) -> Tensor:
        """[batch, heads, rows, head dim], rotated to ``positions`` [batch or 1, rows]."""
        queries = self._by_head(self.q_proj(x), self.shape.heads)
        return rotate(self.q_norm(queries) if self._normed else queries, positions, self.shape.base)

    def keys(self, x: Tensor, positions: Tensor) -> Tensor:
        """As the queries, one for each of these."""
        keys = self._by_head(self.k_proj(x), self.shape.kv_heads)
        keys = rotate(self.k_norm(keys) if self._normed else keys, positions, self.shape.base)
        return keys.repeat_interleave(self.shape.group, dim=1)

    def values(self, x: Tensor) -> Tensor:
        """[batch, heads, rows, head dim], one for each query."""
        return self._by_head(self.v_proj(x), self.shape.kv_heads).repeat_interleave(self.shape.group, dim=1)

    def joined(self, mixed: Tensor) -> Tensor:
        """The layer's output [batch, rows, width] from ``mixed`` [batch, heads, rows, head dim]."""
        output: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return output

    def _by_head(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:-1], heads, self.shape.head_dim).transpose(1, 2)


class AttentionShape:
    """Heads of an attention layer, and the base of its rotation."""

    def __init__(self, heads: int, kv_heads: int, head_dim: int, base: float) -> None:
        self.heads, self.kv_heads, self.head_dim, self.base = heads, kv_heads, head_dim, base
        self.group = heads // kv_heads


def rotate(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """Rotary position embedding over the halves of ``x`` [batch, heads, rows, head dim], in bfloat16 as it came."""
    half = x.shape[-1] // 2
    frequencies = base ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = positions[:, None, :, None].float() * frequencies
    cosines, sines = angles.cos(), angles.sin()
    first, second = x[..., :half].float(), x[..., half:].float()
    turned = torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)
    return turned.to(torch.bfloat16)

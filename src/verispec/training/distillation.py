"""Cross entropy with the target's distribution, for logits that are never in memory all at once.

A head over tens of thousands of tokens gives more logits than anything else in a step; here they live for one chunk of
rows, small enough for the caches, and only their gradient is kept, in bfloat16.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

ROWS = 512
ROUNDED = 128
"""Rows are padded to a multiple of it: for every new shape torch compiles its kernels again."""


class DistillationLoss(torch.autograd.Function):
    """Sum over rows of ``weight * -sum(p log q)`` in nats, where q = softmax(hidden @ head.T) and
    p = softmax(teacher @ teacher_head.T).

    ``hidden``, ``teacher`` [rows, width]; ``head``, ``teacher_head`` [outputs, width]; ``weights`` [rows]. Products run
    in bfloat16, the rest in float32. Gradients are those of ``hidden`` and ``head``.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, teacher: Tensor, teacher_head: Tensor, weights: Tensor
    ) -> Tensor:
        low = torch.bfloat16
        narrow, narrow_head, narrow_teacher = hidden.to(low), head.to(low), teacher_head.to(low)
        loss = torch.zeros((), dtype=torch.float32)
        gradient = torch.empty(len(hidden), len(head), dtype=low)
        for begin in range(0, len(hidden), ROWS):
            rows = slice(begin, begin + ROWS)
            expected = torch.softmax(teacher[rows].to(low) @ narrow_teacher.T, -1, dtype=torch.float32)
            found = torch.log_softmax(narrow[rows] @ narrow_head.T, -1, dtype=torch.float32)
            loss -= weights[rows] @ torch.bmm(expected[:, None], found[..., None])[:, 0, 0]
            gradient[rows] = found.exp_().sub_(expected)
        weighted = narrow * weights[:, None].to(low)
        hidden_gradient = (gradient @ narrow_head).float() * weights[:, None]
        head_gradient = (gradient.T @ weighted).float()
        ctx.save_for_backward(hidden_gradient, head_gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        hidden_gradient, head_gradient = ctx.saved_tensors
        return outer[0] * hidden_gradient, outer[0] * head_gradient, None, None, None


def distillation_loss(
    hidden: Tensor, head: Tensor, teacher: Tensor, teacher_head: Tensor, weights: Tensor
) -> Tensor:
    """See ``DistillationLoss``; the gradient stays with ``hidden`` and ``head``."""
    behind = (0, 0, 0, -len(hidden) % ROUNDED)
    loss: Tensor = DistillationLoss.apply(  # type: ignore[no-untyped-call]
        functional.pad(hidden, behind),
        head,
        functional.pad(teacher, behind),
        teacher_head,
        functional.pad(weights, behind[2:]),
    )
    return loss

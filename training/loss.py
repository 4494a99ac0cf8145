"""What is minimised: the target's surprise at the text, and the prediction block's distance from the target."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from training.architecture import HybridModel
from training.chains import chains


@dataclass(frozen=True)
class Losses:
    """``target``: nats a token. ``predictions`` [depths]: cross entropy with the target's distribution, nats."""

    target: Tensor
    predictions: Tensor


def losses(model: HybridModel, window: Tensor, depths: int, stride: int, offset: int) -> Losses:
    """The losses of ``window`` [batch, rows + 1]: the target on every row, the block on chains of ``depths`` rows.

    The block learns the target's own distribution at the position it predicts, since that is what its proposals
    are compared with; the target is not pulled towards its block by this comparison.
    """
    tokens, answers = window[:, :-1], window[:, 1:]
    hidden = model.hidden(tokens)
    logits = model.head(hidden)
    target = functional.cross_entropy(logits.flatten(0, 1), answers.flatten())
    teacher = logits.detach().softmax(-1)
    predictions = [
        -(teacher[:, at] * model.head(x).log_softmax(-1)).sum(-1).mean()
        for at, x in chains(model, tokens, hidden, depths, stride, offset)
    ]
    return Losses(target, torch.stack(predictions))

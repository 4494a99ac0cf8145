"""The prediction block applied to its own output, for chains that begin at many rows of a text at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from training.architecture import HybridModel, KeysAndValues


def chains(
    model: HybridModel, tokens: Tensor, hidden: Tensor, depths: int, stride: int = 1, offset: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """For every depth: the positions of the chains' newest tokens [chains], and outputs [batch, chains, width].

    ``tokens`` is [batch, L + depths], ``hidden`` the target's post-norm states of it; a chain begins at each of the
    first L rows. At depth j the chain of row i holds token i + 1 + j, sees what drafting would have kept for it (the
    entries made from the target's states up to row i, and its own since), and its output predicts token i + 2 + j.
    Depths after the first are computed for every ``stride``-th row from ``offset`` on; no row needs another's chain.
    """
    rows = torch.arange(tokens.shape[1] - depths, device=tokens.device)
    embedded = model.target.model.embed_tokens(tokens)
    seen = rows[:, None] >= rows[None]
    cache = KeysAndValues()
    x = hidden[:, : len(rows)]
    for depth in range(depths):
        at = rows + depth + 1
        x = model.mtp(embedded[:, at], x, model.rotation(at), seen, cache)
        yield at, x
        if depth == 0:
            rows, x, seen = rows[offset::stride], x[:, offset::stride], seen[offset::stride]
        seen = torch.cat([seen, torch.eye(len(rows), dtype=torch.bool, device=tokens.device)], dim=1)

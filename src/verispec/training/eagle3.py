"""EAGLE-3 in torch: the head, and its training-time test, in which it learns to go on from its own hidden states.

The graph is that of ``models/eagle3.py``. The loss is the published one ("EAGLE-3", Li et al., and SafeAILab/EAGLE):
the cross entropy with the target's distribution over the draft's vocabulary, at every proposal of a chain, each
weighing 0.8 of the one before; rows where the target's own first choice is outside that vocabulary are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from verispec.training.batches import Batch
from verispec.training.distillation import distillation_loss
from verispec.training.draft_training import DraftTraining, Losses
from verispec.training.features import FeatureProjection, FeatureStatistics, published_parameters
from verispec.training.layers import AttentionShape, FeedForward, Norm, Projections
from verispec.training.settings import TrainingSettings
from verispec.training.target_facts import TargetFacts


class MidLayer(nn.Module):
    """The one decoder layer, over embedding and fused hidden states side by side."""

    def __init__(self, width: int, wide: int, shape: AttentionShape, epsilon: float) -> None:
        super().__init__()
        self.input_layernorm = Norm(width, epsilon)
        self.hidden_norm = Norm(width, epsilon)
        self.self_attn = Projections(2 * width, width, shape, epsilon, normed=False)
        self.post_attention_layernorm = Norm(width, epsilon)
        self.mlp = FeedForward(width, wide)

    def forward(self, embedded: Tensor, fused: Tensor, positions: Tensor, cache: ChainCache) -> Tensor:
        """What the next step reads [batch, rows, width], and the rows' keys and values into ``cache``."""
        both = torch.cat([self.input_layernorm(embedded), self.hidden_norm(fused)], dim=-1)
        attention = self.self_attn
        cache.add(attention.keys(both, positions), attention.values(both))
        x = fused + attention.joined(cache.mix(attention.queries(both, positions)))
        output: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return output


class ChainCache:
    """Keys and values of chains that begin at rows of one text: the entries made from the target's hidden states, which
    a chain sees up to where it begins, and its own since."""

    def __init__(self) -> None:
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._rows = torch.empty(0, dtype=torch.int64)

    def add(self, keys: Tensor, values: Tensor) -> None:
        """[batch, heads, rows, head dim]"""
        if not self._keys:
            self._rows = torch.arange(keys.shape[2])
        self._keys.append(keys)
        self._values.append(values)

    def keep(self, rows: Tensor) -> None:
        """From here on only the chains that begin at ``rows`` go on."""
        self._rows = rows

    def mix(self, queries: Tensor) -> Tensor:
        """Attention of the newest row of every chain."""
        if len(self._keys) == 1:
            return functional.scaled_dot_product_attention(
                queries, self._keys[0], self._values[0], is_causal=True
            )
        scale = queries.shape[-1] ** -0.5
        hidden = torch.arange(self._keys[0].shape[2])[None] > self._rows[:, None]
        scores = (queries @ self._keys[0].transpose(2, 3) * scale).float().masked_fill(hidden, -torch.inf)
        own = [(queries * keys).sum(-1, keepdim=True).float() * scale for keys in self._keys[1:]]
        weights = torch.cat([scores, *own], dim=-1).softmax(-1).to(queries.dtype)
        length = hidden.shape[1]
        mixed = weights[..., :length] @ self._values[0]
        for i, values in enumerate(self._values[1:]):
            mixed = mixed + weights[..., length + i, None] * values
        return mixed


class Eagle3Head(nn.Module):
    """Parameters by their published names."""

    def __init__(self, target: TargetFacts, draft_ids: Tensor, features: FeatureStatistics) -> None:
        super().__init__()
        model = target.model
        width, epsilon = model.hidden_size, model.norm_epsilon
        shape = AttentionShape(model.heads, model.kv_heads, model.head_dim, model.rope.base)
        self.fc = FeatureProjection(features.scales, width)
        self.midlayer = MidLayer(width, model.feed_forward, shape, epsilon)
        self.norm = Norm(width, epsilon)
        self.lm_head = nn.Linear(width, len(draft_ids), bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        with (
            torch.no_grad()
        ):  # it begins as what a linear map tells of the hidden states, read by the target's head
            self.fc.weight.copy_(features.ahead)
            self.midlayer.self_attn.o_proj.weight.zero_()
            self.midlayer.mlp.down_proj.weight.zero_()
            self.norm.weight.copy_(target.final_norm)
            self.lm_head.weight.copy_(target.head[draft_ids])


class Eagle3Training(DraftTraining):
    """``draft_ids`` [outputs] int64, ascending: the target's tokens that the head scores."""

    kind = "eagle3"

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
        self._head = Eagle3Head(target, draft_ids, features)
        self._teacher_head = target.head[draft_ids].to(torch.bfloat16)
        self._scored = torch.zeros(target.model.vocabulary, dtype=torch.bool)
        self._scored[draft_ids] = True

    @property
    def module(self) -> Eagle3Head:
        return self._head

    def losses(self, batch: Batch, random: np.random.Generator) -> Losses:
        settings = self._settings
        offset = int(random.integers(settings.stride))
        counted = batch.answers & self._scored[batch.choices]
        decay = [settings.depth_decay**depth for depth in range(settings.depth)]
        total = torch.zeros(())
        shown = {}
        for depth, (at, x) in enumerate(self.chains(batch, settings.depth, settings.stride, offset)):
            here = counted[:, at]
            rows = self._head.norm(x)[here]
            weights = torch.full((len(rows),), 1 / max(1, len(rows)))
            teacher = batch.final[:, at][here]
            loss = distillation_loss(rows, self._head.lm_head.weight, teacher, self._teacher_head, weights)
            total = total + loss * decay[depth] / sum(decay)
            shown[f"{depth + 1}"] = loss.item()
        return Losses(total, shown)

    def chains(
        self, batch: Batch, depth: int, stride: int = 1, offset: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """For every proposal of a chain: the positions that the chains have come to [chains], and what the output
        matrix reads there [texts, chains, width], before the norm.

        The chain of row i begins with the hidden states of position i and the token behind it; its proposal j is for
        position i + 1 + j, counted from 1. After the first only every ``stride``-th chain goes on, from ``offset`` on.
        """
        rows = torch.arange(batch.features.shape[1] - depth)
        embedding = self._target.embedding
        with torch.autocast("cpu", torch.bfloat16):
            x = self._head.fc(batch.features[:, : len(rows)]).float()
            cache = ChainCache()
            for step in range(depth):
                at = rows + step + 1
                embedded = embedding[batch.tokens[:, at]]
                x = self._head.midlayer(embedded, x, at[None], cache)
                yield at, x
                if step == 0:
                    rows = rows[offset::stride]
                    x = x[:, offset::stride]
                    cache.keep(rows)

    @torch.no_grad()
    def accepted(self, batch: Batch) -> npt.NDArray[np.bool_]:
        right: list[Tensor] = []
        for at, x in self.chains(batch, self._settings.depth):
            with torch.autocast("cpu", torch.bfloat16):
                proposed = self.draft_ids[self._head.lm_head(self._head.norm(x)).argmax(-1)]
            right.append((proposed == batch.tokens[:, at + 1]) & batch.answers[:, at])
        begun = batch.answers[:, 1 : 1 + right[0].shape[1]]
        accepted: npt.NDArray[np.bool_] = torch.stack(right, -1).cumprod(-1).bool()[begun].numpy()
        return accepted

    def published(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """SafeAILab's layout."""
        values = published_parameters(self._head)
        ids = self.draft_ids.numpy()
        values["d2t"] = ids - np.arange(len(ids))
        values["t2d"] = self._scored.numpy()
        model = self._target.model
        config = {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": model.hidden_size,
            "intermediate_size": model.feed_forward,
            "num_hidden_layers": 1,
            "num_attention_heads": model.heads,
            "num_key_value_heads": model.kv_heads,
            "head_dim": model.head_dim,
            "max_position_embeddings": model.trained_context,
            "rms_norm_eps": model.norm_epsilon,
            "rope_theta": model.rope.base,
            "vocab_size": model.vocabulary,
            "draft_vocab_size": len(ids),
            "hidden_act": "silu",
            "eagle_config": {
                "eagle_aux_hidden_state_layer_ids": [tap - 1 for tap in self._taps],
                "use_aux_hidden_state": True,
            },
        }
        return values, config

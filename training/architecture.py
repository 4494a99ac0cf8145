"""The model: a small Qwen3.5 target of ``transformers``, and the family's native prediction (MTP) block.

``transformers`` ignores the prediction block of a checkpoint, so the block is written here, out of its decoder
layer. Parameter names are those of published checkpoints, so that exporting is writing the state down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    Qwen3_5DecoderLayer,
    Qwen3_5GatedDeltaNet,
    Qwen3_5RMSNorm,
)

from training.vocabulary import SIZE

PREDICTION: dict[str, Any] = {"mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False}
"""Keys of published configurations that the library only carries along."""


def small_config() -> Qwen3_5TextConfig:
    """Three gated-delta-net layers, then one of full attention; every row of a matrix is 256 or 512 wide.

    Twice as many value heads as key heads, grouped keys and values, a rotation over a quarter of a head: what
    published models of the family have, in small.
    """
    return Qwen3_5TextConfig(
        vocab_size=SIZE,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        layer_types=["linear_attention"] * 3 + ["full_attention"],
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=64,
        linear_value_head_dim=64,
        linear_conv_kernel_dim=4,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
        bos_token_id=None,
        eos_token_id=SIZE - 3,
        pad_token_id=None,
        **PREDICTION,
    )


@dataclass
class KeysAndValues:
    """The part of a ``transformers`` cache that an attention layer calls: it appends, and keeps the gradient."""

    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def update(self, keys: Tensor, values: Tensor, layer_idx: int, **_: object) -> tuple[Tensor, Tensor]:
        """Everything kept, ``keys`` and ``values`` [batch, heads, rows, width] included, oldest first."""
        self.keys.append(keys)
        self.values.append(values)
        return torch.cat(self.keys, dim=2), torch.cat(self.values, dim=2)


class PredictionBlock(nn.Module):
    """``fc(concat(norm(embedding), norm(hidden)))``, one full-attention layer, a norm; the head is the target's."""

    def __init__(self, config: Qwen3_5TextConfig) -> None:
        super().__init__()
        block = Qwen3_5TextConfig(
            **{**config.to_dict(), "num_hidden_layers": 1, "layer_types": ["full_attention"]}
        )
        block._attn_implementation = "sdpa"
        width = config.hidden_size
        self.fc = nn.Linear(2 * width, width, bias=False)
        self.pre_fc_norm_embedding = Qwen3_5RMSNorm(width, config.rms_norm_eps)
        self.pre_fc_norm_hidden = Qwen3_5RMSNorm(width, config.rms_norm_eps)
        self.layers = nn.ModuleList([Qwen3_5DecoderLayer(block, 0)])
        self.norm = Qwen3_5RMSNorm(width, config.rms_norm_eps)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=config.initializer_range)

    def forward(
        self,
        embedding: Tensor,
        hidden: Tensor,
        rotation: tuple[Tensor, Tensor],
        seen: Tensor,
        cache: KeysAndValues,
    ) -> Tensor:
        """The block's post-norm output [batch, rows, width] for the tokens' embeddings and the hidden states before.

        ``seen`` [rows, entries of the cache with these rows] is true where a row may look; ``rotation`` is the
        cosines and sines of the rows' positions.
        """
        both = torch.cat([self.pre_fc_norm_embedding(embedding), self.pre_fc_norm_hidden(hidden)], dim=-1)
        x = self.layers[0](
            self.fc(both), position_embeddings=rotation, attention_mask=seen[None, None], cache=cache
        )
        output: Tensor = self.norm(x)
        return output


class HybridModel(nn.Module):
    """The target and its prediction block, whose embedding and head are the target's."""

    def __init__(self, config: Qwen3_5TextConfig) -> None:
        super().__init__()
        self.target = Qwen3_5ForCausalLM(config)
        self.mtp = PredictionBlock(config)
        for module in self.target.modules():
            if isinstance(module, Qwen3_5GatedDeltaNet):
                _begin_with_slow_decay(module)

    def hidden(self, tokens: Tensor) -> Tensor:
        """The target's hidden states after the final norm, [batch, rows, width]."""
        hidden: Tensor = self.target.model(tokens, use_cache=False).last_hidden_state
        return hidden

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [..., vocabulary], float32 also where the products are bfloat16."""
        logits: Tensor = self.target.lm_head(hidden)
        return logits.float()

    def rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of positions [rows]."""
        cosines, sines = self.target.model.rotary_emb(self.target.lm_head.weight, positions[None])
        return cosines, sines


def _begin_with_slow_decay(layer: Qwen3_5GatedDeltaNet) -> None:
    """Time steps spread evenly in the logarithm from 0.001 to 0.1, as state-space models are begun.

    With the library's own beginning most heads forget everything within a few tokens, and have to unlearn that.
    """
    steps = torch.exp(torch.linspace(math.log(0.001), math.log(0.1), layer.num_v_heads))
    with torch.no_grad():
        layer.dt_bias.copy_(steps + torch.log(-torch.expm1(-steps)))  # the inverse of softplus
        layer.A_log.copy_(torch.log(torch.linspace(1, 16, layer.num_v_heads)))

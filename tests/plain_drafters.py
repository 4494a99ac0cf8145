"""Draft heads restated as their publications give them, in float64, whole texts at a time.

Written apart from the graphs in ``verispec.models``: no cache, no operations, one loop a head, from tensors under their
published names. After SafeAILab/EAGLE and vLLM's llama_eagle3 (with the variants of ``speculators``), z-lab/dflash,
and DeepSpec.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tiny_drafters import TinyDraft

Floats = npt.NDArray[np.float64]


class PlainHead:
    """What all have in common. ``embedding`` and ``head`` stand in for matrices that the file leaves to the target."""

    def __init__(
        self,
        draft: TinyDraft,
        values: dict[str, npt.NDArray[Any]],
        embedding: Floats | None = None,
        head: Floats | None = None,
    ) -> None:
        self.draft = draft
        self.values = {
            name.replace("midlayer.", "layers.0."): v.astype(np.float64) for name, v in values.items()
        }
        self.embedding = self.values.get("embed_tokens.weight", embedding)
        self.head = self.values.get("lm_head.weight", head)

    def norm(self, x: Floats, name: str) -> Floats:
        scale = np.sqrt((x**2).mean(-1, keepdims=True) + self.draft.epsilon)
        return x / scale * self.values[f"{name}.weight"]

    def through(self, x: Floats, name: str) -> Floats:
        return x @ self.values[f"{name}.weight"].T

    def turned(self, x: Floats, positions: npt.NDArray[np.int64]) -> Floats:
        """Rotates the two halves of each row against each other."""
        half = x.shape[1] // 2
        angles = positions[:, None] * self.draft.base ** (-np.arange(half) / half)
        left, right = x[:, :half], x[:, half:]
        return np.hstack(
            [left * np.cos(angles) - right * np.sin(angles), right * np.cos(angles) + left * np.sin(angles)]
        )

    def attended(self, q: Floats, k: Floats, v: Floats, seen: npt.NDArray[np.bool_]) -> Floats:
        scores = q @ k.T / np.sqrt(self.draft.head_dim)
        scores[~seen] = -np.inf
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True) @ v

    def fed(self, x: Floats, layer: str) -> Floats:
        gate = self.through(x, f"{layer}.mlp.gate_proj")
        return self.through(
            gate / (1 + np.exp(-gate)) * self.through(x, f"{layer}.mlp.up_proj"), f"{layer}.mlp.down_proj"
        )


class PlainEagle3(PlainHead):
    def fused(self, features: Floats) -> Floats:
        """``features`` has a row a position: the target's hidden states, side by side."""
        return self.through(
            self.norm(features, "input_norm") if self.draft.norm_before_fc else features, "fc"
        )

    def fed_back(self, tokens: list[int], fused: Floats) -> Floats:
        """For each of ``tokens[1:]``, from a row of ``fused`` for each of ``tokens[:-1]``."""
        assert self.embedding is not None
        draft, layer = self.draft, "layers.0"
        embedded = self.norm(self.embedding[tokens[1:]], f"{layer}.input_layernorm")
        normed = self.norm(fused, f"{layer}.hidden_norm")
        x = np.hstack([embedded, normed])
        places = np.arange(len(x))
        heads = []
        for head in range(draft.heads):
            own = slice(head * draft.head_dim, (head + 1) * draft.head_dim)
            group = head // (draft.heads // draft.kv_heads)
            shared = slice(group * draft.head_dim, (group + 1) * draft.head_dim)
            q = self.turned(self.through(x, f"{layer}.self_attn.q_proj")[:, own], places)
            k = self.turned(self.through(x, f"{layer}.self_attn.k_proj")[:, shared], places)
            v = self.through(x, f"{layer}.self_attn.v_proj")[:, shared]
            heads.append(self.attended(q, k, v, places[:, None] >= places[None, :]))
        x = self.through(np.hstack(heads), f"{layer}.self_attn.o_proj")
        x = x + (normed if draft.norm_before_residual else fused)
        x = x + self.fed(self.norm(x, f"{layer}.post_attention_layernorm"), layer)
        return self.norm(x, "norm") if draft.norm_output else x

    def logits(self, fed_back: Floats) -> Floats:
        assert self.head is not None
        return (fed_back if self.draft.norm_output else self.norm(fed_back, "norm")) @ self.head.T


class PlainDFlash(PlainHead):
    def block(self, features: Floats, anchor: int) -> Floats:
        """Hidden states of a block behind a context of ``features``, after the norm."""
        assert self.embedding is not None
        draft, before = self.draft, len(features)
        context = self.norm(self.through(features, "fc"), "hidden_norm")
        tokens = [anchor, *[draft.mask_token] * (draft.block - 1)]
        x = self.embedding[tokens]
        for index in range(draft.layers):
            layer = f"layers.{index}"
            normed = self.norm(x, f"{layer}.input_layernorm")
            x = x + self.mixed(layer, normed, np.vstack([context, normed]), before)
            x = x + self.fed(self.norm(x, f"{layer}.post_attention_layernorm"), layer)
        return self.norm(x, "norm")

    def mixed(self, layer: str, block: Floats, everything: Floats, before: int) -> Floats:
        draft, heads = self.draft, []
        places = np.arange(len(everything))
        for head in range(draft.heads):
            own = slice(head * draft.head_dim, (head + 1) * draft.head_dim)
            group = head // (draft.heads // draft.kv_heads)
            shared = slice(group * draft.head_dim, (group + 1) * draft.head_dim)
            q = self.norm(
                self.through(block, f"{layer}.self_attn.q_proj")[:, own], f"{layer}.self_attn.q_norm"
            )
            k = self.norm(
                self.through(everything, f"{layer}.self_attn.k_proj")[:, shared], f"{layer}.self_attn.k_norm"
            )
            v = self.through(everything, f"{layer}.self_attn.v_proj")[:, shared]
            everywhere = np.ones((len(block), len(everything)), np.bool_)
            heads.append(
                self.attended(self.turned(q, places[before:]), self.turned(k, places), v, everywhere)
            )
        return self.through(np.hstack(heads), f"{layer}.self_attn.o_proj")

    def logits(self, hidden: Floats) -> Floats:
        """Of the rows that predict: all from the anchor's on, or those of the masks."""
        assert self.head is not None
        return (hidden if self.draft.from_anchor else hidden[1:]) @ self.head.T


class PlainDSpark(PlainDFlash):
    def followed(self, hidden: Floats, previous: int) -> tuple[Floats, float]:
        """The bias on the logits of the row whose state is ``hidden``, and its confidence."""
        embedded = self.values["markov_head.markov_w1.weight"][previous]
        joined = np.concatenate([hidden, embedded])
        confidence = self.values["confidence_head.proj.weight"][0] @ joined
        confidence += self.values["confidence_head.proj.bias"][0]
        if self.draft.gated:
            gate = self.values["markov_head.gate_proj.weight"] @ joined
            embedded = embedded / (1 + np.exp(-gate - self.values["markov_head.gate_proj.bias"]))
        bias = self.values["markov_head.markov_w2.weight"] @ embedded
        return bias, float(1 / (1 + np.exp(-confidence)))

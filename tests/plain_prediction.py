"""The prediction block restated as its publication gives it, in float64, one whole text at a time.

Written apart from the graph in ``verispec.models`` (no cache, no operations, a loop a head and an expert), so that
an error in one is not in the other.
"""

from __future__ import annotations

import numpy as np

from tiny_hybrid import TinyHybrid, Values


class PlainPrediction:
    """The first prediction block of a file whose tensors are ``values``."""

    def __init__(self, model: TinyHybrid, values: dict[str, Values]) -> None:
        prefix = f"blk.{model.layers}."
        self.model = model
        self.part = {name.removeprefix(prefix): v for name, v in values.items() if name.startswith(prefix)}
        own_embedding = self.part.get("nextn.embed_tokens.weight")
        self.embedding = values["token_embd.weight"] if own_embedding is None else own_embedding
        target_head = values.get("output.weight", values["token_embd.weight"])
        self.head = self.part.get("nextn.shared_head_head.weight", target_head)
        self.final_norm = self.part.get("nextn.shared_head_norm.weight", values["output_norm.weight"])

    def hidden(self, tokens: list[int], states: Values) -> Values:
        """What the final norm gives for each of ``tokens[1:]``; ``states`` holds a row for each of
        ``tokens[:-1]``: the state from which that token's successor was to be guessed."""
        part = self.part
        following = self.norm(self.embedding[tokens[1:]], part["nextn.enorm.weight"])
        before = self.norm(states, part["nextn.hnorm.weight"])
        x = np.hstack([following, before]) @ part["nextn.eh_proj.weight"].T
        x = x + self.attention(self.norm(x, part["attn_norm.weight"]))
        normed = self.norm(x, part["post_attention_norm.weight"])
        x = x + np.stack([self.feed_forward(row) for row in normed])
        return self.norm(x, self.final_norm)

    def logits(self, tokens: list[int], states: Values) -> Values:
        return self.hidden(tokens, states) @ self.head.T

    def norm(self, x: Values, weight: Values) -> Values:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + self.model.epsilon) * weight

    def attention(self, x: Values) -> Values:
        model, part = self.model, self.part
        asked = (x @ part["attn_q.weight"].T).reshape(len(x), model.heads, 2, model.head_dim)
        keys = (x @ part["attn_k.weight"].T).reshape(len(x), model.kv_heads, model.head_dim)
        values = (x @ part["attn_v.weight"].T).reshape(len(x), model.kv_heads, model.head_dim)
        results = []
        for head in range(model.heads):
            shared = head // (model.heads // model.kv_heads)
            q = self.turn(self.norm(asked[:, head, 0], part["attn_q_norm.weight"]))
            k = self.turn(self.norm(keys[:, shared], part["attn_k_norm.weight"]))
            scores = q @ k.T / np.sqrt(model.head_dim)
            scores[np.triu_indices(len(x), 1)] = -np.inf
            weights = np.exp(scores - scores.max(1, keepdims=True))
            mixed = weights / weights.sum(1, keepdims=True) @ values[:, shared]
            results.append(mixed / (1 + np.exp(-asked[:, head, 1])))
        return np.hstack(results) @ part["attn_output.weight"].T

    def turn(self, x: Values) -> Values:
        """Rotates the first dimensions of each row; only differences of positions matter, so they count from 0."""
        half = self.model.rotated // 2
        pairs = x[:, :half] + 1j * x[:, half : 2 * half]
        frequencies = 10000.0 ** (-np.arange(half) / half)
        pairs = pairs * np.exp(1j * np.arange(len(x))[:, None] * frequencies)
        return np.hstack([pairs.real, pairs.imag, x[:, 2 * half :]])

    def feed_forward(self, x: Values) -> Values:
        part = self.part
        if not self.model.routed:
            return swiglu(x, *(part[f"ffn_{name}.weight"] for name in ("gate", "up", "down")))
        scores = part["ffn_gate_inp.weight"] @ x
        chosen = sorted(range(len(scores)), key=lambda expert: -scores[expert])[: self.model.used]
        total = sum(np.exp(scores[expert]) for expert in chosen)
        result = swiglu(x, *(part[f"ffn_{name}_shexp.weight"] for name in ("gate", "up", "down")))
        result = result / (1 + np.exp(-part["ffn_gate_inp_shexp.weight"] @ x))
        for expert in chosen:
            own = (part[f"ffn_{name}_exps.weight"][expert] for name in ("gate", "up", "down"))
            result = result + np.exp(scores[expert]) / total * swiglu(x, *own)
        return result


def swiglu(x: Values, gate: Values, up: Values, down: Values) -> Values:
    opened = gate @ x
    return down @ (opened / (1 + np.exp(-opened)) * (up @ x))

"""The decoders restated as their papers and published code give them, in float64, one whole text at a time.

Written apart from the graph in ``verispec.models`` and in another style (no cache, no operations, rotation
of halves for every family), so that an error in one is not in the other.
"""

from __future__ import annotations

import numpy as np

from tiny_models import TinyModel, Values

FAMILY_PERIOD = 6


def plain_logits(model: TinyModel, values: dict[str, Values], tokens: list[int]) -> Values:
    """Logits ``[tokens, vocabulary]``."""
    gemma = model.architecture == "gemma3"
    x = values["token_embd.weight"][tokens]
    if gemma:
        x = x * np.sqrt(model.hidden)
    for layer in range(model.layers):
        part = {
            name.removeprefix(f"blk.{layer}."): value
            for name, value in values.items()
            if name.startswith(f"blk.{layer}.")
        }
        attended = attention(model, part, values, norm(model, x, part["attn_norm.weight"]), layer)
        if gemma:
            attended = norm(model, attended, part["post_attention_norm.weight"])
        x = x + attended
        fed = feed_forward(model, part, norm(model, x, part["ffn_norm.weight"]))
        if gemma:
            fed = norm(model, fed, part["post_ffw_norm.weight"])
        x = x + fed
    head = values.get("output.weight", values["token_embd.weight"])
    return norm(model, x, values["output_norm.weight"]) @ head.T


def norm(model: TinyModel, x: Values, weight: Values) -> Values:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + model.epsilon) * weight


def linear(part: dict[str, Values], name: str, x: Values) -> Values:
    return x @ part[f"{name}.weight"].T + part.get(f"{name}.bias", 0.0)


def feed_forward(model: TinyModel, part: dict[str, Values], x: Values) -> Values:
    gate, up = linear(part, "ffn_gate", x), linear(part, "ffn_up", x)
    if model.architecture == "gemma3":
        gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
    else:
        gate = gate / (1 + np.exp(-gate))
    return linear(part, "ffn_down", gate * up)


def attention(
    model: TinyModel, part: dict[str, Values], values: dict[str, Values], x: Values, layer: int
) -> Values:
    length = x.shape[0]
    sliding = is_sliding(model, layer)
    q = heads_of(model, linear(part, "attn_q", x), model.heads)
    k = heads_of(model, linear(part, "attn_k", x), model.kv_heads)
    v = linear(part, "attn_v", x).reshape(length, model.kv_heads, model.head_dim).transpose(1, 0, 2)
    if "attn_q_norm.weight" in part:
        q = norm(model, q, part["attn_q_norm.weight"])
        k = norm(model, k, part["attn_k_norm.weight"])
    factors = values.get("rope_freqs.weight", 1.0)
    q, k = (rotate_halves(model, heads, sliding, factors) for heads in (q, k))
    shared = model.heads // model.kv_heads
    k, v = np.repeat(k, shared, axis=0), np.repeat(v, shared, axis=0)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(model.head_dim)
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    hidden = (distance < 0) | (sliding & (distance >= model.window))
    scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ v
    return linear(part, "attn_output", mixed.transpose(1, 0, 2).reshape(length, -1))


def is_sliding(model: TinyModel, layer: int) -> bool:
    return bool(model.window) and (layer + 1) % (model.period or FAMILY_PERIOD) != 0


def heads_of(model: TinyModel, x: Values, heads: int) -> Values:
    """``[heads, length, head_dim]``; llama files interleave the halves of every head."""
    x = x.reshape(x.shape[0], heads, model.head_dim)
    if model.architecture == "llama":
        x = np.concatenate([x[:, :, 0::2], x[:, :, 1::2]], axis=2)
    return x.transpose(1, 0, 2)


def rotate_halves(model: TinyModel, x: Values, sliding: bool, factors: Values | float) -> Values:
    base = 10000.0 if sliding else dict(model.extra).get("rope.freq_base", 10000.0)
    half = model.head_dim // 2
    frequencies = base ** (-np.arange(half) / half) / factors
    angles = np.arange(x.shape[1])[:, None] * frequencies
    cos, sin = np.cos(np.tile(angles, 2)), np.sin(np.tile(angles, 2))
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * cos + turned * sin

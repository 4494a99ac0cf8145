"""Little random draft heads in their published layouts, for any target: a folder with config.json and safetensors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

Values = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class TinyDraft:
    """One head. ``taps`` count the target's layers by their input; ``layout`` is whose form the folder has."""

    kind: str = "eagle3"
    layout: str = "published"
    """``published``: SafeAILab's and SpecForge's, z-lab's or DeepSpec's; ``speculators``: the package's."""
    hidden: int = 32
    vocabulary: int = 288
    taps: tuple[int, ...] = (0, 1, 2)
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    feed_forward: int = 64
    layers: int = 1
    context: int = 128
    epsilon: float = 1e-5
    base: float = 10000.0
    draft_ids: tuple[int, ...] = ()
    """The tokens of a reduced vocabulary, in the order of the head's outputs; empty: all."""
    own_embedding: bool = True
    own_head: bool = True
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    norm_output: bool = False
    block: int = 5
    mask_token: int = 284
    sample_from_anchor: bool | None = None
    rank: int = 32
    gated: bool = False

    @property
    def outputs(self) -> int:
        return len(self.draft_ids) or self.vocabulary

    @property
    def from_anchor(self) -> bool:
        return self.kind == "dspark" if self.sample_from_anchor is None else self.sample_from_anchor


def tiny_values(draft: TinyDraft, seed: int = 0) -> Values:
    """Every tensor by the published name, float32, and the tables of a reduced vocabulary."""
    random = np.random.default_rng(seed)
    hidden, query, key = draft.hidden, draft.heads * draft.head_dim, draft.kv_heads * draft.head_dim

    def matrix(outputs: int, inputs: int, spread: float = 1.0) -> npt.NDArray[np.float32]:
        return random.normal(0, spread / np.sqrt(inputs), (outputs, inputs)).astype(np.float32)

    def norm(width: int) -> npt.NDArray[np.float32]:
        return random.normal(1, 0.3, width).astype(np.float32)

    inputs = 2 * hidden if draft.kind == "eagle3" else hidden
    values: Values = {"fc.weight": matrix(hidden, len(draft.taps) * hidden), "norm.weight": norm(hidden)}
    for layer in range(draft.layers):
        name = f"layers.{layer}."
        if draft.kind == "eagle3" and draft.layout == "published":
            name = "midlayer."
        values |= {
            f"{name}input_layernorm.weight": norm(hidden),
            f"{name}self_attn.q_proj.weight": matrix(query, inputs, 2.0),
            f"{name}self_attn.k_proj.weight": matrix(key, inputs, 2.0),
            f"{name}self_attn.v_proj.weight": matrix(key, inputs),
            f"{name}self_attn.o_proj.weight": matrix(hidden, query),
            f"{name}post_attention_layernorm.weight": norm(hidden),
            f"{name}mlp.gate_proj.weight": matrix(draft.feed_forward, hidden),
            f"{name}mlp.up_proj.weight": matrix(draft.feed_forward, hidden),
            f"{name}mlp.down_proj.weight": matrix(hidden, draft.feed_forward),
        }
        if draft.kind == "eagle3":
            values[f"{name}hidden_norm.weight"] = norm(hidden)
        else:
            values[f"{name}self_attn.q_norm.weight"] = norm(draft.head_dim)
            values[f"{name}self_attn.k_norm.weight"] = norm(draft.head_dim)
    if draft.kind != "eagle3":
        values["hidden_norm.weight"] = norm(hidden)
    if draft.norm_before_fc:
        values["input_norm.weight"] = norm(len(draft.taps) * hidden)
    if draft.own_embedding:
        values["embed_tokens.weight"] = random.normal(0, 0.5, (draft.vocabulary, hidden)).astype(np.float32)
    if draft.own_head or draft.draft_ids:
        values["lm_head.weight"] = matrix(draft.outputs, hidden, 3.0)
    if draft.kind == "dspark":
        values |= _dspark_values(draft, matrix, random)
    if draft.draft_ids:
        ids = np.asarray(draft.draft_ids, np.int64)
        values["d2t"] = ids - np.arange(len(ids))
        values["t2d"] = np.isin(np.arange(draft.vocabulary), ids)
    return values


def _dspark_values(draft: TinyDraft, matrix: Any, random: np.random.Generator) -> Values:
    joined = draft.hidden + draft.rank
    values: Values = {
        "markov_head.markov_w1.weight": random.normal(0, 1, (draft.vocabulary, draft.rank)).astype(
            np.float32
        ),
        "markov_head.markov_w2.weight": matrix(draft.outputs, draft.rank, 2.0),
        "confidence_head.proj.weight": matrix(1, joined),
        "confidence_head.proj.bias": np.asarray([1.5], np.float32),
    }
    if draft.gated:
        values["markov_head.gate_proj.weight"] = matrix(draft.rank, joined)
        values["markov_head.gate_proj.bias"] = random.normal(0, 1, draft.rank).astype(np.float32)
    return values


def tiny_config(draft: TinyDraft) -> dict[str, Any]:
    """``config.json`` of the head in its layout."""
    decoder = {
        "model_type": "llama" if draft.kind == "eagle3" else "qwen3",
        "hidden_size": draft.hidden,
        "intermediate_size": draft.feed_forward,
        "num_hidden_layers": draft.layers,
        "num_attention_heads": draft.heads,
        "num_key_value_heads": draft.kv_heads,
        "head_dim": draft.head_dim,
        "max_position_embeddings": draft.context,
        "rms_norm_eps": draft.epsilon,
        "rope_theta": draft.base,
        "vocab_size": draft.vocabulary,
        "hidden_act": "silu",
    }
    own: dict[str, Any] = {"draft_vocab_size": draft.outputs}
    by_output = [tap - 1 for tap in draft.taps]
    speculators = draft.layout == "speculators"
    if draft.kind == "eagle3":
        own |= {"norm_before_residual": draft.norm_before_residual, "norm_before_fc": draft.norm_before_fc}
        own["norm_output"] = draft.norm_output
        if speculators:
            own["eagle_aux_hidden_state_layer_ids"] = list(draft.taps)
        else:
            own["eagle_config"] = {
                "eagle_aux_hidden_state_layer_ids": by_output,
                "use_aux_hidden_state": True,
            }
    elif speculators:
        own |= {"aux_hidden_state_layer_ids": list(draft.taps), "mask_token_id": draft.mask_token}
        own |= {"block_size": draft.block, "sample_from_anchor": draft.from_anchor}
    elif draft.kind == "dflash":
        own |= {"block_size": draft.block}
        own["dflash_config"] = {"target_layer_ids": by_output, "mask_token_id": draft.mask_token}
    else:
        own |= {"block_size": draft.block, "target_layer_ids": by_output, "mask_token_id": draft.mask_token}
    if draft.kind == "dspark":
        own |= {"markov_rank": draft.rank, "markov_head_type": "gated" if draft.gated else "vanilla"}
        own |= {"enable_confidence_head": True, "confidence_head_with_markov": True}
    if not speculators:
        return {**decoder, **own}
    return {"speculators_model_type": draft.kind, "transformer_layer_config": decoder, **own}


def write_draft(folder: Path, draft: TinyDraft, seed: int = 0) -> Values:
    """Writes the folder and gives its tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    values = tiny_values(draft, seed)
    save_file(values, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(tiny_config(draft)))
    return values

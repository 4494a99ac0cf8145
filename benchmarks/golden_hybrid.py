"""Golden values of the little hybrid models, from ``transformers`` with the same random weights.

    PYTHONPATH=src:tests python benchmarks/golden_hybrid.py

For every model of tests/tiny_hybrid.py it builds the published class (qwen3_5, qwen3_5_moe or qwen3_next), gives it
the weights of the GGUF file in the published names and order, evaluates each prompt by itself, and writes the last
row's logits and hidden states to tests/data/golden_hybrid.npz. It also evaluates the longest prompt in chunks and
row by row over a cache and says how far the library is from itself: the bound for what a comparison can show.
Needs torch and transformers; the tests need only the file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models import qwen3_5, qwen3_5_moe, qwen3_next

from tiny_hybrid import HYBRIDS, LENGTHS, TOKENS, TinyHybrid, Values, write_hybrid
from tiny_hybrid_layout import sections

GOLDEN = Path(__file__).parent.parent / "tests" / "data" / "golden_hybrid.npz"
VOCABULARY = 96
CHUNKS = (40, 1, 23, 1, 5)


def configuration(model: TinyHybrid) -> dict[str, Any]:
    """The published configuration's fields."""
    rope = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": model.rotated / model.head_dim,
    }
    if model.architecture != "qwen3next":
        rope |= {"mrope_section": sections(model.rotated // 2)[:3], "mrope_interleaved": True}
    kinds = [
        "linear_attention" if model.recurrent(layer) else "full_attention" for layer in range(model.layers)
    ]
    fields: dict[str, Any] = {
        "vocab_size": model.vocabulary,
        "hidden_size": model.hidden,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "rms_norm_eps": model.epsilon,
        "rope_parameters": rope,
        "linear_conv_kernel_dim": model.kernel,
        "linear_key_head_dim": model.state,
        "linear_value_head_dim": model.state,
        "linear_num_key_heads": model.key_heads,
        "linear_num_value_heads": model.value_heads,
        "layer_types": kinds,
        "tie_word_embeddings": model.head is None,
        "attn_implementation": "eager",
    }
    if not model.routed:
        return fields | {"intermediate_size": model.wide}
    return fields | {
        "num_experts": model.experts,
        "num_experts_per_tok": model.used,
        "moe_intermediate_size": model.expert_wide,
        "shared_expert_intermediate_size": model.wide,
    }


def published_model(model: TinyHybrid, values: dict[str, Values]) -> Any:
    """The library's model holding ``values``, the tensors of the GGUF file."""
    fields = configuration(model)
    if model.architecture == "qwen35":
        built = qwen3_5.Qwen3_5ForCausalLM(qwen3_5.Qwen3_5TextConfig(**fields))
    elif model.architecture == "qwen35moe":
        built = qwen3_5_moe.Qwen3_5MoeForCausalLM(qwen3_5_moe.Qwen3_5MoeTextConfig(**fields))
    else:
        built = qwen3_next.Qwen3NextForCausalLM(qwen3_next.Qwen3NextConfig(**fields))
    weights = {
        name: torch.tensor(value, dtype=torch.float32) for name, value in published_weights(model, values)
    }
    if model.head is None:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    built.load_state_dict(weights, strict=True)
    return built.eval()


def published_weights(model: TinyHybrid, values: dict[str, Values]) -> Iterator[tuple[str, Values]]:
    """Names and values as published: norm weights about 0, grouped value heads, logarithms of the decay."""
    yield "model.embed_tokens.weight", values["token_embd.weight"]
    yield "model.norm.weight", values["output_norm.weight"] - 1
    if model.head is not None:
        yield "lm_head.weight", values["output.weight"]
    for layer in range(model.layers):
        prefix = f"blk.{layer}."
        part = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
        mixer = delta_weights(model, part) if model.recurrent(layer) else attention_weights(part)
        feed = expert_weights(part) if model.routed else dense_weights(part)
        for name, value in (mixer | feed).items():
            yield f"model.layers.{layer}.{name}", value
        yield f"model.layers.{layer}.input_layernorm.weight", part["attn_norm.weight"] - 1
        yield f"model.layers.{layer}.post_attention_layernorm.weight", part["post_attention_norm.weight"] - 1


def attention_weights(part: dict[str, Values]) -> dict[str, Values]:
    names = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output"}
    found = {f"self_attn.{name}.weight": part[f"{stored}.weight"] for name, stored in names.items()}
    for name in ("q_norm", "k_norm"):
        found[f"self_attn.{name}.weight"] = part[f"attn_{name}.weight"] - 1
    return found


def delta_weights(model: TinyHybrid, part: dict[str, Values]) -> dict[str, Values]:
    keys, state = 2 * model.key_heads * model.state, model.state
    qkv, z, taps = part["attn_qkv.weight"], part["attn_gate.weight"], part["ssm_conv1d.weight"]

    def grouped(rows: Values, width: int) -> Values:
        """Rows of value heads, ``width`` each, from the file's order to the published one."""
        if model.grouped:
            return rows
        shared = model.value_heads // model.key_heads
        heads = rows.reshape(shared, model.key_heads, width, -1)
        return heads.swapaxes(0, 1).reshape(rows.shape)

    found = {
        "conv1d.weight": np.concatenate([taps[:keys], grouped(taps[keys:], state)])[:, None, :],
        "A_log": np.log(-grouped(part["ssm_a"], 1)),
        "dt_bias": grouped(part["ssm_dt.bias"], 1),
        "norm.weight": part["ssm_norm.weight"],
        "out_proj.weight": grouped(part["ssm_out.weight"].T, state).T,
    }
    if model.grouped:
        heads = model.key_heads
        q, k, v = np.split(qkv, [keys // 2, keys])
        joined = np.concatenate([rows.reshape(heads, -1, model.hidden) for rows in (q, k, v, z)], axis=1)
        found |= {
            "in_proj_qkvz.weight": joined.reshape(-1, model.hidden),
            "in_proj_ba.weight": part["ssm_ba.weight"],
        }
    else:
        found |= {
            "in_proj_qkv.weight": np.concatenate([qkv[:keys], grouped(qkv[keys:], state)]),
            "in_proj_z.weight": grouped(z, state),
            "in_proj_b.weight": grouped(part["ssm_beta.weight"], 1),
            "in_proj_a.weight": grouped(part["ssm_alpha.weight"], 1),
        }
    return {f"linear_attn.{name}": value for name, value in found.items()}


def dense_weights(part: dict[str, Values]) -> dict[str, Values]:
    return {f"mlp.{name}_proj.weight": part[f"ffn_{name}.weight"] for name in ("gate", "up", "down")}


def expert_weights(part: dict[str, Values]) -> dict[str, Values]:
    gate_up = np.concatenate([part["ffn_gate_exps.weight"], part["ffn_up_exps.weight"]], axis=1)
    found = {
        "mlp.gate.weight": part["ffn_gate_inp.weight"],
        "mlp.experts.gate_up_proj": gate_up,
        "mlp.experts.down_proj": part["ffn_down_exps.weight"],
        "mlp.shared_expert_gate.weight": part["ffn_gate_inp_shexp.weight"][None],
    }
    for name in ("gate", "up", "down"):
        found[f"mlp.shared_expert.{name}_proj.weight"] = part[f"ffn_{name}_shexp.weight"]
    return found


def golden_rows(built: Any) -> dict[str, Values]:
    """Logits ``[prompts, vocabulary]`` and hidden states ``[prompts, layers + 1, hidden]`` of the last rows.

    The hidden states are what enters each layer, and what the final norm gives.
    """
    logits, hidden = [], []
    for length in LENGTHS:
        result = built(torch.tensor([TOKENS[:length]]), output_hidden_states=True, use_cache=False)
        logits.append(result.logits[0, -1].numpy())
        hidden.append(np.stack([states[0, -1].numpy() for states in result.hidden_states]))
    return {"logits": np.stack(logits).astype(np.float32), "hidden": np.stack(hidden).astype(np.float32)}


def cut(built: Any, chunks: tuple[int, ...]) -> Values:
    """Logits of ``TOKENS`` evaluated in ``chunks`` over the library's cache."""
    cache, rows, begin = None, [], 0
    for chunk in chunks:
        result = built(torch.tensor([TOKENS[begin : begin + chunk]]), past_key_values=cache, use_cache=True)
        cache, begin = result.past_key_values, begin + chunk
        rows.append(result.logits[0].numpy())
    return np.concatenate(rows)


@torch.no_grad()
def main() -> None:
    found: dict[str, Any] = {
        "peer": f"transformers {transformers.__version__}, torch {torch.__version__}, float32"
    }
    for name, described in HYBRIDS.items():
        model = replace(described, vocabulary=VOCABULARY)
        with tempfile.TemporaryDirectory() as folder:
            built = published_model(model, write_hybrid(Path(folder) / "tiny.gguf", model))
        for part, rows in golden_rows(built).items():
            found[f"{name}/{part}"] = rows
        whole = built(torch.tensor([TOKENS]), use_cache=False).logits[0].numpy()
        for chunks in (CHUNKS, (1,) * len(TOKENS)):
            difference = np.abs(cut(built, chunks) - whole).max() / np.abs(whole).max()
            print(f"{name}: {len(chunks)} passes differ from one by {difference:.1e} of the greatest logit")
    np.savez_compressed(GOLDEN, **found)
    print(f"{GOLDEN.name}: {GOLDEN.stat().st_size} bytes, {found['peer']}")


if __name__ == "__main__":
    main()

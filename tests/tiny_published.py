"""Little random models as their publishers would leave them: a folder of config.json, safetensors and a tokeniser.

Weights follow from the seed alone, so that what transformers computes with them can be committed without them
(``benchmarks/golden_published.py``). Tensor names and shapes are those that transformers saves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tiny_llama import MERGES, VOCABULARY, tokens
from verispec.text.pre_tokenizers import QWEN35

Weights = dict[str, NDArray[Any]]
HIDDEN, WIDE, HEADS, KV_HEADS, HEAD_DIM = 256, 256, 4, 2, 64
KEY_HEADS, VALUE_HEADS, STATE = 2, 4, 64
EXPERTS, USED = 4, 2
HYBRIDS = ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")
WITH_EXPERTS = HYBRIDS[1:]
FAMILIES = ("llama", "qwen2", "qwen3", "gemma3_text", *HYBRIDS)


@dataclass(frozen=True)
class Published:
    """What a folder is like. ``overrides`` change its configuration."""

    family: str
    prediction: int = 0
    tied: bool = True
    fused_experts: bool = False
    prefix: str = "model."
    seed: int = 0
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def layers(self) -> int:
        return 7 if self.family == "gemma3_text" else 4

    @property
    def shifted(self) -> bool:
        return self.family in ("gemma3_text", *HYBRIDS)


def config(model: Published) -> dict[str, Any]:
    """The content of ``config.json``."""
    values: dict[str, Any] = {
        "model_type": model.family,
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": WIDE,
        "num_hidden_layers": model.layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": model.tied,
        "hidden_act": "silu",
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "bos_token_id": None,
        "eos_token_id": VOCABULARY - 2,
    }
    if model.family == "llama":
        values["rope_parameters"] = {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    if model.family == "gemma3_text":
        values |= {
            "sliding_window": 16,
            "query_pre_attn_scalar": HEAD_DIM,
            "hidden_activation": "gelu_pytorch_tanh",
        }
        values |= {
            "hidden_act": None,
            "rope_parameters": None,
            "rope_theta": 1e6,
            "rope_local_base_freq": 10000.0,
        }
    if model.family in HYBRIDS:
        values["rope_parameters"]["partial_rotary_factor"] = 0.25
        values |= {
            "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": STATE,
            "linear_value_head_dim": STATE,
            "linear_num_key_heads": KEY_HEADS,
            "linear_num_value_heads": VALUE_HEADS,
            "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        }
    if model.family in WITH_EXPERTS:
        values |= {
            "moe_intermediate_size": WIDE,
            "shared_expert_intermediate_size": WIDE,
            "num_experts": EXPERTS,
            "num_experts_per_tok": USED,
        }
    if model.prediction:
        values["mtp_num_hidden_layers"] = model.prediction
    return values | model.overrides


def weights(model: Published) -> Weights:
    """Every tensor, float32, in a fixed order."""
    random = np.random.default_rng(model.seed)
    made: Weights = {}
    for name, shape in shapes(model):
        norm = "norm" in name
        middle = 1.0 if norm and (not model.shifted or "linear_attn" in name) else 0.0
        spread = 0.1 if norm else 0.5 if len(shape) < 2 else 0.06
        made[name] = random.normal(middle, spread, shape).astype(np.float32)
    return made


def shapes(model: Published) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes (outputs, inputs), the prediction blocks last."""
    prefix = model.prefix
    yield f"{prefix}embed_tokens.weight", (VOCABULARY, HIDDEN)
    for layer in range(model.layers):
        recurrent = model.family in HYBRIDS and layer % 4 < 3
        for part, shape in layer_shapes(model, recurrent):
            yield f"{prefix}layers.{layer}.{part}", shape
    yield f"{prefix}norm.weight", (HIDDEN,)
    if not model.tied:
        yield "lm_head.weight", (VOCABULARY, HIDDEN)
    for block in range(model.prediction):
        for part, shape in layer_shapes(model, recurrent=False):
            yield f"mtp.layers.{block}.{part}", shape
    if model.prediction:
        yield "mtp.fc.weight", (HIDDEN, 2 * HIDDEN)
        for norm in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
            yield f"mtp.{norm}.weight", (HIDDEN,)


def layer_shapes(model: Published, recurrent: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "input_layernorm.weight", (HIDDEN,)
    yield "post_attention_layernorm.weight", (HIDDEN,)
    if model.family == "gemma3_text":
        yield "pre_feedforward_layernorm.weight", (HIDDEN,)
        yield "post_feedforward_layernorm.weight", (HIDDEN,)
    yield from recurrent_shapes(model) if recurrent else attention_shapes(model)
    yield from expert_shapes(model) if model.family in WITH_EXPERTS else dense_shapes("mlp")


def attention_shapes(model: Published) -> Iterator[tuple[str, tuple[int, ...]]]:
    query, key = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    gated = 2 if model.family in HYBRIDS else 1
    for part, width in (("q_proj", query * gated), ("k_proj", key), ("v_proj", key)):
        yield f"self_attn.{part}.weight", (width, HIDDEN)
        if model.family == "qwen2":
            yield f"self_attn.{part}.bias", (width,)
    yield "self_attn.o_proj.weight", (HIDDEN, query)
    if model.family not in ("llama", "qwen2"):
        yield "self_attn.q_norm.weight", (HEAD_DIM,)
        yield "self_attn.k_norm.weight", (HEAD_DIM,)


def recurrent_shapes(model: Published) -> Iterator[tuple[str, tuple[int, ...]]]:
    keys, values = KEY_HEADS * STATE, VALUE_HEADS * STATE
    if model.family == "qwen3_next":
        yield "linear_attn.in_proj_qkvz.weight", (2 * keys + 2 * values, HIDDEN)
        yield "linear_attn.in_proj_ba.weight", (2 * VALUE_HEADS, HIDDEN)
    else:
        yield "linear_attn.in_proj_qkv.weight", (2 * keys + values, HIDDEN)
        yield "linear_attn.in_proj_z.weight", (values, HIDDEN)
        yield "linear_attn.in_proj_b.weight", (VALUE_HEADS, HIDDEN)
        yield "linear_attn.in_proj_a.weight", (VALUE_HEADS, HIDDEN)
    yield "linear_attn.conv1d.weight", (2 * keys + values, 1, 4)
    yield "linear_attn.A_log", (VALUE_HEADS,)
    yield "linear_attn.dt_bias", (VALUE_HEADS,)
    yield "linear_attn.norm.weight", (STATE,)
    yield "linear_attn.out_proj.weight", (HIDDEN, values)


def dense_shapes(name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.gate_proj.weight", (WIDE, HIDDEN)
    yield f"{name}.up_proj.weight", (WIDE, HIDDEN)
    yield f"{name}.down_proj.weight", (HIDDEN, WIDE)


def expert_shapes(model: Published) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "mlp.gate.weight", (EXPERTS, HIDDEN)
    if model.fused_experts:
        yield "mlp.experts.gate_up_proj", (EXPERTS, 2 * WIDE, HIDDEN)
        yield "mlp.experts.down_proj", (EXPERTS, HIDDEN, WIDE)
    else:
        for expert in range(EXPERTS):
            yield from dense_shapes(f"mlp.experts.{expert}")
    yield from dense_shapes("mlp.shared_expert")
    yield "mlp.shared_expert_gate.weight", (1, HIDDEN)


def tokenizer() -> Tokenizer:
    """Byte-level BPE with the words of Qwen3.5 and the tokens of ``tiny_llama``."""
    ids = {text: token for token, text in enumerate(tokens())}
    made = Tokenizer(models.BPE(ids, MERGES))
    made.normalizer = normalizers.NFC()
    words = pre_tokenizers.Split(Regex(QWEN35), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<bos>", "<eos>", "<unk>"])
    return made


def write_published(
    folder: Path, model: Published, kind: str = "F32", shards: int = 1, tokeniser: bool = True
) -> Weights:
    """Writes the folder and returns its tensors in float32, as they were before they were stored as ``kind``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(model)))
    made = weights(model)
    write_tensors(folder, made, kind, shards)
    if tokeniser:
        tokenizer().save(str(folder / "tokenizer.json"))
        facts = {"eos_token": "<eos>", "unk_token": "<unk>", "chat_template": "{{ messages[0].content }}"}
        (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    return made


def write_tensors(folder: Path, made: Weights, kind: str = "F32", shards: int = 1) -> None:
    """One safetensors file, or several with an index."""
    names = list(made)
    parts = [names[index::shards] for index in range(shards)]
    files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    if shards == 1:
        files = ["model.safetensors"]
    else:
        index = {name: file for part, file in zip(parts, files, strict=True) for name in part}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    for part, file in zip(parts, files, strict=True):
        write_safetensors(folder / file, {name: made[name] for name in part}, kind)


def write_safetensors(path: Path, made: Weights, kind: str) -> None:
    """The library writes float32 and float16; bfloat16, which numpy lacks, is float32's upper half."""
    if kind != "BF16":
        dtype = np.float16 if kind == "F16" else np.float32
        save_file({name: value.astype(dtype) for name, value in made.items()}, path)
        return
    header: dict[str, Any] = {}
    content = b""
    for name, value in made.items():
        stored = (value.view(np.uint32) >> 16).astype("<u2").tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": value.shape,
            "data_offsets": [len(content), len(content) + len(stored)],
        }
        content += stored
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)

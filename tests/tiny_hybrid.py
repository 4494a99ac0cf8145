"""Little random hybrid models (gated delta net and gated attention) of all three architecture ids, as GGUF files.

Dense or with experts, with or without a prediction block, optionally with a tokeniser. Weights follow from the
seed alone, so the golden file (made by benchmarks/golden_hybrid.py) holds no weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType

from tiny_llama import MERGES, VOCABULARY, tokens

Values = npt.NDArray[np.float64]
Shape = tuple[int, ...]

QUANTISED_ROLES = (
    "token_embd",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "attn_qkv",
    "attn_gate",
    "ssm_out",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "ffn_gate_exps",
    "ffn_up_exps",
    "ffn_down_exps",
    "ffn_gate_shexp",
    "ffn_up_shexp",
    "ffn_down_shexp",
    "nextn.eh_proj",
    "nextn.embed_tokens",
)
"""Matrices that take the model's type; the little ones (routers, beta, alpha, convolution) stay float32."""


@dataclass(frozen=True)
class TinyHybrid:
    """What a little hybrid is like. ``wide_hybrid`` gives widths that suit K-quants."""

    architecture: str = "qwen35"
    matrices: str = "F32"
    head: str | None = None
    """Type of a separate output matrix; None ties it to the embedding."""
    layers: int = 4
    """Of the trunk; every ``interval``-th attends."""
    interval: int = 4
    prediction: int = 0
    """Prediction blocks after the trunk."""
    draft_head: str | None = None
    """Type of the prediction block's own head."""
    own_embedding: bool = False
    """The prediction block has an embedding of its own."""
    own_norm: bool = True
    """The prediction block has a final norm of its own."""
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    rotated: int = 16
    key_heads: int = 2
    value_heads: int = 4
    state: int = 16
    """Width of a key head and of a value head."""
    kernel: int = 4
    wide: int = 96
    experts: int = 6
    used: int = 3
    expert_wide: int = 32
    context: int = 512
    vocabulary: int = VOCABULARY
    tokeniser: bool = False

    @property
    def epsilon(self) -> float:
        return float(np.float32(1e-6))

    @property
    def routed(self) -> bool:
        return self.architecture != "qwen35"

    @property
    def grouped(self) -> bool:
        """Value heads of one key head stand together."""
        return self.architecture == "qwen3next"

    @property
    def channels(self) -> int:
        return (2 * self.key_heads + self.value_heads) * self.state

    def recurrent(self, layer: int) -> bool:
        return (layer + 1) % self.interval != 0


def wide_hybrid(architecture: str = "qwen35", **changes: object) -> TinyHybrid:
    """Every row of a matrix a multiple of 256 columns, as K-quants need."""
    widths = {"hidden": 256, "wide": 256, "expert_wide": 256, "head_dim": 64, "rotated": 32, "state": 64}
    return TinyHybrid(architecture, **(widths | changes))  # type: ignore[arg-type]


TOKENS = np.random.default_rng(23).integers(0, 96, 70).tolist()
LENGTHS = (1, 3, 17, 64, 65, 70)
"""Prompts of the golden file: the first that many of ``TOKENS``."""
LLAMA_CPP_ROWS = [2, 16, 38]
"""Rows of llama.cpp's golden file, made by benchmarks/golden_hybrid_llama_cpp.py."""

HYBRIDS = {
    "qwen35": TinyHybrid("qwen35", prediction=1),
    "qwen35, equal heads, own head": TinyHybrid("qwen35", head="F32", key_heads=4, layers=5, kernel=3),
    "qwen35moe": TinyHybrid("qwen35moe", prediction=1, head="F16"),
    "qwen35moe, three value heads a key head": TinyHybrid("qwen35moe", value_heads=6, interval=2, layers=3),
    "qwen3next": TinyHybrid("qwen3next", prediction=1),
}


def shapes(model: TinyHybrid) -> Iterator[tuple[str, Shape]]:
    """Tensor names and shapes (experts first, then outputs, inputs), in graph order."""
    hidden = model.hidden
    yield "token_embd.weight", (model.vocabulary, hidden)
    for layer in range(model.layers + model.prediction):
        predicts = layer >= model.layers
        mixer = attention_shapes(model) if predicts or not model.recurrent(layer) else delta_shapes(model)
        feed = expert_shapes(model) if model.routed else dense_shapes(model)
        block = prediction_shapes(model) if predicts else {}
        for part, shape in (block | mixer | feed).items():
            yield f"blk.{layer}.{part}", shape
    yield "output_norm.weight", (hidden,)
    if model.head:
        yield "output.weight", (model.vocabulary, hidden)


def attention_shapes(model: TinyHybrid) -> dict[str, Shape]:
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    return {
        "attn_norm.weight": (model.hidden,),
        "attn_q.weight": (2 * query, model.hidden),
        "attn_k.weight": (key, model.hidden),
        "attn_v.weight": (key, model.hidden),
        "attn_q_norm.weight": (model.head_dim,),
        "attn_k_norm.weight": (model.head_dim,),
        "attn_output.weight": (model.hidden, query),
        "post_attention_norm.weight": (model.hidden,),
    }


def delta_shapes(model: TinyHybrid) -> dict[str, Shape]:
    heads, value = model.value_heads, model.value_heads * model.state
    if model.architecture == "qwen3next":
        rates: dict[str, Shape] = {"ssm_ba.weight": (2 * heads, model.hidden)}
    else:
        rates = {"ssm_beta.weight": (heads, model.hidden), "ssm_alpha.weight": (heads, model.hidden)}
    return {
        "attn_norm.weight": (model.hidden,),
        "attn_qkv.weight": (model.channels, model.hidden),
        "attn_gate.weight": (value, model.hidden),
        "ssm_conv1d.weight": (model.channels, model.kernel),
        "ssm_dt.bias": (heads,),
        "ssm_a": (heads,),
        **rates,
        "ssm_norm.weight": (model.state,),
        "ssm_out.weight": (model.hidden, value),
        "post_attention_norm.weight": (model.hidden,),
    }


def dense_shapes(model: TinyHybrid) -> dict[str, Shape]:
    return {
        "ffn_gate.weight": (model.wide, model.hidden),
        "ffn_up.weight": (model.wide, model.hidden),
        "ffn_down.weight": (model.hidden, model.wide),
    }


def expert_shapes(model: TinyHybrid) -> dict[str, Shape]:
    count, inner, hidden = model.experts, model.expert_wide, model.hidden
    return {
        "ffn_gate_inp.weight": (count, hidden),
        "ffn_gate_exps.weight": (count, inner, hidden),
        "ffn_up_exps.weight": (count, inner, hidden),
        "ffn_down_exps.weight": (count, hidden, inner),
        "ffn_gate_inp_shexp.weight": (hidden,),
        "ffn_gate_shexp.weight": (model.wide, hidden),
        "ffn_up_shexp.weight": (model.wide, hidden),
        "ffn_down_shexp.weight": (hidden, model.wide),
    }


def prediction_shapes(model: TinyHybrid) -> dict[str, Shape]:
    hidden = model.hidden
    found: dict[str, Shape] = {
        "nextn.eh_proj.weight": (hidden, 2 * hidden),
        "nextn.enorm.weight": (hidden,),
        "nextn.hnorm.weight": (hidden,),
    }
    if model.own_embedding:
        found["nextn.embed_tokens.weight"] = (model.vocabulary, hidden)
    if model.draft_head:
        found["nextn.shared_head_head.weight"] = (model.vocabulary, hidden)
    if model.own_norm:
        found["nextn.shared_head_norm.weight"] = (hidden,)
    return found


def metadata(model: TinyHybrid) -> dict[str, object]:
    """Keys after the architecture's name."""
    keys: dict[str, object] = {
        "block_count": model.layers + model.prediction,
        "context_length": model.context,
        "embedding_length": model.hidden,
        "attention.head_count": model.heads,
        "attention.head_count_kv": model.kv_heads,
        "attention.key_length": model.head_dim,
        "attention.value_length": model.head_dim,
        "attention.layer_norm_rms_epsilon": model.epsilon,
        "rope.freq_base": 10000.0,
        "rope.dimension_count": model.rotated,
        "full_attention_interval": model.interval,
        "ssm.conv_kernel": model.kernel,
        "ssm.state_size": model.state,
        "ssm.group_count": model.key_heads,
        "ssm.time_step_rank": model.value_heads,
        "ssm.inner_size": model.value_heads * model.state,
    }
    if model.prediction:
        keys["nextn_predict_layers"] = model.prediction
    if model.architecture != "qwen3next":
        keys["rope.dimension_sections"] = sections(model.rotated // 2)
    if model.routed:
        keys |= {"expert_count": model.experts, "expert_used_count": model.used}
        keys |= {"expert_feed_forward_length": model.expert_wide}
        keys |= {"expert_shared_feed_forward_length": model.wide}
    else:
        keys["feed_forward_length"] = model.wide
    return keys


def sections(pairs: int) -> list[int]:
    """Pairs by what they turn with (time, height, width, nothing): dealt out in turn, as published files do."""
    return [(pairs + 2) // 3, (pairs + 1) // 3, pairs // 3, 0]


def write_hybrid(path: Path, model: TinyHybrid, seed: int = 0) -> dict[str, Values]:
    """Writes the file and gives every tensor's values, float64, as the ``gguf`` package reads them back."""
    writer = gguf.GGUFWriter(path, model.architecture)
    adders = {int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
    for key, value in metadata(model).items():
        adders[type(value)](f"{model.architecture}.{key}", value)  # type: ignore[arg-type]
    if model.tokeniser:
        add_tokeniser(writer)
    values = {}
    for index, (name, shape) in enumerate(shapes(model)):
        kind = tensor_type(model, name)
        stored = random_tensor(name, shape, kind, 1000 * seed + index)
        dtype = GGMLQuantizationType[kind]
        writer.add_tensor(name, stored, raw_dtype=dtype)
        values[name] = gguf.dequantize(stored, dtype).astype(np.float64).reshape(shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


def add_tokeniser(writer: gguf.GGUFWriter) -> None:
    """The byte-level tokeniser of ``tiny_llama``, which has as many tokens as the default vocabulary."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens())
    writer.add_token_types([1] * (VOCABULARY - 3) + [3] * 3)
    writer.add_token_merges([f"{left} {right}" for left, right in MERGES])
    writer.add_bos_token_id(VOCABULARY - 3)
    writer.add_eos_token_id(VOCABULARY - 2)
    writer.add_unk_token_id(VOCABULARY - 1)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")


def tensor_type(model: TinyHybrid, name: str) -> str:
    if name == "output.weight":
        return model.head or "F32"
    if name.endswith("shared_head_head.weight"):
        return model.draft_head or "F32"
    role = name.removesuffix(".weight").split(".", 2 if name.startswith("blk.") else 0)[-1]
    return model.matrices if role in QUANTISED_ROLES else "F32"


def random_tensor(name: str, shape: Shape, kind: str, seed: int) -> npt.NDArray[np.generic]:
    """Stored values that keep a random model's numbers in the range that a trained one's have."""
    random = np.random.default_rng(seed)
    if name.endswith("ssm_a"):
        return -np.exp(random.normal(0, 0.7, shape)).astype(np.float32)
    if name.endswith("ssm_dt.bias"):
        return random.normal(-2, 1, shape).astype(np.float32)
    if name.endswith("norm.weight"):
        return random.normal(1, 0.3, shape).astype(np.float32)
    if kind.endswith("_K"):
        from native_graphs import matrix_bytes  # here, so that other models need no native extension

        stored = matrix_bytes(kind, math.prod(shape[:-1]), shape[-1], seed)
        return stored.reshape(*shape[:-1], -1)
    if name.endswith(("token_embd.weight", "embed_tokens.weight")):
        spread = 0.3
    else:
        spread = (2.0 if "gate_inp" in name or "head" in name else 0.7) / math.sqrt(shape[-1])
    plain = random.normal(0, spread, shape)
    if kind == "F32":
        return plain.astype(np.float32)
    if kind == "F16":
        return plain.astype(np.float16)
    return gguf.quantize(plain.astype(np.float32), GGMLQuantizationType[kind]).view(np.uint8)

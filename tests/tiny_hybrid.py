"""Little random hybrid models (gated delta net and gated attention) of all three architecture ids, as GGUF files.

Dense or with experts, with or without a prediction block, optionally with a tokeniser. Weights follow from the
seed alone, so the golden file (made by benchmarks/golden_hybrid.py) holds no weights.
"""

from __future__ import annotations

import math
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType

from tiny_hybrid_layout import Shape, TinyHybrid, metadata, shapes, wide_hybrid
from tiny_llama import MERGES, VOCABULARY, tokens

__all__ = [
    "HYBRIDS",
    "LENGTHS",
    "LLAMA_CPP_ROWS",
    "TOKENS",
    "TinyHybrid",
    "Values",
    "wide_hybrid",
    "write_hybrid",
]

Values = npt.NDArray[np.float64]

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

"""Little random models of every architecture and tensor type, written as GGUF files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType

from native_graphs import matrix_bytes

Values = npt.NDArray[np.float64]

VOCABULARY = 80


@dataclass(frozen=True)
class TinyModel:
    """What a little model is like. Widths suit every tensor type (K-quants need rows of 256)."""

    architecture: str
    matrices: str = "F32"
    head: str | None = None
    """Type of a separate output matrix; None ties it to the embedding."""
    layers: int = 3
    hidden: int = 256
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    wide: int = 256
    window: int = 0
    period: int = 0
    context: int = 256
    rope_factors: bool = False
    biases: bool = False
    extra: tuple[tuple[str, object], ...] = ()
    """Further metadata, keys after the architecture's name."""

    @property
    def epsilon(self) -> float:
        return float(np.float32(1e-5))


def shapes(model: TinyModel) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Tensor names and shapes (outputs, inputs)."""
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    yield "token_embd.weight", (VOCABULARY, model.hidden)
    yield "output_norm.weight", (model.hidden,)
    if model.head:
        yield "output.weight", (VOCABULARY, model.hidden)
    if model.rope_factors:
        yield "rope_freqs.weight", (model.head_dim // 2,)
    for layer in range(model.layers):
        matrices = {
            "attn_q": (query, model.hidden),
            "attn_k": (key, model.hidden),
            "attn_v": (key, model.hidden),
            "attn_output": (model.hidden, query),
            "ffn_gate": (model.wide, model.hidden),
            "ffn_up": (model.wide, model.hidden),
            "ffn_down": (model.hidden, model.wide),
        }
        norms = {"attn_norm": model.hidden, "ffn_norm": model.hidden}
        if model.architecture in ("qwen3", "gemma3"):
            norms |= {"attn_q_norm": model.head_dim, "attn_k_norm": model.head_dim}
        if model.architecture == "gemma3":
            norms |= {"post_attention_norm": model.hidden, "post_ffw_norm": model.hidden}
        for part, shape in matrices.items():
            yield f"blk.{layer}.{part}.weight", shape
            if model.biases or (model.architecture == "qwen2" and part in ("attn_q", "attn_k", "attn_v")):
                yield f"blk.{layer}.{part}.bias", shape[:1]
        for part, width in norms.items():
            yield f"blk.{layer}.{part}.weight", (width,)


def metadata(model: TinyModel) -> dict[str, object]:
    """Keys after the architecture's name."""
    keys: dict[str, object] = {
        "block_count": model.layers,
        "context_length": model.context,
        "embedding_length": model.hidden,
        "feed_forward_length": model.wide,
        "attention.head_count": model.heads,
        "attention.head_count_kv": model.kv_heads,
        "attention.key_length": model.head_dim,
        "attention.value_length": model.head_dim,
        "attention.layer_norm_rms_epsilon": model.epsilon,
        "rope.freq_base": 10000.0,
    }
    if model.window:
        keys["attention.sliding_window"] = model.window
    if model.period:
        keys["attention.sliding_window_pattern"] = model.period
    return keys | dict(model.extra)


def write_model(path: Path, model: TinyModel, seed: int = 0) -> dict[str, Values]:
    """Writes the file and gives every tensor's values, float64, as the ``gguf`` package reads them back."""
    writer = gguf.GGUFWriter(path, model.architecture)
    for key, value in metadata(model).items():
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        add(f"{model.architecture}.{key}", value)
    values = {}
    for index, (name, shape) in enumerate(shapes(model)):
        kind = "F32" if len(shape) == 1 else model.head if name == "output.weight" else model.matrices
        stored = _random_tensor(name, shape, kind, 1000 * seed + index)
        dtype = GGMLQuantizationType[kind]
        writer.add_tensor(name, stored, raw_dtype=dtype)
        values[name] = gguf.dequantize(stored, dtype).astype(np.float64).reshape(shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


def _random_tensor(name: str, shape: tuple[int, ...], kind: str, seed: int) -> npt.NDArray[np.generic]:
    random = np.random.default_rng(seed)
    if name == "rope_freqs.weight":
        return np.linspace(1.0, 8.0, shape[0]).astype(np.float32)
    if len(shape) == 1:
        middle = 0.0 if name.endswith("bias") else 1.0
        return random.normal(middle, 0.3, shape).astype(np.float32)
    if kind.endswith("_K"):
        return matrix_bytes(kind, *shape, seed)
    spread = 1.0 if name == "token_embd.weight" else 0.7 / math.sqrt(shape[1])
    plain = random.normal(0, spread, shape).astype(np.float32)
    stored = gguf.quantize(plain, GGMLQuantizationType[kind])
    return stored if kind in ("F32", "F16") else stored.view(np.uint8)

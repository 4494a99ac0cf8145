"""A complete little llama-architecture GGUF file, a few kilobytes, built in memory for tests."""

from __future__ import annotations

import functools

import numpy as np
from gguf import GGMLQuantizationType, quantize

from gguf_bytes import FLOAT32, INT32, STRING, UINT32, GgufBytes, array, entry, tensor
from verispec.artifacts.tensor_types import TensorType

HIDDEN, FEED_FORWARD, LAYERS, HEADS, KV_HEADS = 32, 64, 2, 4, 2
VOCABULARY = 288


def tiny_llama() -> bytes:
    """One file with every part a real one has: hyperparameters, a byte-level tokeniser, two layers."""
    return GgufBytes(entries=metadata(), tensors=layout()[0], data=layout()[1]).build()


def header_parts() -> list[tuple[int, int]]:
    """(offset, bytes) of each part of the file's header: the preamble, every metadata entry, every tensor."""
    sizes = [24, *map(len, metadata()), *map(len, layout()[0])]
    return [(sum(sizes[:index]), size) for index, size in enumerate(sizes)]


def metadata() -> list[bytes]:
    return [
        entry("general.architecture", STRING, "llama"),
        entry("general.name", STRING, "tiny"),
        entry("general.file_type", UINT32, 7),
        entry("llama.block_count", UINT32, LAYERS),
        entry("llama.context_length", UINT32, 128),
        entry("llama.embedding_length", UINT32, HIDDEN),
        entry("llama.feed_forward_length", UINT32, FEED_FORWARD),
        entry("llama.attention.head_count", UINT32, HEADS),
        entry("llama.attention.head_count_kv", UINT32, KV_HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        entry("llama.rope.freq_base", FLOAT32, 10000.0),
        entry("llama.rope.dimension_count", UINT32, HIDDEN // HEADS),
        entry("llama.vocab_size", UINT32, VOCABULARY),
        entry("general.alignment", UINT32, 32),
        entry("tokenizer.ggml.model", STRING, "gpt2"),
        entry("tokenizer.ggml.pre", STRING, "smollm"),
        array("tokenizer.ggml.tokens", STRING, tokens()),
        array("tokenizer.ggml.token_type", INT32, [1] * (VOCABULARY - 3) + [3] * 3),
        array("tokenizer.ggml.merges", STRING, [f"{left} {right}" for left, right in MERGES]),
        entry("tokenizer.ggml.bos_token_id", UINT32, VOCABULARY - 3),
        entry("tokenizer.ggml.eos_token_id", UINT32, VOCABULARY - 2),
        entry("tokenizer.ggml.unknown_token_id", UINT32, VOCABULARY - 1),
        entry("tokenizer.chat_template", STRING, "{% for m in messages %}{{ m.content }}{% endfor %}"),
    ]


MERGES = [("t", "h"), ("th", "e"), ("i", "n"), ("a", "n"), ("r", "e"), ("o", "n"), ("Ġ", "t"), ("Ġ", "a")]


def tokens() -> list[object]:
    """The 256 byte tokens, merged ones, and special ones at the end."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = [chr(value) for value in shown] + [chr(256 + index) for index in range(256 - len(shown))]
    words = alphabet + ["".join(pair) for pair in MERGES]
    fill = [f"<spare{index}>" for index in range(VOCABULARY - 3 - len(words))]
    return [*words, *fill, "<bos>", "<eos>", "<unk>"]


def shapes() -> dict[str, tuple[tuple[int, ...], TensorType]]:
    """Each tensor's dimensions in GGUF order and its type; several block types take part."""
    keys = HIDDEN // HEADS * KV_HEADS
    found: dict[str, tuple[tuple[int, ...], TensorType]] = {
        "token_embd.weight": ((HIDDEN, VOCABULARY), TensorType.Q8_0),
        "output_norm.weight": ((HIDDEN,), TensorType.F32),
    }
    for layer in range(LAYERS):
        found |= {
            f"blk.{layer}.attn_norm.weight": ((HIDDEN,), TensorType.F32),
            f"blk.{layer}.attn_q.weight": ((HIDDEN, HIDDEN), TensorType.Q4_0),
            f"blk.{layer}.attn_k.weight": ((HIDDEN, keys), TensorType.Q4_1),
            f"blk.{layer}.attn_v.weight": ((HIDDEN, keys), TensorType.Q5_1),
            f"blk.{layer}.attn_output.weight": ((HIDDEN, HIDDEN), TensorType.F16),
            f"blk.{layer}.ffn_norm.weight": ((HIDDEN,), TensorType.F32),
            f"blk.{layer}.ffn_gate.weight": ((HIDDEN, FEED_FORWARD), TensorType.Q5_0),
            f"blk.{layer}.ffn_up.weight": ((HIDDEN, FEED_FORWARD), TensorType.BF16),
            f"blk.{layer}.ffn_down.weight": ((FEED_FORWARD, HIDDEN), TensorType.Q8_0),
        }
    return found


@functools.cache
def layout() -> tuple[list[bytes], bytes]:
    """Tensor descriptions and their data: ones in vectors, small random numbers in matrices."""
    random = np.random.default_rng(5)
    descriptions, data = [], b""
    for name, (dimensions, kind) in shapes().items():
        values = np.ones(dimensions, np.float32)
        if len(dimensions) == 2:
            values = random.normal(0, 0.2, dimensions[::-1]).astype(np.float32)
        content = quantize(values, GGMLQuantizationType[kind.name]).tobytes()
        descriptions.append(tensor(name, dimensions, kind.id, len(data)))
        data += content + b"\0" * (-len(content) % 32)
    return descriptions, data

"""A little random target that a drafter can be trained for in seconds: with a chat template, and sure of its tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from tiny_llama import MERGES, VOCABULARY, tokens
from tiny_models import TinyModel, metadata, shapes
from verispec.backends.native import NativeBackend
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer
from verispec.training.features import FeatureStatistics
from verispec.training.plan import TrainingPlan, draft_taps
from verispec.training.prompts import InventedPrompts
from verispec.training.settings import TrainingSettings
from verispec.training.text_store import StoredText
from verispec.training.writing import Lengths, TargetWriter, WrittenText

TARGET = TinyModel(
    "llama", head="F32", layers=4, hidden=64, heads=4, kv_heads=2, head_dim=16, wide=96, context=256
)
TAPS = (*draft_taps(TARGET.layers), -1)
EOS = VOCABULARY - 2
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}<eos>{% endfor %}a:"
SETTINGS = TrainingSettings(
    batch_tokens=512, depth=3, stride=1, learning_rate=2e-2, matrix_rate=3e-2, warm_up=4, check_every=1000
)
FEATURES = FeatureStatistics(torch.ones(3 * TARGET.hidden), torch.eye(TARGET.hidden, 3 * TARGET.hidden))
"""As if the target's hidden states told nothing of the next token that the last of them does not."""
SPREAD = 0.5
"""Of embedding and output matrix, which are two: a random model with one for both says the same token over and over."""
FEW = Lengths(prompt=12, answer=40)


def write_target(folder: Path, seed: int = 0) -> Path:
    """Llama with the tokeniser of ``tiny_llama``; its logits are far apart, and each text goes its own way."""
    path = folder / "target.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in metadata(TARGET).items():
        add = {int: writer.add_uint32, float: writer.add_float32}[type(value)]
        add(f"llama.{key}", value)  # type: ignore[operator]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens())
    writer.add_token_types([1] * (VOCABULARY - 3) + [3] * 3)
    writer.add_token_merges([f"{left} {right}" for left, right in MERGES])
    writer.add_bos_token_id(VOCABULARY - 3)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(VOCABULARY - 1)
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(seed)
    for name, shape in shapes(TARGET):
        if name in ("token_embd.weight", "output.weight"):
            values = random.normal(0, SPREAD, (VOCABULARY, TARGET.hidden))
        elif len(shape) == 1:
            values = random.normal(1, 0.1, shape)
        else:
            values = random.normal(0, shape[1] ** -0.5, shape)
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def plan_for(target: Path, output: Path, kind: str = "eagle3", **changes: Any) -> TrainingPlan:
    """A plan of seconds; ``changes`` are the plan's own fields, or those of its settings."""
    names = TrainingSettings.__dataclass_fields__
    settings = replace(SETTINGS, **{name: changes.pop(name) for name in [*changes] if name in names})
    plain: dict[str, Any] = {"texts": output / "texts", "tokens": 400, "lengths": FEW, "threads": 1}
    return TrainingPlan(kind, str(target), output, **{**plain, **changes, "settings": settings})


def say_nothing(stage: str, done: int, total: int, line: str) -> None:
    """Progress that nobody watches."""


def content(text: WrittenText | StoredText) -> tuple[object, ...]:
    """All of a text, to be compared."""
    return (
        text.number,
        text.tokens.tolist(),
        text.prompt,
        text.temperature,
        text.choices.tolist(),
        text.hidden.tobytes(),
    )


def written_texts(
    target: Path, words: tuple[Tokenizer, ChatTemplate], numbers: list[int], beside: int
) -> list[WrittenText]:
    """The texts of ``numbers``, ``beside`` at once, in the order of their numbers."""
    backend = NativeBackend.load(target, 128, 1, beside)
    tokenizer, template = words
    try:
        prompts = InventedPrompts(template, tokenizer)
        writer = TargetWriter(backend, prompts, tokenizer.eos_ids, TAPS, FEW, seed=1)
        return sorted(writer.write(iter(numbers)), key=lambda text: text.number)
    finally:
        backend.close()

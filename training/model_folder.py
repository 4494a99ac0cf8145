"""A model as a Hugging Face folder, the prediction block under the names that published checkpoints use."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import Qwen3_5TextConfig

from training.architecture import HybridModel
from training.vocabulary import CHAT_TEMPLATE, END_OF_TEXT, MESSAGE_END, MESSAGE_START

NAME = "tiny-hybrid"
TARGET, BLOCK, TIED = "target.", "mtp.", "target.lm_head.weight"


def write_model(model: HybridModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes config.json, generation_config.json, tokenizer.json, tokenizer_config.json and model.safetensors.

    Weights are rounded to bfloat16. The tied head is left out, as it is the embedding.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name.removeprefix(TARGET): value.to(torch.bfloat16).contiguous()
        for name, value in model.state_dict().items()
        if name != TIED
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.target.config
    config.architectures = ["Qwen3_5ForCausalLM"]
    config.dtype = "bfloat16"
    config.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    ends = [tokenizer.token_to_id(token) for token in (MESSAGE_END, END_OF_TEXT)]
    _write(folder / "generation_config.json", {"eos_token_id": ends})
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "bos_token": None,
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "additional_special_tokens": [MESSAGE_START, MESSAGE_END],
        "model_max_length": config.max_position_embeddings,
        "chat_template": CHAT_TEMPLATE,
    }
    _write(folder / "tokenizer_config.json", settings)


def read_model(folder: Path) -> HybridModel:
    """The model that ``write_model`` left in ``folder``, in float32 and ready to evaluate."""
    model = HybridModel(Qwen3_5TextConfig.from_pretrained(folder))
    stored = load_file(folder / "model.safetensors")
    state = {
        name if name.startswith(BLOCK) else TARGET + name: value.float() for name, value in stored.items()
    }
    state[TIED] = state["target.model.embed_tokens.weight"]
    model.float().load_state_dict(state)
    return model.eval()


def _write(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")

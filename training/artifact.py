"""Puts a converted model into the test data, with the manifest and the files that tests hold it against.

    python -m training.artifact --run DIR --gguf FILE.gguf --out tests/data

Writes NAME.gguf, NAME.json (what it is, what it was trained on, how good it is), NAME-prompts.json (held-out
prompts) and golden_NAME.npz (what torch computes with it). Run training.acceptance first.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from training import corpus, held_out
from training.acceptance import proposals
from training.loop import CHECKPOINT
from training.model_folder import NAME, read_model
from training.tokens import TokenisedText, read_tokens

TEXT_LICENCE = (
    "Python Software Foundation License Version 2, and the notices that single modules carry; "
    "copyright (c) 2001 Python Software Foundation, all rights reserved"
)
GOLDEN_TOKENS = 96
GOLDEN_ROWS = (0, 31, GOLDEN_TOKENS - 1)
"""Rows whose logits are kept whole."""


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--run", type=Path, required=True, help="folder of the run")
    arguments.add_argument("--gguf", type=Path, required=True, help="what verispec convert made of it")
    arguments.add_argument("--out", type=Path, required=True, help="folder of the test data")
    given = arguments.parse_args()
    artifact = given.out / f"{NAME}.gguf"
    shutil.copyfile(given.gguf, artifact)
    _, documents = corpus.split(corpus.read_documents())
    _write(given.out / f"{NAME}.json", manifest(given.run, artifact))
    _write(given.out / f"{NAME}-prompts.json", prompt_file(documents))
    np.savez_compressed(given.out / f"golden_{NAME}.npz", **golden(given.run, read_tokens(given.run)))


def manifest(run: Path, artifact: Path) -> dict[str, Any]:
    """Everything that is to be known of the artifact."""
    settings = json.loads((run / "settings.json").read_text())
    text = json.loads((run / "text.json").read_text())
    steps = torch.load(run / CHECKPOINT, weights_only=True)["step"]
    ids = read_tokens(run)
    return {
        "name": NAME,
        "file": artifact.name,
        "sha256": sha256(artifact.read_bytes()).hexdigest(),
        "bytes": artifact.stat().st_size,
        "parameters": _parameters(run / NAME / "model.safetensors"),
        "licence": "Apache-2.0, as this repository; trained for it on the text named below",
        "made_by": ["python -m training.tiny_hybrid", "verispec convert", "python -m training.acceptance"],
        "text": {
            "source": f"standard library of CPython {text['python']} and pydoc's language reference; "
            "what is left out: training/corpus.py",
            "licence": TEXT_LICENCE,
            "training_sha256": text["training"],
            "training_documents": text["training_documents"],
            "training_characters": text["training_characters"],
            "training_tokens": len(ids.training),
            "held_out_sha256": text["held_out"],
            "held_out_characters": text["held_out_characters"],
            "held_out_tokens": len(ids.held_out),
            "held_out_documents": text["held_out_documents"],
        },
        "training": {
            "settings": settings,
            "steps_taken": steps,
            "tokens_read": steps * settings["windows"] * settings["length"],
            "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers", "numpy")},
        },
        "quality": json.loads((run / "acceptance.json").read_text()),
    }


def prompt_file(documents: list[corpus.Document]) -> dict[str, Any]:
    """The held-out prompts, with where they are from and their licence."""
    return {
        "source": "held-out documents of the training text, named in the manifest",
        "licence": TEXT_LICENCE,
        "prompts": [{"document": d.name, "text": d.text} for d in held_out.prompts(documents)],
    }


def golden(run: Path, text: TokenisedText) -> dict[str, Any]:
    """What torch computes over the first held-out tokens, in float32 on the weights as exported.

    ``tokens`` [rows], ``argmax`` [rows], ``rows`` and their ``logits`` [rows, vocabulary], and ``proposals``
    [rows - 7, 7]: what the block proposes in a chain that begins at each row.
    """
    model = read_model(run / NAME)
    tokens = text.held_out[:GOLDEN_TOKENS].astype(np.int64)
    with torch.inference_mode():
        hidden = model.hidden(torch.from_numpy(tokens)[None])
        logits = model.head(hidden)[0]
        proposed, _ = proposals(model, torch.from_numpy(tokens)[None], hidden)
    return {
        "tokens": tokens.astype(np.int32),
        "argmax": logits.argmax(-1).numpy().astype(np.int32),
        "rows": np.array(GOLDEN_ROWS, np.int32),
        "logits": logits[list(GOLDEN_ROWS)].numpy(),
        "proposals": proposed[0].numpy().astype(np.int32),
    }


def _parameters(path: Path) -> int:
    with safe_open(path, "pt") as tensors:
        return sum(math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

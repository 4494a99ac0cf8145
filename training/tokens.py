"""Documents as token ids: made once in a run's folder, then read from there."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor

from training import corpus
from training.vocabulary import END_OF_TEXT, train_vocabulary

Ids = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class TokenisedText:
    """Training and held-out ids, each document followed by the end-of-text token."""

    tokenizer: Tokenizer
    training: Ids
    held_out: Ids

    def windows(self, count: int, length: int, seed: int, step: int) -> Tensor:
        """``count`` windows of ``length`` ids at random places of the training text, [count, length] int64.

        A function of its arguments alone, so that a continued run reads what an unbroken one would have.
        """
        random = np.random.default_rng((seed, step))
        starts = random.integers(0, len(self.training) - length, count)
        return torch.from_numpy(np.stack([self.training[s : s + length] for s in starts]).astype(np.int64))


def prepare_tokens(documents: list[corpus.Document], folder: Path) -> TokenisedText:
    """The tokenised text in ``folder``; another text's is replaced."""
    training, held_out = corpus.split(documents)
    statement = {
        "python": platform.python_version(),
        "training": corpus.digest(training),
        "held_out": corpus.digest(held_out),
        "training_documents": len(training),
        "training_characters": sum(len(document.text) for document in training),
        "held_out_characters": sum(len(document.text) for document in held_out),
        "held_out_documents": [document.name for document in held_out],
    }
    written = folder / "text.json"
    if not written.exists() or json.loads(written.read_text()) != statement:
        tokenizer = train_vocabulary(document.text for document in training)
        tokenizer.save(str(folder / "tokenizer.json"))
        np.save(folder / "training.npy", _encode(tokenizer, training))
        np.save(folder / "held_out.npy", _encode(tokenizer, held_out))
        written.write_text(json.dumps(statement, indent=1) + "\n")
    return read_tokens(folder)


def read_tokens(folder: Path) -> TokenisedText:
    """What ``prepare_tokens`` left in ``folder``."""
    return TokenisedText(
        Tokenizer.from_file(str(folder / "tokenizer.json")),
        np.load(folder / "training.npy"),
        np.load(folder / "held_out.npy"),
    )


def _encode(tokenizer: Tokenizer, documents: list[corpus.Document]) -> Ids:
    end = tokenizer.token_to_id(END_OF_TEXT)
    assert end is not None, "the vocabulary was trained without its special tokens"
    ids: list[int] = []
    for encoding in tokenizer.encode_batch([document.text for document in documents]):
        ids += [*encoding.ids, end]
    return np.array(ids, dtype=np.uint16)

"""Written texts on disk: a folder of shards, each complete or not there, so that a kill loses the shard under way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from verispec.artifacts.files import atomic_path, write_atomically
from verispec.artifacts.json_file import read_json_object
from verispec.artifacts.lock import exclusive
from verispec.errors import OptionError
from verispec.training.numbering import Numbering
from verispec.training.writing import WrittenText

SHARD = "texts-"
SHARD_TOKENS = 1 << 16
"""Tokens gathered before a shard is written."""
SETTINGS = "settings.json"
SETTINGS_LOCK = ".settings.lock"
LISTED = "prompts_listed"
"""The setting that says how many prompts there are; not there where the target invents them."""
ARRAYS = ("numbers", "lengths", "prompts", "temperatures", "tokens", "choices")


@dataclass(frozen=True)
class StoredText:
    """One text of a store, as a ``WrittenText``; ``hidden`` is read where it lies."""

    number: int
    tokens: npt.NDArray[np.int32]
    prompt: int
    temperature: float
    choices: npt.NDArray[np.int32]
    hidden: npt.NDArray[np.float16]

    @property
    def answer(self) -> int:
        """Tokens of the answer."""
        return len(self.tokens) - self.prompt


class TextStore:
    """``settings`` are what the texts are a function of; a folder holds texts of one set of settings."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        """Opens ``folder``, made if it is not there. Raises OptionError when it holds texts of other settings."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._settings = settings
        path = folder / SETTINGS
        with exclusive(folder / SETTINGS_LOCK):  # of two that begin at once, one is there first
            if path.exists():
                self._check_settings()
            else:
                write_atomically(path, (json.dumps(settings, indent=2) + "\n").encode())
        self._waiting: list[WrittenText] = []
        self.digest = hashlib.sha256(path.read_bytes()).hexdigest()
        """Of what the texts are a function of."""
        self.numbering = Numbering(settings.get(LISTED))
        self._columns = (len(settings["taps"]), int(settings["hidden_size"]))

    @property
    def bytes_a_token(self) -> int:
        """Of its hidden states; everything else of a token is 4 bytes."""
        taps, width = self._columns
        return taps * width * 2

    def shards(self) -> list[Path]:
        """The complete ones, in the order in which they were written."""
        return sorted(self.folder.glob(f"{SHARD}*.npz"), key=lambda shard: (len(shard.name), shard.name))

    def answer_tokens(self) -> dict[int, int]:
        """The tokens of each text's answer, by the text's number."""
        return {
            int(number): int(length - prompt)
            for shard in self.shards()
            for number, length, prompt in _lengths(shard)
        }

    def append(self, texts: Sequence[WrittenText]) -> None:
        """One shard more, behind the last. Raises OptionError where the folder's settings have become others."""
        self._check_settings()
        numbers = [int(shard.stem.removeprefix(SHARD)) for shard in self.shards()]
        name = f"{SHARD}{max(numbers, default=-1) + 1:05d}"
        hidden = np.concatenate([text.hidden for text in texts])
        with atomic_path(self.folder / f"{name}.hidden") as partial, open(partial, "wb") as file:
            hidden.tofile(file)
        with atomic_path(self.folder / f"{name}.npz") as partial, open(partial, "wb") as file:
            np.savez(
                file,
                numbers=np.array([text.number for text in texts], np.int64),
                lengths=np.array([len(text.tokens) for text in texts], np.int64),
                prompts=np.array([text.prompt for text in texts], np.int64),
                temperatures=np.array([text.temperature for text in texts], np.float64),
                tokens=np.concatenate([text.tokens for text in texts]),
                choices=np.concatenate([text.choices for text in texts]),
            )

    def add(self, text: WrittenText) -> None:
        """Keeps ``text`` until there is enough for a shard."""
        self._waiting.append(text)
        if sum(len(one.tokens) for one in self._waiting) >= SHARD_TOKENS:
            self.flush()

    def flush(self) -> None:
        """Writes what is waiting as a shard."""
        if self._waiting:
            self.append(self._waiting)
            self._waiting.clear()

    def read(self) -> list[StoredText]:
        """Every text, by its number."""
        texts = {text.number: text for shard in self.shards() for text in self._read_shard(shard)}
        return [texts[number] for number in sorted(texts)]

    def first(self, answer_tokens: int) -> list[StoredText]:
        """The texts 0, 1, 2, ... until their answers have that many tokens, or one is not there. A store may hold more:
        another run's, or what was finished out of turn."""
        chosen: list[StoredText] = []
        for text in self.read():
            if answer_tokens <= 0 or text.number != len(chosen):
                break
            chosen.append(text)
            answer_tokens -= text.answer
        return chosen

    def _check_settings(self) -> None:
        path = self.folder / SETTINGS
        _check_same(path, read_json_object(path), self._settings)

    def _read_shard(self, shard: Path) -> Iterator[StoredText]:
        arrays = np.load(shard)
        numbers, lengths, prompts, temperatures, tokens, choices = (arrays[name] for name in ARRAYS)
        rows = int(lengths.sum()) - len(lengths)
        hidden = np.memmap(shard.with_suffix(".hidden"), np.float16, "r", shape=(rows, *self._columns))
        token = choice = row = 0
        for number, length, prompt, temperature in zip(numbers, lengths, prompts, temperatures, strict=True):
            answer = length - prompt
            yield StoredText(
                number=int(number),
                tokens=tokens[token : token + length],
                prompt=int(prompt),
                temperature=float(temperature),
                choices=choices[choice : choice + answer],
                hidden=hidden[row : row + length - 1],
            )
            token, choice, row = token + length, choice + answer, row + length - 1


def _lengths(shard: Path) -> Iterator[tuple[int, int, int]]:
    """Number, tokens and the prompt's tokens of each text."""
    arrays = np.load(shard)
    return zip(*(arrays[name].tolist() for name in ("numbers", "lengths", "prompts")), strict=True)


def _check_same(path: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    for key in sorted(found.keys() | expected.keys()):
        if found.get(key) != expected.get(key):
            raise OptionError(
                f"{path}: {key}: expected {expected.get(key)!r}, as asked for now, found {found.get(key)!r}; "
                "name another folder, or ask for what was begun there"
            )

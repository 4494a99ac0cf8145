"""Where prompts come from: a JSONL file, or the target, which goes on where its chat template lets a user speak."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from verispec.errors import ArtifactError, OptionError, UnsupportedError
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer
from verispec.training.numbering import Numbering

KEY = "prompt"
DAY = datetime(2026, 1, 1)
"""What a template that shows the date is told: a text does not depend on the day on which it was written."""
STAND_IN = "Qx7 stands for what a user says 7xQ"


@dataclass(frozen=True)
class Opening:
    """How a text begins: ``tokens``, and for a prompt that the target invents the tokens that end it (``closing``,
    begun by itself where the target writes ``stop``); an opening without them is a whole prompt."""

    tokens: tuple[int, ...]
    closing: tuple[int, ...] = ()

    @property
    def stop(self) -> int | None:
        """The token that ends an invented prompt."""
        return self.closing[0] if self.closing else None


class Prompts(Protocol):
    """Openings by number; the same number always gives the same one."""

    numbering: Numbering

    def opening(self, number: int) -> Opening: ...

    @property
    def longest(self) -> int:
        """Most tokens that an opening and its closing bring."""
        ...

    @property
    def mean(self) -> float:
        """The tokens that they bring on average."""
        ...

    @property
    def statement(self) -> str:
        """What they are, for whoever reads the artifact's data statement."""
        ...


class InventedPrompts:
    """Every opening is what the chat template writes before a user's turn."""

    numbering = Numbering()
    statement = "prompts invented by the target behind its own chat template, at temperature 0.8"

    def __init__(self, template: ChatTemplate | None, tokenizer: Tokenizer) -> None:
        """Raises UnsupportedError for a model without a template in which a user's words can be found."""
        stand_in = [{"role": "user", "content": STAND_IN}]
        parts = [] if template is None else template.render(stand_in, now=DAY).split(STAND_IN)
        around = [tuple(tokenizer.encode(part, parse_special=True, add_bos=False)) for part in parts]
        if len(around) != 2 or not all(around):
            raise UnsupportedError(
                "no-invented-prompts",
                "the target's chat template: expected one that writes a user's words once, with something before and "
                "behind them",
                "Give prompts of your own with --prompts FILE.jsonl",
            )
        before, behind = around
        self._opening = Opening(before, behind)
        self.longest = len(before) + len(behind)
        self.mean = float(self.longest)

    def opening(self, number: int) -> Opening:
        return self._opening


class ListedPrompts:
    """The prompts of a JSONL file, over and over: each line an object with ``prompt``, a text or chat messages. What a
    file says twice is one prompt."""

    def __init__(self, path: Path, template: ChatTemplate | None, tokenizer: Tokenizer) -> None:
        """Raises ArtifactError, with the line, for a file that is malformed."""
        content = path.read_bytes()
        self._path = path
        self._sha256 = hashlib.sha256(content).hexdigest()
        openings = [
            Opening(tuple(_encode(path, f"line {number}", line, template, tokenizer)))
            for number, line in enumerate(content.split(b"\n"), 1)
            if line.strip()
        ]
        if not openings:
            raise ArtifactError(path, "lines", "at least one prompt", "none")
        self._openings = list(dict.fromkeys(openings))
        self.numbering = Numbering(len(self._openings))

    def opening(self, number: int) -> Opening:
        return self._openings[self.numbering.prompt(number)]

    @property
    def longest(self) -> int:
        return max(len(opening.tokens) for opening in self._openings)

    @property
    def mean(self) -> float:
        return sum(len(opening.tokens) for opening in self._openings) / len(self._openings)

    @property
    def statement(self) -> str:
        return f"{len(self._openings)} prompts of {self._path.name}, SHA-256 {self._sha256}"


def _encode(
    path: Path, where: str, line: bytes, template: ChatTemplate | None, tokenizer: Tokenizer
) -> list[int]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(path, where, "a JSON object", str(error)) from error
    if not isinstance(entry, dict) or KEY not in entry:
        raise ArtifactError(path, where, f"an object with {KEY!r}", line[:60].decode(errors="replace"))
    prompt = entry[KEY]
    if isinstance(prompt, str) and prompt:
        if template is None:
            return tokenizer.encode(prompt)
        prompt = [{"role": "user", "content": prompt}]
    if isinstance(prompt, list) and prompt and template is not None:
        try:
            return template.encode(prompt, tokenizer, now=DAY)
        except OptionError as error:
            raise ArtifactError(path, where, "messages that the chat template takes", str(error)) from error
    expected = "a text" if template is None else "a text, or messages"
    raise ArtifactError(path, where, f"{KEY!r}: {expected}", repr(prompt)[:60])

"""The tokeniser facts of a GGUF file, read and checked once: tokens, types, scores, merges, special ids.

Key names and token types are those of the GGUF specification of the ggml project.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn

import numpy as np

from verispec.errors import ArtifactError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
TOKEN_TYPES = frozenset(range(7))  # 0 is "undefined", which files use for ordinary tokens

PREFIX = "tokenizer.ggml."
SPECIAL_IDS = ("bos", "eos", "eot", "eom", "unknown", "padding", "seperator", "mask")

# Tokens that end a turn or a text by their name alone, as the model families publish them: files name one
# end token at most, chat models use two or three.
END_TOKEN_NAMES = (
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<eos>",
    "</s>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
)


@dataclass(frozen=True)
class Vocabulary:
    """Checked tokeniser facts.

    ``ids`` maps a token's text to its id, ``special`` the names of SPECIAL_IDS to theirs. ``scores`` is empty
    where the file has none. ``add_bos`` and ``add_space_prefix`` are None where the file is silent.
    """

    source: str
    model: str
    pre: str
    tokens: list[str] = field(repr=False)
    types: list[int] = field(repr=False)
    scores: list[float] = field(repr=False)
    merges: list[str] = field(repr=False)
    ids: dict[str, int] = field(repr=False)
    special: dict[str, int]
    add_bos: bool | None
    add_space_prefix: bool | None

    def fail(self, key: str, expected: str, found: str) -> NoReturn:
        raise ArtifactError(self.source, f"metadata key '{PREFIX}{key}'", expected, found)

    def of_type(self, *types: int) -> list[int]:
        """Ids of all tokens of the given types, ascending."""
        return np.flatnonzero(np.isin(self.types, types)).tolist()

    @cached_property
    def end_ids(self) -> frozenset[int]:
        """Every token that ends a generation: those the file names, and control tokens known to by their
        text.
        """
        named = {self.special[name] for name in ("eos", "eot", "eom") if name in self.special}
        for text in END_TOKEN_NAMES:
            token = self.ids.get(text)
            if token is not None and self.types[token] == CONTROL:
                named.add(token)
        texts = {self.tokens[token] for token in named}
        if {"<|return|>", "<|call|>", "<|end|>"} <= texts:  # there <|end|> ends a message, not the turn
            named.discard(self.ids["<|end|>"])
        return frozenset(named)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over every fact that decides token ids or text; equal digests tokenise alike."""
        facts = {
            "format": 1,
            "model": self.model,
            "pre": self.pre,
            "special": self.special,
            "add_bos": self.add_bos,
            "add_space_prefix": self.add_space_prefix,
            "tokens": len(self.tokens),
            "merges": len(self.merges),
            "scores": len(self.scores),
        }
        hashed = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
        for texts in (self.tokens, self.merges):
            hashed.update(np.fromiter(map(len, texts), "<u4", len(texts)).tobytes())
            hashed.update("".join(texts).encode("utf-8", "surrogatepass"))
        hashed.update(np.asarray(self.types, "u1").tobytes())
        hashed.update(np.asarray(self.scores, "<f4").tobytes())
        return hashed.hexdigest()


def read_vocabulary(metadata: Mapping[str, object], source: str) -> Vocabulary:
    """Reads the tokeniser keys. Raises ArtifactError naming ``source`` and the key at fault."""
    reader = _Reader(metadata, source)
    tokens = reader.texts("tokens")
    if not tokens:
        reader.fail("tokens", "at least one token", "none")
    types = reader.types(len(tokens))
    return Vocabulary(
        source=source,
        model=reader.text("model", None),
        pre=reader.text("pre", "default"),
        tokens=tokens,
        types=types,
        scores=reader.scores(len(tokens)),
        merges=reader.texts("merges"),
        ids=reader.unique_ids(tokens),
        special=reader.special_ids(len(tokens)),
        add_bos=reader.flag("add_bos_token"),
        add_space_prefix=reader.flag("add_space_prefix"),
    )


@dataclass(frozen=True)
class _Reader:
    metadata: Mapping[str, object]
    source: str

    def fail(self, key: str, expected: str, found: str) -> NoReturn:
        raise ArtifactError(self.source, f"metadata key '{PREFIX}{key}'", expected, found)

    def text(self, key: str, default: str | None) -> str:
        value = self.metadata.get(PREFIX + key, default)
        if not isinstance(value, str) or not value:
            self.fail(key, "a string", "nothing" if value is None else ascii(value)[:60])
        return value

    def flag(self, key: str) -> bool | None:
        value = self.metadata.get(PREFIX + key)
        if value is not None and not isinstance(value, bool):
            self.fail(key, "a bool", ascii(value)[:60])
        return value

    def array(self, key: str, kinds: set[type]) -> list[object]:
        """A list whose elements are all of ``kinds``; empty where the file has no such key."""
        value = self.metadata.get(PREFIX + key, [])
        names = "/".join(sorted(kind.__name__ for kind in kinds))
        if not isinstance(value, list):
            self.fail(key, f"an array of {names}", ascii(value)[:60])
        strange = set(map(type, value)) - kinds
        if strange:
            self.fail(key, f"an array of {names}", f"elements of type {strange.pop().__name__}")
        return value

    def texts(self, key: str) -> list[str]:
        return self.array(key, {str})  # type: ignore[return-value]

    def types(self, count: int) -> list[int]:
        types: list[int] = self.array("token_type", {int})  # type: ignore[assignment]
        if not types and PREFIX + "token_type" not in self.metadata:
            return [NORMAL] * count
        if len(types) != count:
            self.fail("token_type", f"one type for each of {count} tokens", f"{len(types)}")
        for kind in set(types) - TOKEN_TYPES:
            self.fail("token_type", "types from 0 to 6", f"{kind} at token {types.index(kind)}")
        return types

    def scores(self, count: int) -> list[float]:
        scores: list[float] = self.array("scores", {float, int})  # type: ignore[assignment]
        if scores and len(scores) != count:
            self.fail("scores", f"one score for each of {count} tokens", f"{len(scores)}")
        if not np.isfinite(np.asarray(scores, np.float64)).all():
            self.fail("scores", "finite numbers", "infinity or NaN")
        return scores

    def unique_ids(self, tokens: list[str]) -> dict[str, int]:
        ids = dict(zip(tokens, range(len(tokens)), strict=True))
        if len(ids) != len(tokens) - (max(tokens.count("") - 1, 0) if "" in ids else 0):
            first: dict[str, int] = {}
            for token, text in enumerate(tokens):
                if text and first.setdefault(text, token) != token:
                    self.fail("tokens", "every token once", f"{text!a} at {first[text]} and {token}")
        ids.pop("", None)  # unnamed tokens exist in published files; no text ever becomes one
        return ids

    def special_ids(self, count: int) -> dict[str, int]:
        special = {}
        for name in SPECIAL_IDS:
            value = self.metadata.get(f"{PREFIX}{name}_token_id")
            if value is None:
                continue
            if type(value) is not int or not 0 <= value < count:
                self.fail(f"{name}_token_id", f"an id from 0 to {count - 1}", ascii(value)[:60])
            special[name] = value
        return special

"""What a request begins with, in blocks that two requests share exactly if they begin alike and may share a cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TEXT_BLOCK = 64
"""Characters of a block."""
TOKEN_BLOCK = 16
"""Tokens of a block, where a prompt comes as token ids; about as much as 64 characters."""
MAX_BLOCKS = 1024
"""Leading blocks of one prompt that are looked at."""
OF_IDENTITY = ("user", "safety_identifier", "prompt_cache_key")
"""With the caller, what a prefix cache tells identities apart by."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """``blocks``: hashes, each of one block and all before it. ``answers``: how many a request asks for."""

    blocks: tuple[bytes, ...] = ()
    answers: int = 1


def wanted(body: Mapping[str, Any], caller: str) -> Wanted:
    """Where to send a request with this body. Whatever a replica will refuse has no blocks."""
    prompts = _prompts(body)
    count = body.get("n")
    answers = max(1, len(prompts)) * (count if isinstance(count, int) and 1 <= count <= 1024 else 1)
    if not prompts or body.get("cache_prompt") is False:
        return Wanted((), answers)
    identity = json.dumps([caller, *(str(body.get(name)) for name in OF_IDENTITY)])
    return Wanted(tuple(_chained(identity, prompts[0])), answers)


def _prompts(body: Mapping[str, Any]) -> list[str | list[int]]:
    """The prompts of either endpoint. A conversation is its tools and messages, written one behind the other: one
    that goes on begins with all of what it was."""
    messages, prompt = body.get("messages"), body.get("prompt")
    if isinstance(messages, list):
        return ["\n".join(json.dumps(part, sort_keys=True) for part in [body.get("tools"), *messages])]
    if isinstance(prompt, str):
        return [prompt]
    if not isinstance(prompt, list) or not prompt:
        return []
    if _is_tokens(prompt):
        return [prompt]
    return [one for one in prompt if isinstance(one, str) or (isinstance(one, list) and _is_tokens(one))]


def _is_tokens(prompt: Sequence[Any]) -> bool:
    return all(isinstance(token, int) for token in prompt)


def _chained(identity: str, prompt: str | list[int]) -> list[bytes]:
    size = TEXT_BLOCK if isinstance(prompt, str) else TOKEN_BLOCK
    link = hashlib.blake2b(identity.encode(), digest_size=16).digest()
    links = []
    for start in range(0, min(len(prompt) // size, MAX_BLOCKS) * size, size):
        part = prompt[start : start + size]
        data = part.encode() if isinstance(part, str) else json.dumps(part).encode()
        link = hashlib.blake2b(data, digest_size=16, key=link).digest()
        links.append(link)
    return links

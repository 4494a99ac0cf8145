"""Who is calling: API keys from a file or the environment, compared without telling how close a guess was."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from pathlib import Path

from verispec.errors import OptionError

ENVIRONMENT = "VERISPEC_API_KEYS"
ANONYMOUS = "anonymous"
SHORTEST = 8


class KeyRing:
    """The keys a server accepts, as digests; without any, everyone is ``anonymous``."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = tuple({_digest(key): None for key in keys})

    @classmethod
    def load(cls, path: Path | None, environment: Mapping[str, str]) -> KeyRing:
        """The keys of a file (one a line, ``#`` begins a comment) and of ``VERISPEC_API_KEYS`` (commas between).

        Raises OptionError for a key that no header can carry, or a source that holds none: a server meant to ask for
        keys must not start without. Messages name the place, never the key.
        """
        keys: list[str] = []
        if ENVIRONMENT in environment:
            keys += _checked(ENVIRONMENT, environment[ENVIRONMENT].split(","))
        if path is not None:
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise OptionError(f"{path}: expected UTF-8 text, found other bytes") from error
            keys += _checked(str(path), (line.split("#")[0] for line in text.splitlines()))
        return cls(keys)

    @property
    def required(self) -> bool:
        """Whether callers need a key."""
        return bool(self._digests)

    def identify(self, authorization: str | None) -> str | None:
        """The identity behind an ``Authorization`` header, or None for a stranger.

        An identity is derived from the key's digest and says nothing about the key. Every key is compared, in
        constant time.
        """
        if not self._digests:
            return ANONYMOUS
        scheme, _, key = (authorization or "").partition(" ")
        given = _digest(key.strip()) if scheme.lower() == "bearer" else b""
        found = None
        for digest in self._digests:
            if hmac.compare_digest(digest, given):
                found = digest
        return None if found is None else "key-" + hashlib.sha256(b"identity\0" + found).hexdigest()[:32]


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _checked(source: str, candidates: Iterable[str]) -> list[str]:
    keys = []
    for number, candidate in enumerate(candidates, 1):
        key = candidate.strip()
        if not key:
            continue
        if len(key) < SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
            raise OptionError(
                f"{source}: key {number}: expected at least {SHORTEST} ASCII characters without spaces"
            )
        keys.append(key)
    if not keys:
        raise OptionError(f"{source}: expected at least one API key, found none")
    return keys

"""What looks like a secret is told from others of its kind by a digest, and stands nowhere itself."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SECRET = re.compile(r"KEY|TOKEN|SECRET|AUTH|PASS(?!ES)(WORD|WD|PHRASE)?|CREDENTIAL", re.IGNORECASE)
"""In the names of variables, flags and fields."""
HARMLESS = re.compile(r"TOKENIZERS?|(MAX|MIN|NUM|BATCHED|COMPLETION|NEW)[_-]TOKENS", re.IGNORECASE)
"""Names of the trade that would pass for secrets: the settings of tokenisers, and numbers of tokens."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
SHORTEST = 6
"""Characters of a secret that is looked for in texts."""
LONGEST_FLAG = 8
"""A part that begins with one dash and is longer is what a secret begins with, and no flag."""


def is_secret(name: str) -> bool:
    """Whether the value of what is called ``name`` must not be written down."""
    return bool(SECRET.search(HARMLESS.sub("", name)))


def shown(name: str, value: str) -> str:
    """``value`` as it may be written down: of a secret its digest, which stays as it is when shown again."""
    if not value or not is_secret(name) or DIGEST.fullmatch(value):
        return value
    return f"sha256:{hashlib.sha256(value.encode('utf-8', 'surrogateescape')).hexdigest()}"


def arguments_shown(parts: Sequence[str]) -> list[str]:
    """A command line as it may be written down: ``--api-key VALUE ...`` and ``--api-key=VALUE`` with digests."""
    return list(_shown_parts(parts))


def content_shown(content: Any, name: str = "") -> Any:
    """Settings as JSON, as they may be written down: texts by the names that they stand under, lists named
    ``arguments`` or ``command`` as command lines."""
    if isinstance(content, Mapping):
        return {key: content_shown(value, str(key)) for key, value in content.items()}
    if isinstance(content, list | tuple):
        if name in ("arguments", "command") and all(isinstance(one, str) for one in content):
            return arguments_shown(content)
        return [content_shown(one, name) for one in content]
    return shown(name, content) if isinstance(content, str) else content


def _shown_parts(parts: Sequence[str]) -> Iterator[str]:
    secret = ""
    for part in parts:
        long = not part.startswith("--") and len(part) > LONGEST_FLAG
        if not part.startswith("-") or (secret and long):
            yield shown(secret, part)
            continue
        name, equals, value = part.partition("=")
        secret = name if is_secret(name) and not equals else ""
        yield f"{name}={shown(name, value)}" if equals else part


def secret_values(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The secrets among them, longest first; what is too short to be searched for in a text is left out."""
    told = arguments_shown(arguments)
    found = [value for name, value in environment.items() if shown(name, value) != value]
    for part, instead in zip(arguments, told, strict=True):
        if part != instead:
            found.append(part.partition("=")[2] if part.startswith("--") else part)
    return sorted({one for one in found if len(one) >= SHORTEST}, key=len, reverse=True)


def without(text: bytes, values: Sequence[str]) -> bytes:
    """A text that others wrote, such as a server's log, in which secrets are replaced by three dots."""
    for value in values:
        text = text.replace(value.encode("utf-8", "surrogateescape"), b"...")
    return text

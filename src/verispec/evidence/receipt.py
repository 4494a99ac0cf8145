"""Receipts: what a generation was made from, what it gave, and how to check it.

A receipt's body has three sections, named for how far their fields can be trusted:

- ``replayed``: inputs and outputs. ``verify`` runs the target alone on the inputs and compares the outputs.
- ``recomputed-with-drafter``: the rounds. Whoever has the drafter's files can run them again.
- ``attested``: timings and the like, which nothing can repeat.

The SHA-256 beside the body finds corruption; authenticity is the optional signature.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verispec.errors import ReceiptError
from verispec.evidence.canonical import canonical_bytes, parse_readable, plain, readable_bytes
from verispec.evidence.digests import prefix_digests, text_digest, token_digest

FORMAT = "verispec receipt 1"
REPLAYED, RECOMPUTED, ATTESTED = "replayed", "recomputed-with-drafter", "attested"
SALT_BYTES = 16
CANCELLED = "cancelled"


@dataclass(frozen=True)
class Evidence:
    """What the engine knows of one finished generation. Mappings hold text, numbers, lists and mappings only.

    ``runtime``: the backend's identity with at least ``backend`` and ``arithmetic``. ``artifacts``: role
    (``target``, ``drafter``, ``corpus``) to SHA-256. ``sampling`` and ``limits``: the resolved parameters,
    the seed that was drawn included. ``rounds``: (drafted, accepted) of each. ``schedule``: what each
    round was told before its pass: (rows it could bring, rows planned by others, others that would write).
    ``logprobs``: per token, where
    they were asked for.
    """

    runtime: Mapping[str, Any]
    artifacts: Mapping[str, str]
    tokenizer: str
    sampling: Mapping[str, Any]
    limits: Mapping[str, Any]
    prompt_tokens: Sequence[int]
    tokens: Sequence[int]
    text: str
    finish_reason: str
    stop_string: str | None = None
    logprobs: Sequence[Any] | None = None
    speculation: Mapping[str, Any] = field(default_factory=dict)
    rounds: Sequence[tuple[int, int]] = ()
    schedule: Sequence[tuple[int, int, int]] = ()
    sources: Sequence[str] = ()
    counts: Mapping[str, Any] = field(default_factory=dict)
    faults: Sequence[str] = ()
    warnings: Sequence[str] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Receipt:
    """A receipt in memory. ``body`` is of receipt types (see ``canonical.plain``); treat it as read-only."""

    body: dict[str, Any]
    signature: dict[str, str] | None = None

    @classmethod
    def of(cls, evidence: Evidence, *, include_text: bool = False, salt: bytes | None = None) -> Receipt:
        """The receipt of one generation. ``include_text`` stores prompt and answer, so that it can be checked
        alone.

        ``salt`` None draws one: equal prompts then have different digests.
        """
        salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
        body = {
            REPLAYED: _replayed(evidence, salt, include_text),
            RECOMPUTED: _recomputed(evidence),
            ATTESTED: {
                "timings": evidence.timings,
                "machine": evidence.machine,
                "faults": list(evidence.faults),
                "warnings": list(evidence.warnings),
            },
        }
        return cls(plain(body))

    @property
    def replayed(self) -> dict[str, Any]:
        section: dict[str, Any] = self.body[REPLAYED]
        return section

    @property
    def sha256(self) -> str:
        """SHA-256 (hex) over the canonical body and signature."""
        hashed = {"body": self.body, "signature": self.signature}
        return hashlib.sha256(canonical_bytes(hashed)).hexdigest()

    def signed_bytes(self) -> bytes:
        """What a signature is over."""
        return b"verispec receipt signature 1\0" + canonical_bytes(self.body)

    def to_bytes(self) -> bytes:
        document = {"format": FORMAT, "sha256": self.sha256, "signature": self.signature, "body": self.body}
        return readable_bytes(document)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the receipt; a reader of ``path`` sees all of it or what was there before."""
        target = Path(path)
        unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
        try:
            unfinished.write_bytes(self.to_bytes())
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)

    @classmethod
    def from_bytes(cls, data: bytes) -> Receipt:
        """The receipt written as ``data``. Raises ReceiptError when a byte of it has changed since."""
        document = parse_readable(data)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            found = document.get("format") if isinstance(document, dict) else type(document).__name__
            raise ReceiptError(f"receipt: expected the format {FORMAT!r}, found {found!r}")
        if document.keys() != {"format", "sha256", "signature", "body"}:
            raise ReceiptError(f"receipt: expected body, sha256 and signature, found {', '.join(document)}")
        receipt = cls(document["body"], document["signature"])
        if receipt.sha256 != document["sha256"]:
            raise ReceiptError(
                "receipt: expected content that has the SHA-256 it names, found another: altered"
            )
        check_body(receipt.body)
        return receipt

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Receipt:
        """Reads a receipt file. Raises ReceiptError naming ``path``."""
        try:
            return cls.from_bytes(Path(path).read_bytes())
        except OSError as error:
            raise ReceiptError(f"{path}: expected a receipt, found {error.strerror}") from error
        except ReceiptError as error:
            raise ReceiptError(f"{path}: {error}") from error


def _replayed(evidence: Evidence, salt: bytes, include_text: bool) -> dict[str, Any]:
    cancelled = evidence.finish_reason == CANCELLED
    section: dict[str, Any] = {
        "runtime": evidence.runtime,
        "artifacts": evidence.artifacts,
        "tokenizer_sha256": evidence.tokenizer,
        "sampling": evidence.sampling,
        "limits": evidence.limits,
        "prompt": {
            "salt": salt.hex(),
            "sha256": token_digest(evidence.prompt_tokens, salt),
            "tokens": len(evidence.prompt_tokens),
        },
        "output": {
            "sha256": token_digest(evidence.tokens),
            "prefixes": prefix_digests(evidence.tokens),
            "tokens": len(evidence.tokens),
            # a cancelled generation may still have held text back
            "text_sha256": None if cancelled else text_digest(evidence.text),
            "finish_reason": evidence.finish_reason,
            "stop_string": evidence.stop_string,
            "logprobs_sha256": logprobs_digest(evidence.logprobs),
        },
        "included": None,
    }
    if include_text:
        section["included"] = {
            "prompt_tokens": list(evidence.prompt_tokens),
            "tokens": list(evidence.tokens),
            "text": evidence.text,
        }
    return section


def _recomputed(evidence: Evidence) -> dict[str, Any]:
    accepted = [accepted for _, accepted in evidence.rounds]
    widest = max(accepted, default=0)
    return {
        "speculation": evidence.speculation,
        "rounds": [list(one) for one in evidence.rounds],
        # an adaptive draft width goes by it; nothing where a request was alone throughout
        "schedule": [list(one) for one in evidence.schedule] if any(map(any, evidence.schedule)) else [],
        # of a chain of strategies: whose proposal each round was
        "sources": list(evidence.sources),
        "drafted": sum(drafted for drafted, _ in evidence.rounds),
        "accepted": sum(accepted),
        "accepted_by_position": [sum(one > position for one in accepted) for position in range(widest)],
        "counts": evidence.counts,
    }


def logprobs_digest(logprobs: Sequence[Any] | None) -> str | None:
    """SHA-256 (hex) over exact decimals of all values; None where none were asked for."""
    return None if logprobs is None else hashlib.sha256(canonical_bytes(plain(logprobs))).hexdigest()


# What every receipt has to hold: section, field, type. The rest of the body may grow.
_FIELDS: tuple[tuple[tuple[str, ...], tuple[type, ...]], ...] = (
    ((REPLAYED, "runtime"), (dict,)),
    ((REPLAYED, "artifacts"), (dict,)),
    ((REPLAYED, "tokenizer_sha256"), (str,)),
    ((REPLAYED, "sampling"), (dict,)),
    ((REPLAYED, "limits"), (dict,)),
    ((REPLAYED, "prompt", "salt"), (str,)),
    ((REPLAYED, "prompt", "sha256"), (str,)),
    ((REPLAYED, "prompt", "tokens"), (int,)),
    ((REPLAYED, "output", "sha256"), (str,)),
    ((REPLAYED, "output", "prefixes"), (list,)),
    ((REPLAYED, "output", "tokens"), (int,)),
    ((REPLAYED, "output", "text_sha256"), (str, type(None))),
    ((REPLAYED, "output", "finish_reason"), (str,)),
    ((REPLAYED, "output", "stop_string"), (str, type(None))),
    ((REPLAYED, "output", "logprobs_sha256"), (str, type(None))),
    ((REPLAYED, "included"), (dict, type(None))),
    ((RECOMPUTED, "rounds"), (list,)),
    ((ATTESTED, "timings"), (dict,)),
)


def check_body(body: Any) -> None:
    """Raises ReceiptError for a body without what verification needs, whoever hashed it."""
    for path, kinds in _FIELDS:
        value = body
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if type(value) not in kinds:
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise ReceiptError(
                f"receipt: {'.'.join(path)}: expected {expected}, found {type(value).__name__}"
            )

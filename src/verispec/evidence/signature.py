"""Ed25519 signatures of receipts, when the ``cryptography`` package is installed."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from verispec.errors import ReceiptError, UnsupportedError
from verispec.evidence.receipt import Receipt

ALGORITHM = "Ed25519"


def sign(receipt: Receipt, private_key: bytes) -> Receipt:
    """The receipt with a signature by ``private_key`` (32 bytes, raw)."""
    ed25519 = _ed25519()
    try:
        key = ed25519.Ed25519PrivateKey.from_private_bytes(private_key)
    except ValueError as error:
        raise ReceiptError(f"signing key: expected 32 bytes, found {len(private_key)}") from error
    return replace(
        receipt,
        signature={
            "algorithm": ALGORITHM,
            "public_key": key.public_key().public_bytes_raw().hex(),
            "signature": key.sign(receipt.signed_bytes()).hex(),
        },
    )


def check_signature(receipt: Receipt, public_key: bytes | None = None) -> str | None:
    """The public key (hex) that signed ``receipt``; None when it is not signed.

    ``public_key`` (32 bytes, raw) says who must have signed it. Raises ReceiptError when the signature does
    not hold or is by another key, UnsupportedError when it cannot be checked here.
    """
    signature = receipt.signature
    if signature is None:
        if public_key is not None:
            raise ReceiptError("receipt: expected a signature, found none")
        return None
    named = signature.get("public_key") if isinstance(signature, dict) else None
    if not isinstance(named, str) or signature.get("algorithm") != ALGORITHM:
        raise ReceiptError(
            f"receipt: expected an {ALGORITHM} signature with its public key, found another form"
        )
    if public_key is not None and named != public_key.hex():
        raise ReceiptError(f"receipt: expected a signature by {public_key.hex()}, found one by {named}")
    ed25519 = _ed25519()
    invalid = import_module("cryptography.exceptions").InvalidSignature
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(named))
        key.verify(bytes.fromhex(signature["signature"]), receipt.signed_bytes())
    except (invalid, ValueError, KeyError, TypeError) as error:
        raise ReceiptError(
            "receipt: expected a signature over this content, found one that does not hold"
        ) from error
    return named


def _ed25519() -> Any:
    try:
        return import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError as error:
        raise UnsupportedError(
            "cryptography-missing",
            "signatures need the cryptography package",
            "Install it: pip install cryptography",
        ) from error

"""Checking a receipt: unaltered, same arithmetic, same artifacts, and a target-only replay that gives the
same tokens.

The engine is reached through the small protocol below, so that receipts of any backend are checked by the
same code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from verispec.errors import (
    ArtifactError,
    ContextOverflowError,
    FetchError,
    OptionError,
    ReceiptError,
    UnsupportedError,
)
from verispec.evidence.digests import BLOCK, prefix_digests, text_digest, token_digest
from verispec.evidence.receipt import CANCELLED, Receipt, logprobs_digest
from verispec.evidence.signature import check_signature

COMPARED_IDENTITY = (
    "backend",
    "arithmetic",
)  # other identity fields (ISA, threads, compiler) cannot change a token


class Verdict(StrEnum):
    """The outcome of a verification; the strings are stable."""

    VERIFIED = "verified"
    MISMATCH = "mismatch"
    PROMPT_REQUIRED = "prompt-required"
    ALTERED = "altered"
    ARITHMETIC_MISMATCH = "arithmetic-mismatch"
    ARTIFACT_MISSING = "artifact-missing"


@dataclass(frozen=True)
class Verification:
    """A verdict with its reason. ``position``: the first output token that differs, known to within
    ``uncertainty`` tokens (a receipt without its text holds digests of every 32 tokens). ``signed_by``: the
    public key (hex) of a signature that holds; ``signature`` is ``valid``, ``absent`` or ``unchecked``.
    """

    verdict: Verdict
    reason: str
    position: int | None = None
    uncertainty: int = 0
    signature: str = "absent"
    signed_by: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "reason": self.reason,
            "position": self.position,
            "uncertainty": self.uncertainty,
            "signature": self.signature,
            "signed_by": self.signed_by,
        }


class Replayed(Protocol):
    """What a replay gives. ``logprobs`` has the form in which the engine hands them to receipts."""

    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def text(self) -> str: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def stop_string(self) -> str | None: ...
    @property
    def logprobs(self) -> Sequence[Any] | None: ...


class Replayer(Protocol):
    """A loaded target that can generate without any drafter."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The backend's identity, as receipts record it."""

    @property
    def artifacts(self) -> Mapping[str, str]:
        """Role to SHA-256 of what is loaded; ``target`` at least."""

    @property
    def tokenizer_digest(self) -> str: ...

    def encodings(self, prompt: Any) -> Iterable[Sequence[int]]:
        """The token ids that ``prompt`` may have been given as: plain, and as a chat message."""

    def generate_tokens(
        self, prompt: Sequence[int], sampling: Mapping[str, Any], limits: Mapping[str, Any]
    ) -> Replayed:
        """Runs the target alone."""


def verify(
    receipt: Receipt | bytes,
    load: Callable[[Mapping[str, Any]], Replayer],
    prompt: Any = None,
    public_key: bytes | None = None,
) -> Verification:
    """Checks ``receipt`` (or the bytes of its file) by replaying it.

    ``load`` is given the receipt's ``replayed`` section and loads the target it names; its ArtifactError,
    FetchError or FileNotFoundError mean that the artifact is not here. ``prompt`` is needed when the receipt
    does not include it: text, messages or token ids, as ``Replayer.encodings`` takes them. ``public_key``
    (raw) is who must have signed. Errors of the replay itself are raised.
    """
    try:
        receipt = Receipt.from_bytes(receipt) if isinstance(receipt, bytes) else receipt
        signature, signed_by = _signature(receipt, public_key)
        check_included(receipt)
        check_ending(receipt)
        sampling_parameters(receipt.replayed["sampling"])
    except ReceiptError as error:
        return Verification(Verdict.ALTERED, str(error))
    outcome = _replay(receipt, load, prompt)
    return Verification(
        outcome.verdict, outcome.reason, outcome.position, outcome.uncertainty, signature, signed_by
    )


def _signature(receipt: Receipt, public_key: bytes | None) -> tuple[str, str | None]:
    try:
        signed_by = check_signature(receipt, public_key)
    except UnsupportedError:
        if public_key is not None:
            raise
        return "unchecked", None
    return ("absent" if signed_by is None else "valid"), signed_by


def check_included(receipt: Receipt) -> None:
    """Raises ReceiptError when what a receipt stores of prompt and answer does not have its digests."""
    included, facts = receipt.replayed["included"], receipt.replayed
    if re.fullmatch("([0-9a-f]{2})*", facts["prompt"]["salt"]) is None:
        raise ReceiptError("receipt: replayed.prompt.salt: expected hexadecimal digits")
    if included is None:
        return
    prompt, tokens, text = (included.get(name) for name in ("prompt_tokens", "tokens", "text"))
    if not (_are_tokens(prompt) and _are_tokens(tokens) and isinstance(text, str)):
        raise ReceiptError("receipt: replayed.included: expected prompt_tokens, tokens and text")
    if not _is_prompt(facts["prompt"], prompt):
        raise ReceiptError("receipt: expected the stored prompt to have the recorded digest, found another")
    output = facts["output"]
    if (token_digest(tokens), len(tokens)) != (output["sha256"], output["tokens"]):
        raise ReceiptError("receipt: expected the stored tokens to have the recorded digest, found another")
    if output["text_sha256"] not in (None, text_digest(text)):
        raise ReceiptError("receipt: expected the stored text to have the recorded digest, found another")


def check_ending(receipt: Receipt) -> None:
    """Raises ReceiptError when length, limit and finish reason cannot all be true of one generation."""
    output, limits = receipt.replayed["output"], receipt.replayed["limits"]
    allowed = limits.get("max_tokens")
    tokens, reason = output["tokens"], output["finish_reason"]
    cancelled = reason == CANCELLED
    if allowed is not None and type(allowed) is not int:
        raise ReceiptError(f"receipt: replayed.limits.max_tokens: expected int or null, found {allowed!r}")
    below = allowed is None or tokens < allowed
    possible = {"stop": below or tokens == allowed, "length": tokens == allowed, "context": below}
    possible[CANCELLED] = below or allowed == 0
    # a prompt that was only scored, and a grammar of no text, end without a token
    may_be_empty = cancelled or allowed == 0 or (reason == "stop" and limits.get("grammar") is not None)
    if not possible.get(reason, False) or tokens < (0 if may_be_empty else 1):
        raise ReceiptError(
            f"receipt: expected an end that {tokens} tokens of at most {allowed} can have, found {reason!r}"
        )
    if cancelled != (output["text_sha256"] is None):
        raise ReceiptError("receipt: expected a text digest unless the generation was cancelled")
    if not tokens and (output["sha256"], output["prefixes"]) != (token_digest([]), []):
        raise ReceiptError("receipt: expected the digest of no tokens, found another")


def _replay(receipt: Receipt, load: Callable[[Mapping[str, Any]], Replayer], prompt: Any) -> Verification:
    facts = receipt.replayed
    if facts["included"] is None and prompt is None:
        return Verification(Verdict.PROMPT_REQUIRED, "the receipt holds no prompt and none was given")
    try:
        target = load(facts)
    except (ArtifactError, FetchError, FileNotFoundError) as error:
        return Verification(Verdict.ARTIFACT_MISSING, f"the target cannot be loaded: {error}")
    refused = _other_machine(facts, target)
    if refused is not None:
        return refused
    tokens = _prompt_tokens(facts, target, prompt)
    if tokens is None:
        return Verification(Verdict.PROMPT_REQUIRED, "the prompt given is not the one this receipt is about")
    return _compare(receipt, tokens, target)


def _other_machine(facts: Mapping[str, Any], target: Replayer) -> Verification | None:
    """Why a replay on ``target`` would prove nothing."""
    wanted, found = facts["artifacts"].get("target"), target.artifacts.get("target")
    if wanted != found:
        return Verification(Verdict.ARTIFACT_MISSING, f"the target is {wanted}, what was loaded is {found}")
    for name in COMPARED_IDENTITY:
        wanted, found = facts["runtime"].get(name), target.identity.get(name)
        if wanted is None or wanted != found:
            return Verification(
                Verdict.ARITHMETIC_MISMATCH, f"{name}: the receipt was made with {wanted}, this is {found}"
            )
    if facts["tokenizer_sha256"] != target.tokenizer_digest:
        return Verification(Verdict.ARITHMETIC_MISMATCH, "the tokeniser here is not the one of the receipt")
    return None


def _prompt_tokens(facts: Mapping[str, Any], target: Replayer, prompt: Any) -> Sequence[int] | None:
    if prompt is None:
        stored: list[int] = facts["included"]["prompt_tokens"]
        return stored
    return next((tokens for tokens in target.encodings(prompt) if _is_prompt(facts["prompt"], tokens)), None)


def _compare(receipt: Receipt, prompt: Sequence[int], target: Replayer) -> Verification:
    facts, output = receipt.replayed, receipt.replayed["output"]
    if output["tokens"] == 0 and output["finish_reason"] != "stop":
        return Verification(Verdict.VERIFIED, "nothing was generated")
    limits = {
        **facts["limits"],
        "max_tokens": max(1, output["tokens"]),
    }  # a grammar of no text gives none of one
    try:
        replayed = target.generate_tokens(prompt, sampling_parameters(facts["sampling"]), limits)
    except OptionError as error:
        return Verification(Verdict.ALTERED, f"no generation can have had these parameters: {error}")
    tokens = list(replayed.tokens)
    if replayed.finish_reason == "context" and len(tokens) < output["tokens"]:
        room = f"room for {output['tokens']} tokens behind the prompt's {len(prompt)}"
        raise ContextOverflowError(f"target: expected {room}, found {len(tokens)}; load it with a larger ctx")
    if token_digest(tokens) != output["sha256"] or len(tokens) != output["tokens"]:
        position, uncertainty = first_difference(receipt, tokens)
        return Verification(Verdict.MISMATCH, "the replay gives other tokens", position, uncertainty)
    end = len(tokens)
    if output["prefixes"] != prefix_digests(tokens):
        return Verification(Verdict.MISMATCH, "the replay gives other digests of the first tokens", end)
    if (output["finish_reason"] == "stop") != (replayed.finish_reason == "stop"):
        reason = (
            f"the receipt says it ended by {output['finish_reason']}, the replay by {replayed.finish_reason}"
        )
        return Verification(Verdict.MISMATCH, reason, end)
    if output["finish_reason"] != CANCELLED and output["text_sha256"] != text_digest(replayed.text):
        return Verification(Verdict.MISMATCH, "the replay gives other text for the same tokens", end)
    if facts["included"] is not None and not replayed.text.startswith(facts["included"]["text"]):
        return Verification(Verdict.MISMATCH, "the replay gives other text than is stored", end)
    if output["stop_string"] != replayed.stop_string:
        return Verification(Verdict.MISMATCH, "the replay ends at another stop string", end)
    if output["logprobs_sha256"] != logprobs_digest(replayed.logprobs):
        return Verification(Verdict.MISMATCH, "the replay gives other log-probabilities", end)
    return Verification(Verdict.VERIFIED, f"a target-only replay gives the same {end} tokens")


def first_difference(receipt: Receipt, tokens: Sequence[int]) -> tuple[int, int]:
    """The first output position where ``tokens`` differ from the receipt's, and how many tokens later it may
    be.
    """
    facts = receipt.replayed
    if facts["included"] is not None:
        return _first_difference(facts["included"]["tokens"], tokens), 0
    start = BLOCK * _first_difference(facts["output"]["prefixes"], prefix_digests(tokens))
    return start, max(min(BLOCK, facts["output"]["tokens"] - start, len(tokens) - start) - 1, 0)


def _first_difference(one: Sequence[Any], other: Sequence[Any]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def sampling_parameters(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Recorded parameters as the engine takes them: decimals are floats again, token ids are numbers."""
    try:
        return {name: _restored(value) for name, value in recorded.items()}
    except ValueError as error:
        raise ReceiptError(f"receipt: replayed.sampling: expected numbers, found {error}") from error


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return {int(token): _restored(bias) for token, bias in value.items()}
    return float(value) if isinstance(value, str) else value


def _is_prompt(recorded: Mapping[str, Any], tokens: Sequence[int]) -> bool:
    digest = token_digest(tokens, bytes.fromhex(recorded["salt"]))
    return (digest, len(tokens)) == (recorded["sha256"], recorded["tokens"])


def _are_tokens(value: Any) -> bool:
    return isinstance(value, list) and all(type(token) is int and 0 <= token < 1 << 32 for token in value)

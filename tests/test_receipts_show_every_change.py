"""Receipts: one spelling, every changed byte caught, signatures that hold or are refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verispec.errors import ReceiptError, UnsupportedError
from verispec.evidence import signature as signatures
from verispec.evidence.canonical import canonical_bytes, exact_decimal, parse_readable, plain, readable_bytes
from verispec.evidence.receipt import Evidence, Receipt
from verispec.evidence.signature import check_signature, sign
from verispec.evidence.verify import Verdict, verify

EVIDENCE = Evidence(
    runtime={"backend": "native", "arithmetic": 1, "isa": "avx2"},
    artifacts={"target": "ab" * 32},
    tokenizer="cd" * 32,
    sampling={"temperature": 0.1 + 0.2, "seed": 2**64 - 1, "logit_bias": {"5": -1.5}, "logprobs": None},
    limits={"max_tokens": 70, "stop": ["END"], "ignore_eos": False},
    prompt_tokens=[1, 2, 3],
    tokens=list(range(70)),
    text="naïve 日本 🤖\n",
    finish_reason="length",
    speculation={"strategy": "suffix", "options": {"spec_draft_max": 7}},
    rounds=[(7, 7), (7, 0), (3, 2)],
    counts={"replays": 0},
    timings={"total": 0.123},
)
KEY, OTHER_KEY = bytes(range(32)), bytes(32)


def never_loaded(_: Any) -> Any:
    raise AssertionError("an altered receipt must not load anything")


@pytest.mark.parametrize(("signed", "step"), [(True, 1), (False, 5)])
def test_every_changed_byte_is_caught(signed: bool, step: int) -> None:
    receipt = Receipt.of(EVIDENCE, include_text=signed)
    data = (sign(receipt, KEY) if signed else receipt).to_bytes()
    for position in range(0, len(data), step):
        before, byte, after = data[:position], data[position], data[position + 1 :]
        flipped = bytes([byte ^ 1 << position % 8])
        for changed in (before + flipped + after, before + after, before + b" " + data[position:]):
            with pytest.raises(ReceiptError):
                Receipt.from_bytes(changed)
    with pytest.raises(ReceiptError):
        Receipt.from_bytes(data + b"\n")
    assert verify(data.replace(b"avx2", b"avx3"), never_loaded).verdict is Verdict.ALTERED


def test_a_receipt_survives_the_file_system(tmp_path: Path) -> None:
    receipt = Receipt.of(EVIDENCE, include_text=True)
    path = tmp_path / "receipt.json"
    path.write_text("something older")
    receipt.write(path)
    assert Receipt.read(path) == receipt
    assert [file.name for file in tmp_path.iterdir()] == ["receipt.json"]
    with pytest.raises(ReceiptError, match=r"nowhere\.json: expected a receipt"):
        Receipt.read(tmp_path / "nowhere.json")


def test_every_field_stands_under_what_it_is_worth() -> None:
    body = Receipt.of(EVIDENCE).body
    assert set(body) == {"replayed", "recomputed-with-drafter", "attested"}
    assert body["replayed"]["output"]["tokens"] == 70
    assert len(body["replayed"]["output"]["prefixes"]) == 2
    assert body["recomputed-with-drafter"]["rounds"] == [[7, 7], [7, 0], [3, 2]]
    assert body["recomputed-with-drafter"]["accepted_by_position"] == [2, 2, 1, 1, 1, 1, 1]
    assert body["attested"]["timings"] == {"total": "0.123"}


def test_text_is_stored_only_on_demand() -> None:
    data = Receipt.of(EVIDENCE).to_bytes()
    assert "naïve".encode() not in data
    assert "naïve".encode() in Receipt.of(EVIDENCE, include_text=True).to_bytes()


def test_equal_prompts_do_not_show_in_their_digests() -> None:
    one, other = Receipt.of(EVIDENCE), Receipt.of(EVIDENCE)
    assert one.replayed["prompt"] != other.replayed["prompt"]
    assert one.replayed["output"] == other.replayed["output"]
    assert Receipt.of(EVIDENCE, salt=b"x") == Receipt.of(EVIDENCE, salt=b"x")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_equal_values_have_one_spelling(value: Any) -> None:
    assert parse_readable(readable_bytes(value)) == value
    if isinstance(value, dict):
        assert canonical_bytes(value) == canonical_bytes(dict(reversed(value.items())))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_kept_to_the_bit(value: float) -> None:
    assert float(exact_decimal(value)).hex() == value.hex()
    assert plain({"x": [value]}) == {"x": [repr(value)]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", {1: 2}, {"a": object()}, {"a": [{1}]}])
def test_what_receipts_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ReceiptError):
        plain(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}\n",
        b"[]\n",
        b"\xff\n",
        b"nonsense\n",
        b'{"a": 1.5}\n',
        b'{"a": NaN}\n',
        b'{"a": 1,\n "a": 2}\n',
        b"[" * 100_000,
        b'{\n "format": "verispec receipt 2"\n}\n',
    ],
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(ReceiptError):
        Receipt.from_bytes(data)


@pytest.mark.parametrize(
    "path", ["replayed.runtime", "replayed.prompt.salt", "replayed.output.tokens", "attested"]
)
def test_a_rehashed_receipt_without_what_it_needs_is_refused(path: str) -> None:
    body = json.loads(canonical_bytes(Receipt.of(EVIDENCE).body))
    *outer, last = path.split(".")
    section = body
    for name in outer:
        section = section[name]
    for wrong in (None, 7.5, [], True, "absent"):
        if wrong == "absent":
            del section[last]
        else:
            section[last] = str(wrong) if isinstance(wrong, float) and last != "salt" else wrong
        if last == "salt" and wrong == 7.5:
            continue
        with pytest.raises(ReceiptError, match="expected"):
            Receipt.from_bytes(Receipt(body).to_bytes())


def test_signatures_hold() -> None:
    receipt = sign(Receipt.of(EVIDENCE), KEY)
    public = check_signature(receipt)
    assert public is not None
    assert check_signature(Receipt.from_bytes(receipt.to_bytes()), bytes.fromhex(public)) == public
    assert check_signature(Receipt.of(EVIDENCE)) is None


def test_signatures_that_do_not_hold_are_refused() -> None:
    receipt = sign(Receipt.of(EVIDENCE), KEY)
    assert receipt.signature is not None
    other = sign(Receipt.of(EVIDENCE), OTHER_KEY)  # another salt, another body
    assert other.signature is not None
    forged = [
        dataclasses.replace(receipt, signature=other.signature),
        dataclasses.replace(receipt, signature={**receipt.signature, "signature": "00" * 64}),
        dataclasses.replace(receipt, signature={**receipt.signature, "signature": "xyz"}),
        dataclasses.replace(
            receipt, signature={**receipt.signature, "public_key": other.signature["public_key"]}
        ),
        dataclasses.replace(receipt, signature={**receipt.signature, "algorithm": "none"}),
        dataclasses.replace(receipt, signature={}),
    ]
    for one in forged:
        assert verify(one.to_bytes(), never_loaded).verdict is Verdict.ALTERED
    wrong_signer = verify(receipt, never_loaded, public_key=bytes.fromhex(other.signature["public_key"]))
    assert wrong_signer.verdict is Verdict.ALTERED
    assert verify(Receipt.of(EVIDENCE), never_loaded, public_key=KEY).verdict is Verdict.ALTERED
    with pytest.raises(ReceiptError, match="expected 32 bytes"):
        sign(receipt, b"short")


def test_without_cryptography_signatures_are_unchecked_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = sign(Receipt.of(EVIDENCE), KEY)

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(signatures, "import_module", missing)
    found = verify(receipt, never_loaded)
    assert (found.verdict, found.signature, found.signed_by) == (Verdict.PROMPT_REQUIRED, "unchecked", None)
    assert receipt.signature is not None
    with pytest.raises(UnsupportedError, match="cryptography-missing"):
        verify(receipt, never_loaded, public_key=bytes.fromhex(receipt.signature["public_key"]))

"""Token ids equal those of the tokenisers that the models were trained with (golden ids from the peers)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verispec.text.detokenizer import Detokenizer
from verispec.text.tokenizer import Tokenizer

GOLDEN = sorted((Path(__file__).parent / "data").glob("golden_tokens_*.json"))


@pytest.fixture(scope="module", params=GOLDEN, ids=lambda path: path.stem.removeprefix("golden_tokens_"))
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(request.param.read_text("utf-8"))
    facts["tokenizer"] = Tokenizer.from_gguf(facts["metadata"], request.param.name)
    return facts


def test_golden_files_are_there() -> None:
    names = {path.stem.removeprefix("golden_tokens_") for path in GOLDEN}
    assert {"smollm2", "gemma3", "llama-bpe", "qwen2", "deepseek-v3", "gpt-4o"} <= names


def test_ids_equal_the_peers(golden: dict[str, Any]) -> None:
    tokenizer: Tokenizer = golden["tokenizer"]
    different = [
        case for case in golden["cases"] if tokenizer.encode(case["text"], add_bos=False) != case["ids"]
    ]
    assert different == []
    assert len(golden["cases"]) > 100


def test_decoding_gives_the_text_back(golden: dict[str, Any]) -> None:
    """Where every byte has a token and the family neither composes characters nor writes spaces as ▁."""
    tokenizer: Tokenizer = golden["tokenizer"]
    if golden["metadata"].get("tokenizer.ggml.pre") == "qwen2":
        return
    complete = {tokenizer.token_bytes(token) for token in range(tokenizer.vocabulary_size)}
    for case in golden["cases"]:
        text = case["text"]
        if all(bytes([byte]) in complete for byte in text.encode()) and "▁" not in text:
            assert tokenizer.decode(case["ids"]) == text


def test_streaming_the_golden_ids_gives_the_decoded_text(golden: dict[str, Any]) -> None:
    tokenizer: Tokenizer = golden["tokenizer"]
    for case in golden["cases"]:
        detokenizer = Detokenizer(tokenizer, at_text_start=True)
        streamed = "".join(map(detokenizer.push, case["ids"])) + detokenizer.flush()
        assert streamed == tokenizer.decode(case["ids"])

"""A vocabulary that contradicts itself is an ArtifactError that names file, key and what was found."""

from __future__ import annotations

from typing import Any

import pytest

from small_vocabularies import byte_level, sentencepiece
from verispec.errors import ArtifactError
from verispec.text.tokenizer import Tokenizer

LARGE = 10**6
TOKENS = byte_level()["tokenizer.ggml.tokens"]
PIECES = sentencepiece()["tokenizer.ggml.tokens"]

FAULTS = {
    "no model": (byte_level(model=None), "model", "nothing"),
    "unknown model": (byte_level(model="t5"), "model", "'t5'"),
    "unknown pre-tokeniser": (byte_level(pre="frobnicate"), "pre", "'frobnicate'"),
    "pre-tokeniser is no text": (byte_level(pre=7), "pre", "7"),
    "no tokens": (byte_level(tokens=[], token_type=[]), "tokens", "none"),
    "tokens are no texts": (byte_level(tokens=[*TOKENS[:-1], 5]), "tokens", "elements of type int"),
    "tokens are no list": (byte_level(tokens="abc"), "tokens", "'abc'"),
    "a token twice": (byte_level(tokens=[*TOKENS[:-1], "he"]), "tokens", "'he' at 256 and 262"),
    "types missing for some": (byte_level(token_type=[1] * 5), "token_type", "5"),
    "a type that is none": (byte_level(token_type=[1] * 262 + [9]), "token_type", "9 at token 262"),
    "no merges": (byte_level(merges=None), "merges", "none"),
    "a merge of no token": (byte_level(merges=["h e", "x yz"]), "merges", "'x yz' at 1"),
    "a merge into no token": (byte_level(merges=["h e", "e h"]), "merges", "'e h' at 1"),
    "a merge of one": (byte_level(merges=["he"]), "merges", "'he' at 0"),
    "end token outside": (byte_level(eos_token_id=263), "eos_token_id", "263"),
    "begin token negative": (byte_level(bos_token_id=-1), "bos_token_id", "-1"),
    "begin token no number": (byte_level(bos_token_id="1"), "bos_token_id", "'1'"),
    "begin token wanted, not named": (
        byte_level(bos_token_id=None, add_bos_token=True),
        "bos_token_id",
        "nothing",
    ),
    "add_bos_token no bool": (byte_level(add_bos_token=1), "add_bos_token", "1"),
    "scores missing": (sentencepiece(scores=None), "scores", "none"),
    "scores missing for some": (sentencepiece(scores=[0.0]), "scores", "1"),
    "a score that is no number": (
        sentencepiece(scores=[float("nan")] * len(PIECES)),
        "scores",
        "infinity or NaN",
    ),
    "a malformed byte token": (
        sentencepiece(tokens=[*PIECES[:3], "<0xZZ>", *PIECES[4:]]),
        "tokens",
        "'<0xZZ>' at 3",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named(fault: str) -> None:
    metadata, key, found = FAULTS[fault]
    with pytest.raises(ArtifactError) as caught:
        Tokenizer.from_gguf(metadata, "broken.gguf")
    assert caught.value.file == "broken.gguf"
    assert caught.value.where == f"metadata key 'tokenizer.ggml.{key}'"
    assert found in caught.value.found


@pytest.mark.parametrize("key", ["tokens", "token_type", "scores", "merges", "pre", "model", "add_bos_token"])
@pytest.mark.parametrize("value", [None, 0, 1.5, True, "x", [], ["a"], [1], [True], [1.5], [-LARGE]])
@pytest.mark.parametrize("make", [byte_level, sentencepiece])
def test_nothing_but_artifact_errors_escapes(make: Any, key: str, value: object) -> None:
    try:
        tokenizer = Tokenizer.from_gguf(make(**{key: value}))
    except ArtifactError:
        return
    tokenizer.decode(tokenizer.encode("hello \n\n\x00ä"))


def test_unnamed_tokens_are_allowed_and_never_produced() -> None:
    tokens = [*TOKENS, "", ""]
    tokenizer = Tokenizer.from_gguf(byte_level(tokens=tokens, token_type=[1] * len(tokens)))
    assert tokenizer.vocabulary_size == len(tokens)
    assert tokenizer.decode([len(TOKENS)]) == ""


def test_digest_changes_with_every_fact() -> None:
    changes = [
        {},
        {"pre": "smollm"},
        {"eos_token_id": 260},
        {"merges": ["l l", "h e", "he ll", "hell o"]},
        {"token_type": [1] * 260 + [3, 3, 3]},
        {"tokens": [*TOKENS[:-1], "<tools>"]},
        {"add_bos_token": True},
        {"padding_token_id": 0},
    ]
    digests = [Tokenizer.from_gguf(byte_level(**change)).digest for change in changes]
    assert len(set(digests)) == len(changes)
    assert digests[0] == Tokenizer.from_gguf(byte_level(), "elsewhere").digest
    other = sentencepiece()
    scores = [*other["tokenizer.ggml.scores"]]
    scores[-1] -= 0.5
    changed = Tokenizer.from_gguf(sentencepiece(scores=scores))
    assert Tokenizer.from_gguf(other).digest != changed.digest

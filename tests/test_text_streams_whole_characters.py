"""The stream never shows half a character, and all of it together is the decoding of all ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_vocabularies import byte_level, sentencepiece
from verispec.errors import OptionError
from verispec.text.detokenizer import Detokenizer
from verispec.text.tokenizer import Tokenizer

TOKENIZERS = [
    Tokenizer.from_gguf(byte_level()),
    Tokenizer.from_gguf(sentencepiece()),
    Tokenizer.from_gguf(sentencepiece(add_space_prefix=True)),
]

tokenizers = st.sampled_from(TOKENIZERS)
# Byte tokens come first in both vocabularies, so random ids are mostly broken UTF-8; texts are mostly whole.
id_lists = st.one_of(
    st.lists(st.integers(0, 262), max_size=40),
    st.lists(st.sampled_from([*"aé日🤖", "hello", " "]), max_size=10).map(
        lambda parts: [*"".join(parts).encode()]
    ),
)
flags = st.booleans()


def stream(detokenizer: Detokenizer, ids: list[int]) -> list[str]:
    return [*map(detokenizer.push, ids), detokenizer.flush()]


@given(tokenizers, id_lists, flags, flags)
def test_the_stream_is_the_decoding(tokenizer: Tokenizer, ids: list[int], skip: bool, start: bool) -> None:
    pieces = stream(Detokenizer(tokenizer, skip_special=skip, at_text_start=start), ids)
    assert "".join(pieces) == tokenizer.decode(ids, skip_special=skip, at_text_start=start)
    shown = [token for token in ids if not (skip and tokenizer.is_control(token))]
    data = b"".join(map(tokenizer.token_bytes, shown))
    if start and tokenizer.space_prefix:
        data = data.removeprefix(b" ")
    assert "".join(pieces) == data.decode("utf-8", "replace")


@given(tokenizers, st.text())
def test_whole_text_is_never_shown_broken(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_bos=False)
    pieces = stream(Detokenizer(tokenizer), ids)
    assert "\ufffd" in text or all("\ufffd" not in piece for piece in pieces)


@given(tokenizers, id_lists, id_lists, id_lists, flags)
def test_restoring_forgets_what_came_after(
    tokenizer: Tokenizer, before: list[int], rejected: list[int], after: list[int], start: bool
) -> None:
    detokenizer = Detokenizer(tokenizer, at_text_start=start)
    text = "".join(map(detokenizer.push, before))
    checkpoint = detokenizer.checkpoint()
    for token in rejected:
        detokenizer.push(token)
    detokenizer.restore(checkpoint)
    text += "".join(stream(detokenizer, after))
    assert text == tokenizer.decode(before + after, at_text_start=start)


def test_characters_wait_for_their_last_byte() -> None:
    for tokenizer in TOKENIZERS[:2]:
        first_byte = 3 if tokenizer.vocabulary.model == "llama" else 0
        detokenizer = Detokenizer(tokenizer)
        pieces = [detokenizer.push(first_byte + byte) for byte in "🤖é".encode()]
        assert pieces == ["", "", "", "🤖", "", "é"]
        assert detokenizer.flush() == ""
        assert detokenizer.push(first_byte + 0xF0) == ""
        assert detokenizer.flush() == "\ufffd"


def test_control_tokens_are_shown_only_on_demand() -> None:
    tokenizer = TOKENIZERS[0]
    assert stream(Detokenizer(tokenizer), [260, 259, 261]) == ["", "hello", "", ""]
    assert stream(Detokenizer(tokenizer, skip_special=False), [260, 259]) == ["<|im_start|>", "hello", ""]
    assert stream(Detokenizer(tokenizer), [262]) == ["<tool>", ""]  # user-defined: part of the text


def test_only_the_first_space_of_a_text_is_dropped() -> None:
    tokenizer = TOKENIZERS[2]
    space_hello = tokenizer.encode("hello", add_bos=False)
    assert stream(Detokenizer(tokenizer, at_text_start=True), space_hello * 2) == ["hello", " hello", ""]
    assert stream(Detokenizer(tokenizer), space_hello) == [" hello", ""]


@pytest.mark.parametrize("token", [-1, 263, 10**9])
def test_ids_outside_the_vocabulary_are_refused(token: int) -> None:
    tokenizer = TOKENIZERS[0]
    for use in (Detokenizer(tokenizer).push, tokenizer.token_bytes, lambda bad: tokenizer.decode([bad])):
        with pytest.raises(OptionError, match="token id: expected 0 to 262"):
            use(token)

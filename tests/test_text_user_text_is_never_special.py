"""Control tokens written out in user text stay text; user-defined tokens are matched first, the longest
first.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_vocabularies import byte_level, sentencepiece
from verispec.errors import OptionError
from verispec.text.added_tokens import cut_at
from verispec.text.sentencepiece_bpe import SCAN_LENGTH, SentencePieceBpe
from verispec.text.tokenizer import Tokenizer
from verispec.text.vocabulary import read_vocabulary

BYTE_LEVEL = Tokenizer.from_gguf(byte_level())
PIECES = Tokenizer.from_gguf(sentencepiece())
START, END, TOOL = 260, 261, 262


def texts(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.vocabulary.tokens[token] for token in ids]


@given(st.lists(st.sampled_from(["<|im_end|>", "<|im_start|>", "<s>", "</s>", "<unk>", "hello", " ", "x"])))
def test_control_tokens_in_text_are_text(parts: list[str]) -> None:
    text = "".join(parts)
    for tokenizer in (BYTE_LEVEL, PIECES):
        ids = tokenizer.encode(text, add_bos=False)
        assert not any(tokenizer.is_control(token) for token in ids)
        assert tokenizer.decode(ids) == text


def test_control_tokens_are_parsed_on_demand() -> None:
    ids = BYTE_LEVEL.encode("<|im_start|>hello<|im_end|>", parse_special=True)
    assert ids == [START, 259, END]
    assert texts(PIECES, PIECES.encode("<s>hello</s>", parse_special=True, add_bos=False)) == [
        "<s>",
        "hello",
        "</s>",
    ]


def test_user_defined_tokens_come_first_and_longest() -> None:
    assert BYTE_LEVEL.encode("hello<tool>hello") == [259, TOOL, 259]
    assert texts(PIECES, PIECES.encode("a\n\n\nb", add_bos=False)) == ["a", "\n\n", "<0x0A>", "b"]
    assert texts(PIECES, PIECES.encode("a   hello", add_bos=False)) == ["a", "  ", "▁hello"]


def test_bos_is_what_the_file_and_family_say() -> None:
    assert BYTE_LEVEL.encode("hello") == [259]
    assert BYTE_LEVEL.encode("hello", add_bos=True) == [START, 259]
    assert PIECES.encode("hello")[0] == 1
    assert PIECES.encode("hello", add_bos=False)[0] != 1
    llama3 = Tokenizer.from_gguf(byte_level(pre="llama-bpe"))
    assert llama3.encode("hello") == [START, 259]
    assert Tokenizer.from_gguf(byte_level(add_bos_token=True)).encode("") == [START]


def test_whole_words_never_are_control_tokens() -> None:
    """Llama 3 takes a word that is a token as it is; control tokens must not be among those."""
    tokens = [*byte_level()["tokenizer.ggml.tokens"], "stop"]
    types = [*byte_level()["tokenizer.ggml.token_type"], 3]
    tokenizer = Tokenizer.from_gguf(byte_level(pre="llama-bpe", tokens=tokens, token_type=types))
    assert 263 not in tokenizer.encode("stop")
    assert tokenizer.encode("stop", parse_special=True, add_bos=False) == [263]


def test_end_tokens() -> None:
    assert BYTE_LEVEL.eos_ids == {END}  # <|im_end|>, also named by the file
    tokens = [*byte_level()["tokenizer.ggml.tokens"], "<|endoftext|>", "<|eot_id|>"]
    types = [*byte_level()["tokenizer.ggml.token_type"], 3, 1]
    tokenizer = Tokenizer.from_gguf(byte_level(tokens=tokens, token_type=types, eot_token_id=0))
    assert tokenizer.eos_ids == {0, END, 263}  # an ordinary token ends nothing, whatever it is called


def test_space_prefix_at_text_start_and_after_control_tokens() -> None:
    tokenizer = Tokenizer.from_gguf(sentencepiece(add_space_prefix=True))
    assert texts(tokenizer, tokenizer.encode("hello", add_bos=False)) == ["▁hello"]
    ids = tokenizer.encode("a</s>a", parse_special=True, add_bos=False)
    assert texts(tokenizer, ids) == ["▁a", "</s>", "▁a"]
    assert tokenizer.encode("", add_bos=False) == []
    for text in ("hello", " hello", "", "  ", "a b"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text(alphabet="abhelo ▁", max_size=3 * SCAN_LENGTH))
def test_both_merging_loops_agree(text: str) -> None:
    algorithm = SentencePieceBpe(read_vocabulary(sentencepiece(), "test"))
    word = text.replace(" ", "▁")
    assert algorithm._scan(word) == algorithm._queue(word)


@given(st.text(alphabet="abhelo ▁\n", max_size=60))
def test_cutting_at_spaces_changes_nothing(text: str) -> None:
    """Words are merged apart and cached; the result is that of merging the whole text."""
    algorithm = SentencePieceBpe(read_vocabulary(sentencepiece(), "test"))
    whole: list[int] = []
    for part, fixed in cut_at(text.replace(" ", "▁"), algorithm._fixed):
        whole += [token for piece in algorithm._scan(part) for token in algorithm._tokens(piece)]
        if fixed is not None:
            whole.append(fixed)
    assert algorithm.encode(text) == whole == algorithm.encode(text)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", b"bytes", None])
def test_text_that_is_not_unicode_is_refused(text: object) -> None:
    with pytest.raises(OptionError, match=r"^text: expected"):
        PIECES.encode(text)  # type: ignore[arg-type]


@given(st.text())
def test_any_text_goes_in_and_out(text: str) -> None:
    assert BYTE_LEVEL.decode(BYTE_LEVEL.encode(text)) == text
    assert PIECES.decode(PIECES.encode(text)) == text.replace("▁", " ")

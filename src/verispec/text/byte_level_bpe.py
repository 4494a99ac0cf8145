"""Byte-level BPE (``tokenizer.ggml.model`` = ``gpt2``), run by the ``tokenizers`` library."""

from __future__ import annotations

from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models

from verispec.text.pre_tokenizers import RULES
from verispec.text.vocabulary import CONTROL, UNKNOWN, USER_DEFINED, Vocabulary


def byte_characters() -> list[str]:
    """The printable character that stands for each byte in token texts (GPT-2's published table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


# str.translate table from those characters to the code points 0..255, so that latin-1 gives the bytes
_BYTE_OF_CHARACTER = {ord(character): byte for byte, character in enumerate(byte_characters())}
_ALPHABET = frozenset(byte_characters())


class ByteLevelBpe:
    """Encodes text that holds no added tokens any more."""

    def __init__(self, vocabulary: Vocabulary, published: LibraryTokenizer | None = None) -> None:
        """``published``: the family's own pipeline, where it came with the model, without added tokens."""
        self._vocabulary = vocabulary
        self.space_prefix = False
        self.add_bos = False
        self._library = self._pipeline(vocabulary) if published is None else published

    def _pipeline(self, vocabulary: Vocabulary) -> LibraryTokenizer:
        rules = RULES.get(vocabulary.pre)
        if rules is None:
            known = ", ".join(RULES)
            vocabulary.fail("pre", f"a pre-tokeniser that is known here ({known})", ascii(vocabulary.pre))
        ids = vocabulary.ids
        if rules.whole_words:  # otherwise a word of user text could be a control token
            ids = {text: token for text, token in ids.items() if vocabulary.types[token] != CONTROL}
        try:
            model = models.BPE(ids, _pairs(vocabulary), ignore_merges=rules.whole_words)
        except Exception as error:  # the library raises bare Exception
            vocabulary.fail("merges", "merges that fit the tokens", str(error))
        library = LibraryTokenizer(model)
        library.pre_tokenizer = rules.pre_tokenizer()
        normalizer = rules.normalizer()
        if normalizer is not None:
            library.normalizer = normalizer
        self.add_bos = rules.add_bos
        return library

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``. Bytes that the vocabulary has no token for vanish, as in the published
        tokenisers.
        """
        ids: list[int] = self._library.encode(text, add_special_tokens=False).ids
        return ids

    def token_bytes(self, token: int) -> bytes:
        text = self._vocabulary.tokens[token]
        literal = self._vocabulary.types[token] in (CONTROL, UNKNOWN, USER_DEFINED)
        if literal or not _ALPHABET.issuperset(text):
            return text.encode("utf-8", "surrogatepass")
        return text.translate(_BYTE_OF_CHARACTER).encode("latin-1")


def _pairs(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Merges as pairs, best first. Raises ArtifactError for one whose parts or result are not tokens."""
    if not vocabulary.merges:
        vocabulary.fail("merges", "merges", "none")
    ids = vocabulary.ids
    pairs = []
    for rank, merge in enumerate(vocabulary.merges):
        left, _, right = merge.partition(" ")
        if left not in ids or right not in ids or left + right not in ids:
            vocabulary.fail("merges", "two tokens that make a third", f"{merge!a} at {rank}")
        pairs.append((left, right))
    return pairs

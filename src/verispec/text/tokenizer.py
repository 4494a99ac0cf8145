"""Text to token ids and back, from a model file's own facts.

User text never becomes a control token: ``encode`` treats ``<|im_end|>`` as the characters it is, unless
``parse_special`` says that the text comes from a template. User-defined tokens are matched first, always.

Ids equal those of the tokeniser that the model was trained with, also where llama.cpp differs (composed
characters, bytes the vocabulary lacks, end tokens guessed by name): ``benchmarks/golden_tokens.py`` compares
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from tokenizers import Tokenizer as LibraryTokenizer

from verispec.errors import OptionError
from verispec.text.added_tokens import cut_at
from verispec.text.byte_level_bpe import ByteLevelBpe
from verispec.text.sentencepiece_bpe import SentencePieceBpe
from verispec.text.vocabulary import CONTROL, UNKNOWN, USER_DEFINED, Vocabulary, read_vocabulary


class Tokenizer:
    """Use ``Tokenizer.from_gguf`` or ``published_files``. Safe to share between threads."""

    def __init__(self, vocabulary: Vocabulary, published: LibraryTokenizer | None = None) -> None:
        """``published``: see ``ByteLevelBpe``."""
        self.vocabulary = vocabulary
        if vocabulary.model == "gpt2":
            self._algorithm: ByteLevelBpe | SentencePieceBpe = ByteLevelBpe(vocabulary, published)
        elif vocabulary.model == "llama":
            self._algorithm = SentencePieceBpe(vocabulary)
        else:
            vocabulary.fail(
                "model", "'gpt2' (byte-level) or 'llama' (SentencePiece)", ascii(vocabulary.model)
            )
        default = self._algorithm.add_bos if vocabulary.add_bos is None else vocabulary.add_bos
        self.add_bos = default and self.bos_id is not None
        if vocabulary.add_bos and self.bos_id is None:
            vocabulary.fail("bos_token_id", "an id, since add_bos_token is true", "nothing")
        self.space_prefix = self._algorithm.space_prefix
        self.pieces = TokenPieces(self._algorithm, vocabulary)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object], source: str = "GGUF metadata") -> Tokenizer:
        """Builds the tokeniser that ``metadata`` describes.

        Raises ArtifactError naming ``source`` (a file name) and the key at fault.
        """
        return cls(read_vocabulary(metadata, source))

    @property
    def vocabulary_size(self) -> int:
        return len(self.vocabulary.tokens)

    @property
    def bos_id(self) -> int | None:
        return self.vocabulary.special.get("bos")

    @property
    def eos_ids(self) -> frozenset[int]:
        """Every token that ends a generation."""
        return self.vocabulary.end_ids

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the facts that decide ids and text."""
        return self.vocabulary.digest

    @cached_property
    def control_texts(self) -> dict[str, int]:
        """Texts that are control tokens in template text. One-character ones are never matched in text."""
        tokens = self.vocabulary.tokens
        control = self.vocabulary.of_type(CONTROL, UNKNOWN)
        return {tokens[token]: token for token in control if len(tokens[token]) > 1}

    def encode(
        self,
        text: str,
        *,
        parse_special: bool = False,
        add_bos: bool | None = None,
        guard: str = "",
        at_text_start: bool = True,
    ) -> list[int]:
        """Token ids of ``text``.

        ``parse_special``: control tokens written out in the text become those tokens. ``add_bos``: None does
        what the model expects. ``guard``: a character removed after control tokens have been looked for, so
        that text it is put into cannot be one. ``at_text_start`` False: the text goes on after other text, so
        that the encoder of some models puts no space there. Raises OptionError for text that is not valid
        Unicode.
        """
        _check_text(text)
        begin = self.add_bos if add_bos is None else add_bos
        ids = [self.bos_id] if begin and self.bos_id is not None else []
        at_start = at_text_start
        for part, token in cut_at(text, self.control_texts) if parse_special else ((text, None),):
            if guard:
                part = part.replace(guard, "")
            if part:
                ids += self._encode_plain(part, at_start)
                at_start = False
            if token is not None:
                ids.append(token)
                at_start = True
        return ids

    def _encode_plain(self, text: str, at_start: bool) -> list[int]:
        if isinstance(self._algorithm, SentencePieceBpe):  # matches user-defined tokens itself
            return self._algorithm.encode(text, prefix=at_start and self.space_prefix)
        ids: list[int] = []
        for part, token in cut_at(text, self._user_defined):
            if part:
                ids += self._algorithm.encode(part)
            if token is not None:
                ids.append(token)
        return ids

    @cached_property
    def _user_defined(self) -> dict[str, int]:
        tokens = self.vocabulary.tokens
        return {tokens[token]: token for token in self.vocabulary.of_type(USER_DEFINED) if tokens[token]}

    def token_bytes(self, token: int) -> bytes:
        """The bytes ``token`` adds to a text; a control token's are those of its name."""
        return self.pieces[token]

    def is_control(self, token: int) -> bool:
        """Whether ``token`` is markup that decoded text does not show."""
        return 0 <= token < self.vocabulary_size and self.vocabulary.types[token] in (CONTROL, UNKNOWN)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True, at_text_start: bool = True) -> str:
        """Text of ``ids``. Bytes that are not UTF-8 become U+FFFD as ``bytes.decode(errors="replace")`` does.

        ``at_text_start``: the ids begin a text, so the space that the model's encoder put there is dropped.
        Raises OptionError for an id outside the vocabulary.
        """
        pieces = self.pieces
        data = b"".join([pieces[token] for token in ids if not (skip_special and self.is_control(token))])
        if at_text_start and self.space_prefix and data.startswith(b" "):
            data = data[1:]
        return data.decode("utf-8", "replace")


class TokenPieces(dict[int, bytes]):
    """Bytes of each token, made at first use: vocabularies are large and answers short."""

    def __init__(self, algorithm: ByteLevelBpe | SentencePieceBpe, vocabulary: Vocabulary) -> None:
        self._algorithm = algorithm
        self._size = len(vocabulary.tokens)

    def __missing__(self, token: int) -> bytes:
        if not 0 <= token < self._size:
            raise OptionError(f"token id: expected 0 to {self._size - 1}, found {token}")
        piece = self[token] = self._algorithm.token_bytes(token)
        return piece


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise OptionError(f"text: expected a string, found {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"half a surrogate pair at character {error.start}"
        raise OptionError(f"text: expected Unicode, found {found}") from error

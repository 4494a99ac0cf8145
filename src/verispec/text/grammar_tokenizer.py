"""Our tokeniser as ``llguidance`` wants to see it, made once for each."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary, ref

from llguidance import LLTokenizer, TokenizerWrapper

from verispec.errors import GrammarError
from verispec.text.grammar_lookahead import CompiledGrammars
from verispec.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class GrammarTokenizer:
    """The library's view of a tokeniser, and the grammars last compiled for it."""

    tokenizer: LLTokenizer
    grammars: CompiledGrammars = field(default_factory=CompiledGrammars)


_made: WeakKeyDictionary[Tokenizer, GrammarTokenizer] = WeakKeyDictionary()
_making = threading.Lock()


def grammar_tokenizer(tokenizer: Tokenizer) -> GrammarTokenizer:
    """The view of ``tokenizer``; it takes some 0.3 s for 49k tokens, and nothing from the second time on.

    It lasts as long as the tokeniser, which must live while a grammar is followed.
    """
    with _making:
        made = _made.get(tokenizer)
        if made is None:
            ends = sorted(tokenizer.eos_ids)
            made = GrammarTokenizer(LLTokenizer(TokenizerWrapper(_Facts(tokenizer)), eos_token=ends or None))
            _made[tokenizer] = made
        return made


class _Facts:
    """What the library asks for: bytes of all tokens, which of them text never is, and how text is encoded."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        ends = tokenizer.eos_ids
        size = range(tokenizer.vocabulary_size)
        self.tokens = [tokenizer.token_bytes(token) for token in size]
        self.special_token_ids = [token for token in size if tokenizer.is_control(token) or token in ends]
        self.eos_token_id = min(ends, default=None)
        self.bos_token_id = tokenizer.bos_id
        self._tokenizer = ref(
            tokenizer
        )  # the library would keep it alive for ever: it hides this from the collector

    def __call__(self, data: bytes) -> list[int]:
        """Token ids of forced text. They stand for exactly its bytes, also where the tokeniser would normalise it."""
        tokenizer = self._tokenizer()
        if tokenizer is None:
            raise GrammarError("grammar: its tokeniser is gone")
        ids = tokenizer.encode(data.decode(), add_bos=False, at_text_start=False)
        if b"".join([self.tokens[token] for token in ids]) == data:
            return ids
        return self._longest_matches(data)

    def _longest_matches(self, data: bytes) -> list[int]:
        ids: list[int] = []
        start = 0
        while start < len(data):
            for end in range(min(len(data), start + self._longest), start, -1):
                token = self._by_bytes.get(data[start:end])
                if token is not None:
                    ids.append(token)
                    start = end
                    break
            else:
                raise GrammarError(f"grammar: no token of the model writes byte 0x{data[start]:02X}")
        return ids

    @cached_property
    def _by_bytes(self) -> dict[bytes, int]:
        hidden = set(self.special_token_ids)
        return {piece: token for token, piece in enumerate(self.tokens) if piece and token not in hidden}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._by_bytes), default=0)

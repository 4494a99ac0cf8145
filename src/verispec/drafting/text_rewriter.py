"""Text from one model's tokens into another's and back: exactly the same text, cut only where both cut it."""

from __future__ import annotations

from collections.abc import Sequence

from verispec.text.tokenizer import Tokenizer

WORD_STARTS = (b" ", b"\n")
LOOK_BACK = 8
"""Committed tokens that are encoded again with what follows, at least: a word's tokens depend on the whole word."""


class TextRewriter:
    """``target`` and ``draft`` are the tokenisers of the two models."""

    def __init__(self, target: Tokenizer, draft: Tokenizer) -> None:
        self._target = target
        self._draft = draft

    def to_draft(self, tokens: Sequence[int]) -> list[int] | None:
        """The draft model's tokens for the text of the target's ``tokens``; None while it ends within a character.

        A control token becomes the draft model's of the same name, or nothing where it has none.
        """
        ids: list[int] = []
        begin = 0
        for index in [i for i, token in enumerate(tokens) if self._target.is_control(token)]:
            ids += self._encoded(tokens[begin:index], not begin) or []
            name = self._target.vocabulary.tokens[tokens[index]]
            known = self._draft.control_texts.get(name)
            ids += [] if known is None else [known]
            begin = index + 1
        last = self._encoded(tokens[begin:], not begin)
        return None if last is None else ids + last

    def _encoded(self, tokens: Sequence[int], at_start: bool) -> list[int] | None:
        text = text_of(self._target, tokens)
        return None if text is None else self._draft.encode(text, add_bos=False, at_text_start=at_start)

    def drafted_bytes(self, token: int) -> bytes | None:
        """What the draft model's ``token`` adds to the text; None for one that ends it."""
        ends = self._draft.is_control(token) or token in self._draft.eos_ids
        return None if ends else self._draft.token_bytes(token)

    def target_bytes(self, token: int) -> bytes:
        """What the target's ``token`` adds to the text."""
        return self._target.token_bytes(token)

    def to_target(self, tokens: Sequence[int], added: bytes) -> list[int]:
        """The target's tokens for ``added`` behind its ``tokens``, but the last, which more text might still change.

        Empty where the target would have encoded the text so far otherwise than it stands, or a character is cut.
        """
        begin = self._boundary(tokens)
        before = b"".join(self._target.token_bytes(token) for token in tokens[begin:])
        try:
            text = (before + added).decode()
        except UnicodeDecodeError as error:
            if error.end < len(before) + len(added):
                return []
            text = (before + added)[: error.start].decode()  # the last character is still to come
        again = self._target.encode(text, add_bos=False, at_text_start=False)
        own = len(tokens) - begin
        return again[own:-1] if again[:own] == list(tokens[begin:]) else []

    def _boundary(self, tokens: Sequence[int]) -> int:
        """Where a word begins, or a control token has just been, a few tokens back."""
        for index in range(len(tokens) - LOOK_BACK, 0, -1):
            if self._target.is_control(tokens[index - 1]):
                return index
            if self._target.token_bytes(tokens[index]).startswith(WORD_STARTS):
                return index
        return next((i + 1 for i, token in enumerate(tokens) if self._target.is_control(token)), 0)


def text_of(tokenizer: Tokenizer, tokens: Sequence[int]) -> str | None:
    """The text of tokens; None where it is none, or ends within a character."""
    try:
        return b"".join(tokenizer.token_bytes(token) for token in tokens).decode()
    except UnicodeDecodeError:
        return None
